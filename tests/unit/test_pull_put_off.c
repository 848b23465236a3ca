/* SPDX-License-Identifier: MIT */
/* Pulled commands that are not done: put off, given up, too old, or left by a
 * process that ends. */
#include "pullers.h"

static void test_pull_put_off_charges_and_waits(void **state)
{
    struct pullers *p = *state;
    const struct postbag_put_off how = {.struct_size = sizeof(how),
        .why = "jammed\n",
        .retry_base_ms = 50,
        .retry_cap_ms = 80};
    int is_dead = -1;

    world_deliver(p->world, "1", NULL);
    expect_next(p, "1");
    assert_ok(postbag_inbox_put_off(p->w[0], p->cmd.arrival, NULL, &is_dead));
    assert_int_equal(is_dead, 0);
    assert_string_equal(row_is(p, "state, attempts, due_ms - 60000, error"),
        "due|1|1000|the application put the command off");
    assert_int_equal(next(p), POSTBAG_ENOTFOUND);
    world_pass_ms(p->world, 999);
    assert_int_equal(next(p), POSTBAG_ENOTFOUND);
    world_pass_ms(p->world, 1);
    expect_next(p, "1");
    assert_int_equal(p->cmd.attempt, 2);
    assert_ok(postbag_inbox_put_off(p->w[0], p->cmd.arrival, &how, NULL));
    assert_string_equal(
        row_is(p, "attempts, due_ms - 61000, error"), "2|80|jammed?");
    p->world->boot++; /* whose time it is not */
    leave(p);
    connect_one(p, 0);
    connect_one(p, 1);
    expect_next(p, "1");
}

static void test_pull_put_off_beyond_an_options_range_is_refused(void **state)
{
    static const struct {
        struct postbag_put_off how;
        const char *text;
    } all[] = {
        {{.retry_base_ms = 300001}, "retry_base_ms is 300001"},
        {{.retry_cap_ms = 9}, "retry_cap_ms is 9"},
        {{.max_attempts = 1000001}, "max_attempts is 1000001"},
    };
    struct pullers *p = *state;

    world_deliver(p->world, "1", NULL);
    expect_next(p, "1");
    for (size_t i = 0; i < COUNT(all); i++) {
        struct postbag_put_off how = all[i].how;

        how.struct_size = sizeof(how);
        assert_int_equal(
            postbag_inbox_put_off(p->w[0], p->cmd.arrival, &how, NULL),
            POSTBAG_EINVAL);
        assert_has(postbag_writer_fault(p->w[0])->text, all[i].text);
    }
    assert_string_equal(row_is(p, "state, attempts"), "due|0");
}

static void test_pull_last_attempt_is_dead(void **state)
{
    struct pullers *p = *state;
    const struct postbag_put_off how = {
        .struct_size = sizeof(how), .max_attempts = 2};
    int is_dead = -1;

    world_deliver(p->world, "1", NULL);
    expect_next(p, "1");
    for (int i = 0; i < 2; i++) {
        assert_ok(
            postbag_inbox_put_off(p->w[0], p->cmd.arrival, &how, &is_dead));
        assert_int_equal(is_dead, i);
    }
    assert_string_equal(
        row_is(p, "state, attempts, payload, due_ms"), "dead|2|go|NULL");
    assert_int_equal(
        postbag_inbox_put_off(p->w[0], p->cmd.arrival, &how, &is_dead),
        POSTBAG_ENOTFOUND);
}

static void test_pull_for_good_is_dead_at_once(void **state)
{
    struct pullers *p = *state;
    const struct postbag_put_off how = {
        .struct_size = sizeof(how), .for_good = 1, .why = "no such valve"};
    int is_dead = 0;

    world_deliver(p->world, "1", "k");
    world_deliver(p->world, "2", "k");
    expect_next(p, "1");
    assert_ok(postbag_inbox_put_off(p->w[0], p->cmd.arrival, &how, &is_dead));
    assert_int_equal(is_dead, 1);
    assert_string_equal(sql_text(p->db[0], "SELECT attempts, error FROM inbox"
                                           " WHERE state = 'dead'"),
        "1|no such valve");
    serve(p, "2");
}

static void test_pull_put_off_is_no_part_of_a_transaction(void **state)
{
    struct pullers *p = *state;

    world_deliver(p->world, "1", NULL);
    assert_ok(postbag_begin(p->w[0]));
    expect_next(p, "1");
    assert_int_equal(postbag_inbox_put_off(p->w[0], p->cmd.arrival, NULL, NULL),
        POSTBAG_ESTATE);
    assert_ok(postbag_commit(p->w[0]));
    assert_string_equal(row_is(p, "state, attempts"), "due|0");
}

/* ---- a process that ends ----------------------------------------------- */

enum point { LOOKED, ACTED, MARKED, COMMITTED, POINTS };

