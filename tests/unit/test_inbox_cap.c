/* SPDX-License-Identifier: MIT */
/* More dead commands than may be kept: the oldest shrink to their identity. */
#include "inbox_cap.h"

#include "inbox_script.h"

/* Commands 1 to 5, and one that is due. */
static int set_up_dead(void **state)
{
    int err = set_up(state);
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_REJECT;
    for (int i = 0; i < 5; i++) {
        char id[2] = {(char)('1' + i), '\0'};

        world_deliver(w, id, NULL);
        assert_int_equal(world_run_one(w), 1);
    }
    world_deliver(w, "due", NULL);
    assert_int_equal(in_state(w, "dead"), 5);
    return err;
}

static int64_t cap(struct inbox_world *w, int64_t most, int64_t rows)
{
    const struct inbox_purge p = {
        .now = {.wall_ms = 7, .mono_ms = 8, .boot = {9}},
        .dead_max_rows = most,
        .rows = rows};
    int64_t dropped = -1;

    assert_int_equal(
        postbag__inbox_cap_dead(&w->t.db, &p, &dropped), POSTBAG_OK);
    return dropped;
}

static void test_inbox_cap_oldest_go_some_at_a_time(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(cap(w, 2, 2), 2);
    assert_int_equal(temp_db_get(&w->t, "SELECT min(arrival) FROM inbox"
                                        " WHERE state = 'dead'"),
        3);
    assert_int_equal(cap(w, 2, 2), 1);
    assert_int_equal(cap(w, 2, 2), 0);
    assert_int_equal(temp_db_get(&w->t, "SELECT min(arrival) FROM inbox"
                                        " WHERE state = 'dead'"),
        4);
    assert_int_equal(in_state(w, "due"), 1);
}

static void test_inbox_cap_what_goes_is_still_a_duplicate(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(cap(w, 4, 100), 1);
    assert_int_equal(temp_db_get(&w->t,
                         "SELECT count(*) FROM inbox WHERE id = '1'"
                         " AND state = 'done' AND payload IS NULL"
                         " AND headers IS NULL AND processed_ms = 7"
                         " AND mono_ms = 8 AND error LIKE 'dropped: %rejec%'"),
        1);
    world_deliver(w, "1", NULL);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox"), 6);
    assert_int_equal(in_state(w, "dead"), 4);
}

static void test_inbox_cap_at_the_limit_writes_nothing(void **state)
{
    struct inbox_world *w = *state;
    int64_t commits = w->t.db.commits;

    assert_int_equal(cap(w, 5, 100), 0);
    assert_int_equal(w->t.db.commits - commits, 0);
    assert_int_equal(in_state(w, "dead"), 5);
}

static void test_inbox_cap_busy_database_is_told(void **state)
{
    const struct inbox_purge p = {.dead_max_rows = 1, .rows = 10};
    struct inbox_world *w = *state;
    struct db second;
    int64_t dropped = -1;

    assert_int_equal(
        postbag__db_open(&second, w->t.path, DB_WRITE, DB_NORMAL, 0),
        POSTBAG_OK);
    temp_db_run(&w->t, "BEGIN IMMEDIATE");
    assert_int_equal(
        postbag__inbox_cap_dead(&second, &p, &dropped), POSTBAG_EBUSY);
    temp_db_run(&w->t, "ROLLBACK");
    assert_int_equal(dropped, 0);
    assert_int_equal(in_state(w, "dead"), 5);
    postbag__db_close(&second);
}

#define DEAD(name) cmocka_unit_test_setup_teardown(name, set_up_dead, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DEAD(test_inbox_cap_oldest_go_some_at_a_time),
        DEAD(test_inbox_cap_what_goes_is_still_a_duplicate),
        DEAD(test_inbox_cap_at_the_limit_writes_nothing),
        DEAD(test_inbox_cap_busy_database_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
