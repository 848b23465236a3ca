/* SPDX-License-Identifier: MIT */
/*
 * A message whose own stamps do not tell its age, as one of plain SQL: it ages
 * from when a relay of its destination saw it first, across restarts, and
 * across boots where the wall clock was set at both ends.
 */
#include <sqlite3.h>

#include "relay.h"
#include "sender.h"
#include "unit.h"

enum { SECOND = 1000, DAY = 86400 * SECOND };

static void put(struct bench *b, const char *topic, int ttl_ms)
{
    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, ttl_ms, created_ms)"
        " VALUES ('%s', 'xy', nullif(%d, 0), %lld)",
        topic, ttl_ms, (long long)b->w.sim.wall_ms);
}

static struct relay *up_in_the_dark(struct bench *b)
{
    b->r.out->auto_up = 0;
    relay_open(&b->r);
    relay_run_ms(&b->r, 100);
    return &b->r;
}

/* The relay ends, and another begins. */
static struct relay *again_in_the_dark(struct bench *b)
{
    relay_kill(&b->r);
    relay_init(&b->r, &b->w);
    return up_in_the_dark(b);
}

static const char *lost(struct bench *b)
{
    return sql_text(b->w.t.app, "SELECT lo, hi, n, reason FROM outbox_lost");
}

static int64_t marks(struct bench *b)
{
    return sql_get(b->w.t.app, "SELECT count(*) FROM outbox_seen");
}

static void test_seen_row_ages_while_the_relay_waits(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);

    put(b, "a", 10 * SECOND);
    relay_run_ms(r, 9 * SECOND);
    assert_string_equal(lost(b), "");
    relay_run_ms(r, 6 * SECOND);
    assert_string_equal(lost(b), "1|1|1|ttl");
}

static void test_seen_row_is_young_when_the_relay_starts(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    put(b, "a", SECOND);
    sim_pass_ms(&b->w.sim, DAY);
    r = bench_up(b);
    relay_run_ms(r, SECOND);
    assert_string_equal(fake_topics(r->out, 0), "a");
}

/* Its clock may have been set since, by years. */
static void test_seen_row_does_not_age_by_the_wall_in_its_boot(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);

    put(b, "a", 100 * SECOND);
    relay_run_ms(r, 10 * SECOND);
    b->w.sim.wall_ms += 300LL * DAY;
    relay_run_ms(r, 80 * SECOND);
    assert_string_equal(lost(b), "");
}

static void test_seen_row_keeps_its_age_over_a_restart(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);

    put(b, "a", 60 * SECOND);
    relay_run_ms(r, 20 * SECOND);
    r = again_in_the_dark(b);
    relay_run_ms(r, 20 * SECOND);
    r = again_in_the_dark(b);
    relay_run_ms(r, 15 * SECOND);
    assert_string_equal(lost(b), "");
    relay_run_ms(r, 10 * SECOND);
    assert_string_equal(lost(b), "1|1|1|ttl");
}

static struct relay *in_another_boot(struct bench *b, int64_t off_ms)
{
    relay_kill(&b->r);
    b->w.sim.boot++;
    b->w.sim.mono_us = 1000;
    b->w.sim.wall_ms += off_ms;
    relay_init(&b->r, &b->w);
    return up_in_the_dark(b);
}

static void test_seen_row_ages_over_a_power_off_by_the_wall(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);

    put(b, "a", DAY / 24);
    put(b, "b", 2 * DAY);
    relay_run_ms(r, 20 * SECOND);
    r = in_another_boot(b, DAY);
    relay_run_ms(r, 5 * SECOND);
    assert_string_equal(lost(b), "1|1|1|ttl");
}

static void check_begins_anew(struct bench *b, struct relay *r)
{
    relay_run_ms(r, 40 * SECOND);
    assert_string_equal(lost(b), "");
    relay_run_ms(r, 30 * SECOND);
    assert_string_equal(lost(b), "1|1|1|ttl");
}

static void test_seen_row_begins_anew_if_the_clock_was_not_set(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->w.sim.wall_ms = 5000;
    r = up_in_the_dark(b);
    put(b, "a", 60 * SECOND);
    relay_run_ms(r, 30 * SECOND);
    check_begins_anew(b, in_another_boot(b, 20000LL * DAY));
}

static void test_seen_row_begins_anew_if_the_clock_is_not_set(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);

    put(b, "a", 60 * SECOND);
    relay_run_ms(r, 30 * SECOND);
    check_begins_anew(b, in_another_boot(b, -b->w.sim.wall_ms));
}

/* Set after it was seen: as good as if it had been set then. */
static void test_seen_row_gets_the_time_when_the_clock_is_set(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    int64_t today = b->w.sim.wall_ms;

    b->w.sim.wall_ms = 5000;
    r = up_in_the_dark(b);
    put(b, "a", 60 * SECOND);
    relay_run_ms(r, 10 * SECOND);
    b->w.sim.wall_ms = today;
    put(b, "b", 0);
    relay_run_ms(r, 5 * SECOND);
    r = in_another_boot(b, DAY);
    relay_run_ms(r, 5 * SECOND);
    assert_string_equal(lost(b), "1|1|1|ttl");
}

/* With a stamp, but of another boot, and nobody knows when that was. */
static void test_seen_row_put_before_the_clock_was_set_ages_too(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, ttl_ms, created_ms, boot, mono_ms)"
        " VALUES ('a', 'xy', 60000, 5000, zeroblob(16), 4000)");
    r = up_in_the_dark(b);
    check_begins_anew(b, r);
}

