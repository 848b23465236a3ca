/* SPDX-License-Identifier: MIT */
/* Dead messages that come back by themselves, once (option dead_requeue_s). */
#include <sqlite3.h>

#include "relay.h"
#include "sender.h"
#include "unit.h"

enum { DENIED = 0x87, TOO_LARGE = 0x95, DAY_S = 86400, HOUR_MS = 3600 * 1000 };

static const char *held(struct bench *b)
{
    return sql_text(b->w.t.app,
        "SELECT topic, state, revived FROM outbox_held ORDER BY seq");
}

/* a1, a2 and b1 are dead after two refusals each, and come back in a day. */
static struct relay *all_dead(struct bench *b, int reason)
{
    struct relay *r;

    b->r.options.dead_requeue_s = DAY_S;
    b->r.options.max_attempts = 2;
    b->r.out->auto_settle = 1;
    b->r.out->reason = reason;
    r = bench_up(b);
    relay_put_key(r, "a1", "a");
    relay_put_key(r, "a2", "a");
    relay_put_key(r, "b1", "b");
    relay_run_ms(r, 10000);
    assert_string_equal(held(b), "a1|dead|NULL a2|dead|NULL b1|dead|NULL");
    return r;
}

static void test_revive_after_the_time_in_order_with_the_ids(void **state)
{
    struct bench *b = *state;
    struct relay *r = all_dead(b, DENIED);
    size_t before = r->out->count;

    r->out->reason = 0;
    relay_idle_ms(r, (DAY_S - 60) * INT64_C(1000));
    assert_int_equal(r->out->count, before);
    relay_idle_ms(r, 120000);
    assert_int_equal(r->out->count, before + 3);
    assert_string_equal(held(b), "");
    assert_string_equal(r->out->sent[before].topic, "a1");
    assert_string_equal(r->out->sent[before].id, r->out->sent[0].id);
    assert_true(fake_count(r->out, "a2") == 3);
    assert_has(r->log, "are sent once more (dead_requeue_s)");
}

static void test_revive_together_one_of_a_key_is_in_flight(void **state)
{
    struct bench *b = *state;
    struct relay *r = all_dead(b, DENIED);

    r->out->auto_settle = 0;
    sql_run(b->w.t.app, "UPDATE outbox_held SET due_ms ="
                        " (SELECT max(due_ms) FROM outbox_held)");
    relay_idle_ms(r, 25 * HOUR_MS);
    assert_string_equal(held(b), "a1|retry|1 a2|behind|1 b1|retry|1");
    assert_int_equal(fake_count(r->out, "a2"), 2);
    r->out->auto_settle = 1;
    r->out->reason = 0;
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, HOUR_MS);
    assert_int_equal(fake_count(r->out, "a2"), 3);
    assert_string_equal(held(b), "");
}

static void test_revive_is_once_for_each_row(void **state)
{
    struct bench *b = *state;
    struct relay *r = all_dead(b, DENIED);

    relay_idle_ms(r, 40 * 24 * INT64_C(1) * HOUR_MS);
    assert_string_equal(held(b), "a1|dead|1 a2|dead|1 b1|dead|1");
    assert_int_equal(r->out->count, 2 * 2 * 3);
}

static void test_revive_what_can_never_work_stays_dead(void **state)
{
    struct bench *b = *state;
    struct relay *r = all_dead(b, TOO_LARGE);
    size_t before = r->out->count;

    relay_idle_ms(r, 48 * INT64_C(1) * HOUR_MS);
    assert_int_equal(r->out->count, before);
}

static void test_revive_is_off_unless_wanted(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_attempts = 1;
    b->r.out->auto_settle = 1;
    b->r.out->reason = DENIED;
    r = bench_up(b);
    relay_put(r, "t", 1);
    relay_idle_ms(r, 48 * INT64_C(1) * HOUR_MS);
    assert_int_equal(r->out->count, 1);
    assert_int_equal(sql_get(b->w.t.app, "SELECT due_ms IS NULL"
                                         " FROM outbox_held"),
        1);
}

/* Dead at the first refusal, too. */
static void test_revive_counts_from_the_only_attempt(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.dead_requeue_s = 3600;
    b->r.options.max_attempts = 1;
    b->r.out->auto_settle = 1;
    b->r.out->reason = DENIED;
    r = bench_up(b);
    relay_put(r, "t", 1);
    relay_run_ms(r, 1000);
    r->out->reason = 0;
    relay_idle_ms(r, 2 * HOUR_MS);
    assert_int_equal(r->out->count, 2);
    assert_string_equal(held(b), "");
}

static void test_revive_in_another_boot_waits_anew(void **state)
{
    struct bench *b = *state;
    struct relay *r = all_dead(b, DENIED);

    relay_idle_ms(r, 23 * HOUR_MS);
    relay_close(r);
    b->w.sim.boot = 2;
    relay_init(r, &b->w);
    b->r.options.dead_requeue_s = DAY_S;
    r->out->auto_settle = 1;
    r = bench_up(b);
    relay_idle_ms(r, 23 * HOUR_MS);
    assert_int_equal(r->out->count, 0);
    relay_idle_ms(r, 2 * HOUR_MS);
    assert_int_equal(r->out->count, 3);
}

static void test_revive_by_a_clock_that_begins_anew_waits_anew(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->w.sim.mono_us = INT64_C(1000000) * 10 * DAY_S;
    r = all_dead(b, DENIED);
    relay_close(r);
    b->w.sim.mono_us = 1000000;
    relay_init(r, &b->w);
    b->r.options.dead_requeue_s = DAY_S;
    r->out->auto_settle = 1;
    r = bench_up(b);
    relay_idle_ms(r, 23 * HOUR_MS);
    assert_int_equal(r->out->count, 0);
    relay_idle_ms(r, 2 * HOUR_MS);
    assert_int_equal(r->out->count, 3);
}

/* No more than may be held, and the rest when there is room again. */
static void test_revive_keeps_to_the_bound(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.held_max_rows = 16;
    b->r.options.dead_requeue_s = 3600;
    b->r.options.max_attempts = 1;
    b->r.out->auto_settle = 1;
    b->r.out->reason = DENIED;
    r = bench_up(b);
    relay_put(r, "t", 100);
    relay_run_ms(r, 60000);
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                                         " WHERE state = 'dead'"),
        100);
    r->out->auto_settle = 0;
    relay_idle_ms(r, 2 * HOUR_MS);
    assert_in_range(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                                        " WHERE state = 'retry'"),
        1, 16);
    r->out->auto_settle = 1;
    r->out->reason = 0;
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, HOUR_MS);
    assert_string_equal(held(b), "");
    assert_int_equal(r->errors, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_revive_after_the_time_in_order_with_the_ids),
        BENCH(test_revive_together_one_of_a_key_is_in_flight),
        BENCH(test_revive_is_once_for_each_row),
        BENCH(test_revive_what_can_never_work_stays_dead),
        BENCH(test_revive_is_off_unless_wanted),
        BENCH(test_revive_counts_from_the_only_attempt),
        BENCH(test_revive_in_another_boot_waits_anew),
        BENCH(test_revive_by_a_clock_that_begins_anew_waits_anew),
        BENCH(test_revive_keeps_to_the_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
