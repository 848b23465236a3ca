/* SPDX-License-Identifier: MIT */
/* When a held row was delivered, for as long as anybody can ask. */
#include "held_store.h"

#include <stdlib.h>

#include "tempdb.h"
#include "unit.h"

struct shelf {
    struct tempdb t;
    struct db db;
    struct lost_store lost;
    struct held_store h;
};

/* Rows 1 to 3 of lane 1; the cursor passed 1 and 2 at 50. */
static int set_up(void **state)
{
    struct shelf *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    tempdb_make_outbox(&s->t);
    sql_run(s->t.app, "INSERT INTO outbox(topic, payload, priority)"
                      " VALUES ('1', 'p1', 1), ('2', 'p2', 1), ('3', 'p3', 1);"
                      "UPDATE outbox_cursor SET acked = 2, sent_hi = 3"
                      " WHERE lane = 1;"
                      "INSERT INTO outbox_acks VALUES"
                      " ('main', 1, 2, 50, NULL, NULL)");
    assert_ok(postbag__db_open(&s->db, s->t.path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__lost_open(&s->lost, &s->db, "main"));
    assert_ok(postbag__held_open(&s->h, &s->db, &s->lost));
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct shelf *s = *state;

    postbag__held_close(&s->h);
    postbag__lost_close(&s->lost);
    postbag__db_close(&s->db);
    tempdb_remove(&s->t);
    free(s);
    return 0;
}

static void hold(struct shelf *s, int64_t seq)
{
    const struct hold hold = {.state = "retry", .attempts = 3, .error = "no"};

    assert_ok(postbag__held_hold(&s->h, seq, &hold, 60));
}

static const char *late(struct shelf *s)
{
    return sql_text(s->t.app, "SELECT * FROM outbox_late");
}

static void test_late_has_time_and_attempts_of_what_was_held(void **state)
{
    struct shelf *s = *state;

    hold(s, 1);
    assert_ok(postbag__held_deliver(&s->h, 1, 70));
    assert_string_equal(late(s), "main|1|1|70|4");
    assert_string_equal(sql_text(s->t.app, "SELECT seq, published_at, attempts"
                                           " FROM outbox_status ORDER BY seq"),
        "1|70|4 2|50|1 3|NULL|1");
}

static void test_late_knows_no_row_that_did_not_leave(void **state)
{
    struct shelf *s = *state;

    hold(s, 1);
    hold(s, 2);
    assert_ok(postbag__held_bury(&s->h, 1, "no", 70, NULL));
    assert_ok(postbag__held_drop(&s->h, 2, "ttl", 70));
    assert_string_equal(late(s), "");
}

/* Without keep_s nobody asks, and nothing is written. */
static void test_late_is_empty_where_no_times_are_kept(void **state)
{
    struct shelf *s = *state;

    hold(s, 3);
    assert_ok(postbag__held_deliver(&s->h, 3, 70));
    assert_string_equal(late(s), "");
}

static void test_late_is_empty_where_the_row_is_purged(void **state)
{
    struct shelf *s = *state;

    hold(s, 1);
    sql_run(s->t.app, "DELETE FROM outbox WHERE seq = 1");
    assert_ok(postbag__held_deliver(&s->h, 1, 70));
    assert_string_equal(late(s), "");
}

static void test_late_stays_with_the_first_delivery(void **state)
{
    struct shelf *s = *state;

    hold(s, 1);
    assert_ok(postbag__held_deliver(&s->h, 1, 70));
    hold(s, 1);
    hold(s, 2);
    sql_run(s->t.app, "UPDATE outbox_held SET replay = 1");
    assert_ok(postbag__held_deliver(&s->h, 1, 90));
    assert_ok(postbag__held_deliver(&s->h, 2, 90));
    assert_string_equal(late(s), "main|1|1|70|4");
}

#define TEST_IN(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_late_has_time_and_attempts_of_what_was_held),
        TEST_IN(test_late_knows_no_row_that_did_not_leave),
        TEST_IN(test_late_is_empty_where_no_times_are_kept),
        TEST_IN(test_late_is_empty_where_the_row_is_purged),
        TEST_IN(test_late_stays_with_the_first_delivery),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
