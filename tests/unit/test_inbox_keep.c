/* SPDX-License-Identifier: MIT */
/* What the housekeeper does to commands that are done or dead. */
#include "inbox_keep.h"

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

static void put_dead(struct bench *b)
{
    sql_run(b->w.t.app,
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        " SELECT i + 1 FROM n WHERE i < 200)"
        " INSERT INTO inbox(consumer, id, state, payload, received_ms)"
        " SELECT 'c', randomblob(8), 'dead', '', 1 FROM n");
}

static void test_inbox_keep_caps_dead_commands(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.inbox_dead_max_rows = 3;
    r = bench_up(b);
    put_dead(b);
    run_with_changes(r, 4);
    assert_int_equal(in_state(b, "dead"), 3);
}

static void test_inbox_keep_tells_of_the_dead_given_up_once_a_minute(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.inbox_dead_max_rows = 3;
    r = bench_up(b);
    r->out->auto_settle = 1; /* or its log is of the link alone */
    put_dead(b);
    run_with_changes(r, 2);
    assert_has(r->log, "64 dead commands were given up");
    assert_null(strstr(r->log, "5 dead commands were given up"));
    put_dead(b);
    relay_idle_ms(r, 70 * 1000);
    assert_has(r->log, "333 dead commands were given up");
    r->log[0] = '\0';
    put_dead(b);
    run_with_changes(r, 2);
    assert_null(strstr(r->log, "given up"));
    postbag__engine_shut(&r->e);
    assert_has(r->log, "200 dead commands were given up");
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
static void test_inbox_keep_forgets_done_commands(void **state)
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

static void test_inbox_keep_forgets_too_many_done_and_says_so_once(void **state)
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

static struct relay *bench_up_narrow(struct bench *b)
{
    b->r.options.inbox_done_max_rows = 1000;
    b->r.options.inbox_dead_max_rows = 3;
    return bench_up(b);
}

/* Without any news: it goes on by itself, as it does after an end. */
static void test_inbox_keep_idle_comes_within_the_bounds(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    r = bench_up_narrow(b);
    relay_idle_ms(r, 1000);
    put_dead(b);
    put_done(b);
    put_done(b);
    relay_idle_ms(r, 15 * 1000);
    assert_int_equal(in_state(b, "dead"), 3);
    assert_int_equal(in_state(b, "done"), 1000);
    relay_close(r);
    put_done(b);
    put_dead(b);
    relay_init(r, &b->w);
    (void)bench_up_narrow(b);
    relay_idle_ms(r, 3000);
    assert_int_equal(in_state(b, "dead"), 3);
    assert_int_equal(in_state(b, "done"), 1000);
    relay_idle_ms(r, 61 * 1000);
    assert_int_equal(
        postbag__housekeeper_deadline(&r->e.housekeeper), INT64_MAX);
}

/* More than it deletes at once, all the time. */
static void test_inbox_keep_keeps_the_bound_under_load(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    int64_t most = 0;

    b->r.options.inbox_done_max_rows = 1000;
    r = bench_up(b);
    for (int i = 0; i < 30; i++) {
        int64_t now;

        put_done(b);
        relay_run_ms(r, 1000);
        now = in_state(b, "done");
        /* the first look was before there was anything */
        most = i >= 12 && now > most ? now : most;
    }
    assert_true(most <= 1000 + 2 * 1100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_inbox_keep_caps_dead_commands),
        BENCH(test_inbox_keep_tells_of_the_dead_given_up_once_a_minute),
        BENCH(test_inbox_keep_forgets_done_commands),
        BENCH(test_inbox_keep_forgets_too_many_done_and_says_so_once),
        BENCH(test_inbox_keep_idle_comes_within_the_bounds),
        BENCH(test_inbox_keep_keeps_the_bound_under_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
