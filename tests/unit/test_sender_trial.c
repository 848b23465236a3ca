/* SPDX-License-Identifier: MIT */
/*
 * What a process does that follows one without an orderly end: what it writes
 * before a send, when it sends one row at a time, and when not.  The ends are
 * those of relay_kill; test_sender_trial_deaths.c has real ones.
 */
#include "sender.h"

#include <string.h>

#include "lives.h"
#include "sound.h"
#include "wal_syncs.h"

/* ---- ends in order ---- */

static void test_trial_orderly_end_leaves_nothing_to_try(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 5);
    relay_run_ms(r, 10);
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 10);
    relay_close(r);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT acked, sent_hi, tried, deaths"
                             " FROM outbox_cursor ORDER BY lane"),
        "1|5|0|0 0|0|0|0 0|0|0|0 0|0|0|0");
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT owner IS NULL FROM outbox_dest"), 1);
    relay_init(r, &b->w);
    (void)bench_up(b);
    assert_int_equal(r->out->in_flight, 4);
    assert_string_equal(mark(b, 0), "0|0");
}

/* What is held or dropped is decided, sent or not: a trigger that drops what is
 * above the reservation would drop and count it again. */
static void test_trial_orderly_end_keeps_what_is_decided_reserved(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 1);
    relay_put_key(r, "no", "k");
    relay_put_key(r, "behind", "k");
    relay_run_ms(r, 10);
    fake_settle(r->out, 1, 0x87);
    relay_run_ms(r, 10);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT max(seq) FROM outbox_held"), 3);
    relay_close(r);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT acked, sent_hi FROM outbox_cursor"
                             " WHERE lane = 0"),
        "0|3");
    assert_sound(&b->w.t);
    relay_init(r, &b->w);
}

static void test_trial_orderly_end_between_two_others_begins_anew(void **state)
{
    struct bench *b = *state;

    relay_put(&b->r, "t", 3);
    die_unanswered(b, 3);
    assert_string_equal(mark(b, 0), "1|2");
    (void)bench_up(b);
    relay_close(&b->r);
    relay_init(&b->r, &b->w);
    die_unanswered(b, 2);
    assert_string_equal(mark(b, 0), "1|1");
}

static void test_trial_after_an_orderly_end_another_takes_over_at_once(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    struct relay other;

    relay_init(&other, &b->w);
    relay_open(&other);
    relay_run_ms(&other, 100);
    assert_int_equal(other.e.lease.is_owner, 0);
    postbag__engine_shut(&r->e);
    relay_run_ms(&other, 1100);
    assert_int_equal(other.e.lease.is_owner, 1);
    assert_int_equal(other.e.lease.is_inherited, 0);
    /* who was stopped and goes on stands by */
    relay_run_ms(r, 3000);
    assert_int_equal(r->e.lease.is_owner, 0);
    relay_close(&other);
}

static void test_trial_stopped_engine_goes_on(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    postbag__engine_shut(&r->e);
    relay_put(r, "t", 1);
    relay_run_ms(r, 100);
    assert_int_equal(r->e.lease.is_owner, 1);
    assert_int_equal(r->out->in_flight, 1);
}

/* ---- what an end costs ---- */

/* Syncs of a life after one that ended with rows in flight, in order or not. */
static unsigned count_syncs(struct bench *b, int was_orderly)
{
    struct relay *r = bench_up(b);
    unsigned syncs;

    relay_put(r, "t", 100);
    relay_run_ms(r, 10);
    die(b);
    if (was_orderly)
        sql_run(b->w.t.app, "UPDATE outbox_dest SET owner = NULL");
    wal_syncs = 0;
    (void)bench_up(b);
    assert_int_equal(r->out->in_flight, 63); /* bulk's window */
    assert_string_equal(mark(b, 0), was_orderly ? "0|0" : "101|1");
    r->out->auto_settle = 1;
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 3000);
    syncs = wal_syncs;
    relay_close(r);
    relay_init(r, &b->w);
    return syncs;
}

static void test_trial_first_end_costs_one_mark_and_no_sync_more(void **state)
{
    struct bench *b = *state;
    unsigned syncs = count_syncs(b, 1);

    assert_int_equal(count_syncs(b, 0), syncs);
    expect_no_trace(b, 200);
}

static void test_trial_rows_put_after_the_start_are_not_marked(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    r->out->auto_settle = 1;
    relay_put(r, "t", 5);
    relay_run_ms(r, 3000);
    die(b);
    (void)bench_up(b);
    relay_put(r, "u", 5);
    relay_run_ms(r, 10);
    assert_int_equal(r->out->in_flight, 5);
    assert_string_equal(mark(b, 0), "0|0");
}

static void test_trial_cuts_without_a_link_cost_and_charge_nothing(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 5);
    relay_run_ms(r, 10);
    die(b);
    for (int i = 0; i < 50; i++) {
        b->w.sim.boot++;
        r->out->connect_err = POSTBAG_ELINK;
        relay_open(r);
        relay_run_ms(r, 100 * 1000);
        die(b);
    }
    assert_string_equal(mark(b, 0), "0|0");
    (void)bench_up(b);
    assert_int_equal(r->out->in_flight, 5);
}

/* Sent, the link lost without an answer, then the power: nothing was in
 * flight. */
