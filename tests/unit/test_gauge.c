/* SPDX-License-Identifier: MIT */
/* The oldest message that waits.  Fills have tests of their own, in
 * test_writer_limits.c and test_room.c. */
#include "gauge.h"

#include <sqlite3.h>

#include "schema.h"
#include "store_world.h"

static struct gauge gauge;

static int set_up(void **state)
{
    struct world *w = world_open(state);

    memset(&gauge, 0, sizeof(gauge));
    assert_ok(postbag__gauge_open(&gauge, &w->db, &w->sim.port));
    return 0;
}

static int tear_down(void **state)
{
    postbag__gauge_close(&gauge);
    return world_close(state);
}

static int64_t oldest_s(struct world *w)
{
    struct postbag_pressure p;

    assert_ok(postbag__gauge_read(&gauge, &p));
    assert_int_equal(p.free_bytes, w->sim.room.free_bytes);
    return p.oldest_age_ms / 1000;
}

/* So many seconds ago, by the wall clock. */
static void put(struct world *w, int age_s, int priority, const char *dest)
{
    sql_run(w->t.app,
        "INSERT INTO outbox(topic, payload, priority, dest, created_ms)"
        " VALUES ('t', '', %d, nullif('%s', ''), %lld)",
        priority, dest, (long long)(w->sim.wall_ms - age_s * 1000));
}

static void settle(struct world *w, const char *dest, int lane, int upto)
{
    sql_run(w->t.app,
        "UPDATE outbox_cursor SET acked = %d WHERE dest = '%s' AND lane = %d",
        upto, dest, lane);
}

static void test_gauge_oldest_of_all_lanes_is_told(void **state)
{
    struct world *w = *state;

    assert_int_equal(oldest_s(w), 0);
    put(w, 90, 0, ""); /* 1 */
    put(w, 80, 3, ""); /* 2 */
    put(w, 70, 0, ""); /* 3 */
    put(w, 60, 1, ""); /* 4 */
    assert_int_equal(oldest_s(w), 90);
    settle(w, "main", 0, 1);
    assert_int_equal(oldest_s(w), 80);
    settle(w, "main", 3, 2);
    assert_int_equal(oldest_s(w), 70);
    settle(w, "main", 0, 3);
    assert_int_equal(oldest_s(w), 60);
    settle(w, "main", 1, 4);
    assert_int_equal(oldest_s(w), 0);
}

static void test_gauge_slowest_destination_counts(void **state)
{
    struct world *w = *state;

    assert_ok(postbag__schema_add_dest(&w->db, "cloud"));
    put(w, 90, 0, "main"); /* 1 */
    put(w, 80, 0, "");     /* 2 */
    put(w, 70, 0, "cloud");
    settle(w, "main", 0, 3);
    assert_int_equal(oldest_s(w), 80); /* the first is not cloud's */
    settle(w, "cloud", 0, 2);
    assert_int_equal(oldest_s(w), 70);
}

static void test_gauge_age_goes_by_the_time_since_boot(void **state)
{
    struct world *w = *state;
    long long mono_ms = (long long)(w->sim.mono_us / 1000);

    sql_run(w->t.app,
        "INSERT INTO outbox(topic, payload, created_ms, boot, mono_ms)"
        " VALUES ('t', '', 5, x'01010101010101010101010101010101', %lld)",
        mono_ms - 30000);
    assert_int_equal(oldest_s(w), 30);
    sim_pass_ms(&w->sim, 10000);
    w->sim.wall_ms = 0; /* the clock jumps, the age does not */
    assert_int_equal(oldest_s(w), 40);
}

/* What stands in the way costs no walk over the backlog. */
static void test_gauge_looks_at_a_thousand_rows_of_a_lane(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app, "INSERT INTO outbox(topic, payload, priority)"
                      " WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL"
                      "  SELECT i + 1 FROM n WHERE i < 1000)"
                      " SELECT 't', '', 2 FROM n");
    settle(w, "main", 2, 1000);
    put(w, 50, 0, "");
    assert_int_equal(oldest_s(w), 0);
    settle(w, "main", 0, 1);
    assert_int_equal(oldest_s(w), 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_gauge_oldest_of_all_lanes_is_told),
        TEST_IN(test_gauge_slowest_destination_counts),
        TEST_IN(test_gauge_age_goes_by_the_time_since_boot),
        TEST_IN(test_gauge_looks_at_a_thousand_rows_of_a_lane),
    };

    return cmocka_run_group_tests_name("gauge", tests, NULL, NULL);
}