/* Its connections end with it, and what was not committed. */
static void live_until(struct pullers *p, enum point end)
{
    assert_ok(postbag_begin(p->w[0]));
    assert_ok(next(p));
    if (end >= ACTED)
        act(p, 0);
    if (end >= MARKED)
        assert_ok(postbag_inbox_done(p->w[0], p->cmd.arrival));
    if (end >= COMMITTED)
        assert_ok(postbag_commit(p->w[0]));
    leave(p);
    connect_one(p, 0);
    connect_one(p, 1);
}

static void test_pull_end_at_each_point_leaves_one_effect(void **state)
{
    static const char *const ids[POINTS] = {"0", "1", "2", "3"};
    struct pullers *p = *state;

    for (enum point end = LOOKED; end < POINTS; end++) {
        world_deliver(p->world, ids[end], NULL);
        live_until(p, end);
        if (end < COMMITTED)
            serve(p, ids[end]);
        assert_int_equal(next(p), POSTBAG_ENOTFOUND);
    }
    assert_string_equal(effects(p), "0 1 2 3");
}

/* Put off before its slow part: charged, hidden, and done all the same. */
static void test_pull_put_off_ahead_is_done_all_the_same(void **state)
{
    struct pullers *p = *state;
    struct postbag_command none = {.struct_size = sizeof(none)};

    world_deliver(p->world, "1", NULL);
    expect_next(p, "1");
    assert_ok(postbag_inbox_put_off(p->w[0], p->cmd.arrival, NULL, NULL));
    assert_int_equal(
        postbag_inbox_next(p->w[1], "p", &none), POSTBAG_ENOTFOUND);
    assert_ok(postbag_begin(p->w[0]));
    act_and_mark(p);
    assert_ok(postbag_commit(p->w[0]));
    assert_string_equal(row_is(p, "state, due_ms, error"), "done|NULL|NULL");
}

static void test_pull_crash_loop_ends_among_the_dead(void **state)
{
    struct pullers *p = *state;
    const struct postbag_put_off how = {
        .struct_size = sizeof(how), .max_attempts = 3};
    int begun = 0;
    int is_dead = 0;

    world_deliver(p->world, "1", NULL);
    while (!is_dead) {
        expect_next(p, "1");
        assert_ok(
            postbag_inbox_put_off(p->w[0], p->cmd.arrival, &how, &is_dead));
        begun += !is_dead; /* and the process ends */
        world_pass_ms(p->world, 10000);
    }
    assert_int_equal(begun, 2);
    assert_string_equal(row_is(p, "state, attempts"), "dead|3");
}

/* ---- what is too old --------------------------------------------------- */

static void deliver_for(struct pullers *p, const char *id, uint32_t s)
{
    const struct postbag_property all[] = {{"id", id}};
    const struct postbag_frame f = {.topic = "cmd/a",
        .payload = "go",
        .payload_len = 2,
        .properties = all,
        .property_count = 1,
        .expiry_s = s};

    assert_ok(
        postbag__receiver_accept(p->world->receiver, p->world->generation, &f));
}

#define DEAD_ROWS \
    "SELECT count(*) FROM inbox WHERE state = 'dead' AND attempts = 0" \
    " AND error LIKE 'expired%%'"

static void test_pull_expired_is_dead_in_the_open_transaction(void **state)
{
    struct pullers *p = *state;

    deliver_for(p, "1", 10);
    deliver_for(p, "2", 20);
    world_pass_ms(p->world, 9999);
    expect_next(p, "1");
    world_pass_ms(p->world, 1);
    assert_ok(postbag_begin(p->w[0]));
    expect_next(p, "2");
    assert_int_equal(sql_get(p->db[0], DEAD_ROWS), 1);
    postbag_rollback(p->w[0]);
    assert_int_equal(sql_get(p->db[0], DEAD_ROWS), 0);
    serve(p, "2");
    assert_int_equal(sql_get(p->db[0], DEAD_ROWS), 1);
}

static void test_pull_expired_is_dead_after_a_look(void **state)
{
    struct pullers *p = *state;

    deliver_for(p, "1", 10);
    deliver_for(p, "2", 10);
    deliver_for(p, "3", 0);
    world_pass_ms(p->world, 10000);
    expect_next(p, "3");
    assert_int_equal(sqlite3_txn_state(p->db[0], NULL), SQLITE_TXN_NONE);
    assert_int_equal(sql_get(p->db[1], DEAD_ROWS), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_pull_put_off_charges_and_waits),
        TEST_IN(test_pull_put_off_beyond_an_options_range_is_refused),
        TEST_IN(test_pull_last_attempt_is_dead),
        TEST_IN(test_pull_for_good_is_dead_at_once),
        TEST_IN(test_pull_put_off_is_no_part_of_a_transaction),
        TEST_IN(test_pull_end_at_each_point_leaves_one_effect),
        TEST_IN(test_pull_put_off_ahead_is_done_all_the_same),
        TEST_IN(test_pull_crash_loop_ends_among_the_dead),
        TEST_IN(test_pull_expired_is_dead_in_the_open_transaction),
        TEST_IN(test_pull_expired_is_dead_after_a_look),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
