/* SPDX-License-Identifier: MIT */
/* The oldest message that waits.  Fills have tests of their own, in
 * test_writer_limits.c and test_room.c. */
#include "gauge.h"

#include <sqlite3.h>

#include "schema.h"
#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"

struct desk {
    struct tempdb t;
    struct sim_port sim;
    struct db db;
    struct gauge gauge;
};

static int set_up(void **state)
{
    static struct desk d;

    memset(&d, 0, sizeof(d));
    tempdb_make_outbox(&d.t);
    sim_port_init(&d.sim);
    assert_ok(postbag__db_open(&d.db, d.t.path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__gauge_open(&d.gauge, &d.db, &d.sim.port));
    *state = &d;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *d = *state;

    postbag__gauge_close(&d->gauge);
    postbag__db_close(&d->db);
    tempdb_remove(&d->t);
    return 0;
}

static int64_t oldest_s(struct desk *d)
{
    struct postbag_pressure p;

    assert_ok(postbag__gauge_read(&d->gauge, &p));
    assert_int_equal(p.free_bytes, d->sim.room.free_bytes);
    return p.oldest_age_ms / 1000;
}

/* So many seconds ago, by the wall clock. */
static void put(struct desk *d, int age_s, int priority, const char *dest)
{
    sql_run(d->t.app,
        "INSERT INTO outbox(topic, payload, priority, dest, created_ms)"
        " VALUES ('t', '', %d, nullif('%s', ''), %lld)",
        priority, dest, (long long)(d->sim.wall_ms - age_s * 1000));
}

static void settle(struct desk *d, const char *dest, int lane, int upto)
{
    sql_run(d->t.app,
        "UPDATE outbox_cursor SET acked = %d WHERE dest = '%s' AND lane = %d",
        upto, dest, lane);
}

static void test_gauge_oldest_of_all_lanes_is_told(void **state)
{
    struct desk *d = *state;

    assert_int_equal(oldest_s(d), 0);
    put(d, 90, 0, ""); /* 1 */
    put(d, 80, 3, ""); /* 2 */
    put(d, 70, 0, ""); /* 3 */
    put(d, 60, 1, ""); /* 4 */
    assert_int_equal(oldest_s(d), 90);
    settle(d, "main", 0, 1);
    assert_int_equal(oldest_s(d), 80);
    settle(d, "main", 3, 2);
    assert_int_equal(oldest_s(d), 70);
    settle(d, "main", 0, 3);
    assert_int_equal(oldest_s(d), 60);
    settle(d, "main", 1, 4);
    assert_int_equal(oldest_s(d), 0);
}

static void test_gauge_slowest_destination_counts(void **state)
{
    struct desk *d = *state;

    assert_ok(postbag__schema_add_dest(&d->db, "cloud"));
    put(d, 90, 0, "main"); /* 1 */
    put(d, 80, 0, "");     /* 2 */
    put(d, 70, 0, "cloud");
    settle(d, "main", 0, 3);
    assert_int_equal(oldest_s(d), 80); /* the first is not cloud's */
    settle(d, "cloud", 0, 2);
    assert_int_equal(oldest_s(d), 70);
}

static void test_gauge_age_goes_by_the_time_since_boot(void **state)
{
    struct desk *d = *state;
    long long mono_ms = (long long)(d->sim.mono_us / 1000);

    sql_run(d->t.app,
        "INSERT INTO outbox(topic, payload, created_ms, boot, mono_ms)"
        " VALUES ('t', '', 5, x'01010101010101010101010101010101', %lld)",
        mono_ms - 30000);
    assert_int_equal(oldest_s(d), 30);
    sim_pass_ms(&d->sim, 10000);
    d->sim.wall_ms = 0; /* the clock jumps, the age does not */
    assert_int_equal(oldest_s(d), 40);
}

/* What stands in the way costs no walk over the backlog. */
static void test_gauge_looks_at_a_thousand_rows_of_a_lane(void **state)
{
    struct desk *d = *state;

    sql_run(d->t.app, "INSERT INTO outbox(topic, payload, priority)"
                      " WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL"
                      "  SELECT i + 1 FROM n WHERE i < 1000)"
                      " SELECT 't', '', 2 FROM n");
    settle(d, "main", 2, 1000);
    put(d, 50, 0, "");
    assert_int_equal(oldest_s(d), 0);
    settle(d, "main", 0, 1);
    assert_int_equal(oldest_s(d), 50);
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
