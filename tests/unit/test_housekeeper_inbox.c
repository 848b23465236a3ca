/* SPDX-License-Identifier: MIT */
/* What the housekeeper does to commands that are done or dead. */
#include "relay.h"
#include "unit.h"

static int64_t in_state(struct bench *b, const char *name)
{
    return sql_get(
        b->w.t.app, "SELECT count(*) FROM inbox WHERE state = '%s'", name);
}

/* It looks at the inbox after a change, some rows at a time. */
static void run_with_changes(struct relay *r, int times)
{
    for (int i = 0; i < times; i++) {
        relay_put(r, "t", 1);
        relay_run_ms(r, 11 * 1000);
    }
}

static void test_housekeeper_caps_dead_commands(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.inbox_dead_max_rows = 3;
    r = bench_up(b);
    sql_run(b->w.t.app,
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        " SELECT i + 1 FROM n WHERE i < 200)"
        " INSERT INTO inbox(consumer, id, state, payload, received_ms)"
        " SELECT 'c', i, 'dead', '', 1 FROM n");
    run_with_changes(r, 4);
    assert_int_equal(in_state(b, "dead"), 3);
}

/* 1100 that are done now. */
static void put_done(struct bench *b)
{
    sql_run(b->w.t.app,
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        " SELECT i + 1 FROM n WHERE i < 1100)"
        " INSERT INTO inbox(consumer, id, state, received_ms, processed_ms,"
        "  boot, mono_ms) SELECT 'c', randomblob(8), 'done', 5000, 5000, boot,"
        "  %lld FROM n, outbox_dest WHERE name = 'main'",
        (long long)(b->w.sim.mono_us / 1000));
}

/* Without a clock that is set: the time since boot is enough. */
static void test_housekeeper_forgets_done_commands(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->w.sim.wall_ms = 5000;
    b->r.options.inbox_keep_s = 60;
    r = bench_up(b);
    put_done(b);
    run_with_changes(r, 4);
    assert_int_equal(in_state(b, "done"), 1100);
    run_with_changes(r, 4);
    assert_int_equal(in_state(b, "done"), 1000);
}

static void test_housekeeper_forgets_too_many_done_and_says_so_once(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.inbox_done_max_rows = 1050;
    r = bench_up(b);
    r->out->auto_settle = 1; /* or its log is of the link alone */
    put_done(b);
    run_with_changes(r, 4);
    assert_int_equal(in_state(b, "done"), 1050);
    assert_has(r->log, "50 done commands more than inbox_done_max_rows (1050)");
    assert_has(r->log, "inbox_keep_s (604800)");
    r->log[0] = '\0';
    put_done(b);
    run_with_changes(r, 6);
    assert_int_equal(in_state(b, "done"), 1050);
    assert_null(strstr(r->log, "inbox_done_max_rows"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_housekeeper_caps_dead_commands),
        BENCH(test_housekeeper_forgets_done_commands),
        BENCH(test_housekeeper_forgets_too_many_done_and_says_so_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