static void test_seen_rows_that_leave_at_once_cost_no_write(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->auto_settle = 1;
    r = bench_up(b);
    for (int i = 0; i < 100; i++) {
        put(b, "a", 60 * SECOND);
        relay_run_ms(r, 200);
    }
    relay_run_ms(r, 10 * SECOND);
    assert_int_equal(marks(b), 0);
    assert_int_equal(r->out->count, 100);
}

static void test_seen_rows_without_a_ttl_cost_no_write(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);

    for (int i = 0; i < 20; i++) {
        put(b, "a", 0);
        relay_run_ms(r, SECOND);
    }
    assert_int_equal(marks(b), 0);
}

static void test_seen_rows_cost_a_mark_each_few_seconds(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);
    uint32_t commits = r->e.db.commits;

    put(b, "first", 0);
    for (int i = 0; i < 1000; i++) {
        put(b, "a", DAY);
        relay_run_ms(r, 100);
    }
    relay_run_ms(r, 10 * SECOND);
    assert_in_range(marks(b), 15, 21);
    assert_in_range(r->e.db.commits - commits, 15, 25);
    commits = r->e.db.commits;
    relay_run_ms(r, 200 * SECOND);
    assert_int_equal(r->e.db.commits, commits);
}

static void test_seen_held_row_is_dropped_too(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->auto_settle = 1;
    b->r.out->refuse_topic = "a";
    b->r.out->refuse_reason = 0x87;
    b->w.sim.random_byte = 0xff;
    b->r.options.retry_base_ms = 300000;
    b->r.options.retry_cap_ms = 300000;
    r = bench_up(b);
    put(b, "a", 30 * SECOND);
    relay_run_ms(r, 20 * SECOND);
    assert_string_equal(lost(b), "");
    relay_run_ms(r, 20 * SECOND);
    assert_string_equal(lost(b), "1|1|1|ttl");
}

/* Refused for good as soon as it was put. */
static struct relay *dead_at_once(struct bench *b, int ttl_ms)
{
    struct relay *r;

    b->r.out->auto_settle = 1;
    b->r.out->refuse_topic = "a";
    b->r.out->refuse_reason = 0x99;
    r = bench_up(b);
    put(b, "a", ttl_ms);
    relay_run_ms(r, 20 * SECOND);
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                                         " WHERE state = 'dead'"),
        1);
    r->out->refuse_topic = NULL;
    return r;
}

static void requeue(struct bench *b)
{
    sql_run(b->w.t.app,
        "UPDATE outbox_held SET state = 'retry', attempts = 0, dead_ms = NULL,"
        " due_boot = NULL, due_ms = NULL");
}

static void test_seen_row_that_died_at_once_ages(void **state)
{
    struct bench *b = *state;
    struct relay *r = dead_at_once(b, 10 * SECOND);

    requeue(b);
    relay_run_ms(r, 5 * SECOND);
    assert_string_equal(fake_topics(r->out, 0), "a");
    assert_string_equal(lost(b), "1|1|1|ttl");
}

static void test_seen_dead_row_that_is_young_is_sent_again(void **state)
{
    struct bench *b = *state;
    struct relay *r = dead_at_once(b, 60 * SECOND);

    requeue(b);
    relay_run_ms(r, 5 * SECOND);
    assert_string_equal(fake_topics(r->out, 0), "a a");
    assert_string_equal(lost(b), "");
}

static void test_seen_dead_row_keeps_its_age_over_a_restart(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    (void)dead_at_once(b, 30 * SECOND);
    r = again_in_the_dark(b);
    relay_run_ms(r, 15 * SECOND);
    requeue(b);
    relay_run_ms(r, 5 * SECOND);
    assert_string_equal(lost(b), "1|1|1|ttl");
}

/* However long it stays: what leaves at once beside it costs nothing. */
static void test_seen_dead_row_costs_one_mark(void **state)
{
    struct bench *b = *state;
    struct relay *r = dead_at_once(b, DAY);

    for (int i = 0; i < 100; i++) {
        put(b, "b", 60 * SECOND);
        relay_run_ms(r, 200);
    }
    relay_run_ms(r, 10 * SECOND);
    assert_int_equal(marks(b), 1);
    assert_int_equal(r->out->count, 101);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_seen_row_ages_while_the_relay_waits),
        BENCH(test_seen_row_is_young_when_the_relay_starts),
        BENCH(test_seen_row_does_not_age_by_the_wall_in_its_boot),
        BENCH(test_seen_row_keeps_its_age_over_a_restart),
        BENCH(test_seen_row_ages_over_a_power_off_by_the_wall),
        BENCH(test_seen_row_begins_anew_if_the_clock_was_not_set),
        BENCH(test_seen_row_begins_anew_if_the_clock_is_not_set),
        BENCH(test_seen_row_gets_the_time_when_the_clock_is_set),
        BENCH(test_seen_row_put_before_the_clock_was_set_ages_too),
        BENCH(test_seen_rows_that_leave_at_once_cost_no_write),
        BENCH(test_seen_rows_without_a_ttl_cost_no_write),
        BENCH(test_seen_rows_cost_a_mark_each_few_seconds),
        BENCH(test_seen_held_row_is_dropped_too),
        BENCH(test_seen_row_that_died_at_once_ages),
        BENCH(test_seen_dead_row_that_is_young_is_sent_again),
        BENCH(test_seen_dead_row_keeps_its_age_over_a_restart),
        BENCH(test_seen_dead_row_costs_one_mark),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