static void test_trial_cut_after_the_link_was_lost_charges_nothing(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    relay_put(r, "t", 5);
    for (int i = 0; i < 10; i++) {
        (void)bench_up(b);
        assert_int_equal(r->out->in_flight, 5);
        if (i > 0)
            assert_string_equal(mark(b, 0), "1|1");
        r->out->connect_err = POSTBAG_ELINK;
        fake_lose(r->out, POSTBAG_ELINK, 0);
        wal_syncs = 0;
        relay_step(r);
        assert_string_equal(mark(b, 0), i > 0 ? "1|0" : "0|0");
        assert_int_equal(wal_syncs, i > 0);
        die(b);
    }
}

static void test_trial_lost_link_is_taken_back_once_the_database_is_free(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    relay_put(r, "t", 5);
    die_unanswered(b, 2);
    (void)bench_up(b);
    assert_string_equal(mark(b, 0), "1|2");
    sql_run(b->w.t.app, "BEGIN IMMEDIATE");
    r->out->connect_err = POSTBAG_ELINK;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 50);
    sql_run(b->w.t.app, "COMMIT");
    relay_idle_ms(r, 200);
    assert_string_equal(mark(b, 0), "1|1");
}

/* ---- one row at a time ---- */

static void test_trial_third_start_sends_one_at_a_time(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    relay_put(r, "t", 5);
    die_unanswered(b, 3);
    assert_string_equal(mark(b, 0), "1|2");
    (void)bench_up(b);
    assert_has(r->log, "one message at a time");
    for (int i = 1; i <= 5; i++) {
        char expected[16];

        (void)snprintf(expected, sizeof(expected), "%d|3", i);
        assert_int_equal(r->out->in_flight, 1);
        assert_string_equal(mark(b, 0), expected);
        assert_int_equal(sql_get(b->w.t.app, "SELECT acked FROM outbox_cursor"
                                             " WHERE lane = 0"),
            i - 1);
        wal_syncs = 0;
        (void)fake_settle_all(r->out, 0);
        relay_step(r);
        assert_int_equal(wal_syncs, 1);
    }
    assert_has(r->log, "back to the window");
    expect_no_trace(b, 5);
    wal_syncs = 0;
    r->out->auto_settle = 1;
    relay_put(r, "u", 100);
    relay_run_ms(r, 3000);
    assert_in_range(wal_syncs, 1, 2);
    expect_no_trace(b, 105);
}

static void test_trial_goes_on_in_the_next_life(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    relay_put(r, "t", 5);
    die_unanswered(b, 3);
    (void)bench_up(b);
    for (int i = 0; i < 3; i++) {
        (void)fake_settle_all(r->out, 0);
        relay_step(r);
    }
    die(b);
    (void)bench_up(b);
    assert_string_equal(fake_topics(r->out, 0), "t4");
    assert_string_equal(mark(b, 0), "4|4");
}

static void test_trial_stops_after_a_window_of_answers(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    r->window = 4;
    relay_put(r, "t", 30);
    for (int i = 0; i < 3; i++) {
        (void)bench_up(b);
        die(b);
        r->window = 4;
    }
    (void)bench_up(b);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(r->out->in_flight, 1);
        (void)fake_settle_all(r->out, 0);
        relay_step(r);
    }
    for (int i = 0; i < 2; i++) {
        (void)fake_settle_all(r->out, 0);
        relay_step(r);
    }
    assert_true(r->out->in_flight > 1);
    assert_string_equal(mark(b, 0), "4|3"); /* settled: not looked at */
    die(b);
    (void)bench_up(b);
    assert_true(r->out->in_flight > 1);
}

static void test_trial_urgent_row_has_a_mark_of_its_own(void **state)
{
    struct bench *b = *state;

    relay_put(&b->r, "t", 2);
    sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload, priority)"
                        " VALUES ('alarm', '', 2)");
    die_unanswered(b, 2);
    assert_string_equal(mark(b, 0), "1|1");
    assert_string_equal(mark(b, 2), "3|1");
    die_unanswered(b, 1);
    (void)bench_up(b);
    assert_string_equal(fake_topics(b->r.out, 0), "alarm");
    assert_string_equal(mark(b, 0), "1|2");
    assert_string_equal(mark(b, 2), "3|3");
}

static void test_trial_answer_clears_the_mark(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    relay_put(r, "t", 1);
    for (int i = 0; i < 20; i++) {
        die_unanswered(b, 2);
        (void)bench_up(b);
        fake_settle(r->out, 0, 0);
        relay_run_ms(r, 2000);
        relay_put(r, "t", 1);
        relay_run_ms(r, 10);
        die(b);
    }
    assert_string_equal(held(b), "");
    assert_int_equal(delivered(b), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_trial_orderly_end_leaves_nothing_to_try),
        BENCH(test_trial_orderly_end_keeps_what_is_decided_reserved),
        BENCH(test_trial_orderly_end_between_two_others_begins_anew),
        BENCH(test_trial_after_an_orderly_end_another_takes_over_at_once),
        BENCH(test_trial_stopped_engine_goes_on),
        BENCH(test_trial_first_end_costs_one_mark_and_no_sync_more),
        BENCH(test_trial_rows_put_after_the_start_are_not_marked),
        BENCH(test_trial_cuts_without_a_link_cost_and_charge_nothing),
        BENCH(test_trial_cut_after_the_link_was_lost_charges_nothing),
        BENCH(test_trial_lost_link_is_taken_back_once_the_database_is_free),
        BENCH(test_trial_third_start_sends_one_at_a_time),
        BENCH(test_trial_goes_on_in_the_next_life),
        BENCH(test_trial_stops_after_a_window_of_answers),
        BENCH(test_trial_urgent_row_has_a_mark_of_its_own),
        BENCH(test_trial_answer_clears_the_mark),
    };

    wal_syncs_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
