/* SPDX-License-Identifier: MIT */
/* Held rows that may be what ends the process; and suspects, what they wait for
 * and what counts against them. */
#include "sender.h"

#include <string.h>

#include "lives.h"
#include "wal_syncs.h"

/* ---- held rows ---- */

/* Refused once, and due in every life: of another boot. */
static void hold(struct bench *b, int rows)
{
    struct relay *r = bench_up(b);

    relay_put(r, "t", rows);
    relay_run_ms(r, 10);
    (void)fake_settle_all(r->out, 0x87);
    relay_run_ms(r, 3000);
    die(b);
}

static void test_trial_held_row_is_marked_and_found(void **state)
{
    struct bench *b = *state;

    hold(b, 1);
    for (int i = 1; i <= 5; i++) {
        b->w.sim.boot++;
        die_unanswered(b, 1);
        assert_int_equal(
            sql_get(b->w.t.app, "SELECT deaths FROM outbox_held"), i);
    }
    b->w.sim.boot++;
    (void)bench_up(b);
    relay_run_ms(&b->r, 20 * 1000);
    assert_int_equal(b->r.out->count, 0); /* suspect: the link is too young */
    assert_string_equal(held(b), "t1|retry|1|5");
}

static void test_trial_refused_held_row_is_harmless(void **state)
{
    struct bench *b = *state;

    hold(b, 1);
    for (int i = 0; i < 3; i++) {
        b->w.sim.boot++;
        die_unanswered(b, 1);
    }
    b->w.sim.boot++;
    (void)bench_up(b);
    assert_string_equal(held(b), "t1|retry|1|4");
    fake_settle(b->r.out, 0, 0x87);
    relay_step(&b->r);
    assert_string_equal(held(b), "t1|retry|2|0");
}

static void test_trial_held_rows_go_one_at_a_time(void **state)
{
    struct bench *b = *state;

    hold(b, 2);
    for (int i = 0; i < 2; i++) {
        b->w.sim.boot++;
        die_unanswered(b, 1);
    }
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT max(deaths) FROM outbox_held"), 2);
    b->w.sim.boot++;
    (void)bench_up(b);
    assert_int_equal(b->r.out->in_flight, 1);
    (void)fake_settle_all(b->r.out, 0);
    relay_step(&b->r);
    relay_run_ms(&b->r, 300);
    assert_int_equal(b->r.out->in_flight, 1);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT max(deaths) FROM outbox_held"), 3);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"), 1);
}

static void test_trial_orderly_end_forgets_what_is_not_suspect(void **state)
{
    struct bench *b = *state;

    hold(b, 2);
    sql_run(b->w.t.app, "UPDATE outbox_held SET deaths = 3 + 2 * (seq = 2)");
    b->r.out->connect_err = POSTBAG_ELINK;
    relay_open(&b->r);
    relay_run_ms(&b->r, 10);
    relay_close(&b->r);
    assert_string_equal(held(b), "t1|retry|1|0 t2|retry|1|5");
}

/* ---- suspects ---- */

/* t1 was alone in flight at three ends. */
static struct relay *with_suspect(struct bench *b)
{
    struct relay *r = &b->r;

    relay_put_key(r, "t1", "k");
    relay_put_key(r, "next", "k");
    die_unanswered(b, 6);
    assert_string_equal(mark(b, 0), "1|5");
    relay_open(r);
    return r;
}

static void test_trial_suspect_is_set_aside_with_its_followers(void **state)
{
    struct bench *b = *state;
    struct relay *r = with_suspect(b);

    wal_syncs = 0;
    relay_run_ms(r, 10);
    assert_string_equal(held(b), "t1|retry|0|5 next|behind|0|0");
    assert_true(wal_syncs >= 1);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT error LIKE 'suspect: the relay died%%'"
                            " FROM outbox_held WHERE seq = 1"),
        1);
    assert_has(r->log, "message 1 is set aside: suspect: the relay died");
    relay_put(r, "u", 3);
    r->out->auto_settle = 1;
    relay_run_ms(r, 10 * 1000);
    assert_string_equal(fake_topics(r->out, 0), "u1 u2 u3");
}

static void test_trial_suspect_waits_for_a_link_that_lives(void **state)
{
    struct bench *b = *state;
    struct relay *r = with_suspect(b);

    relay_put(r, "u", 3);
    r->out->auto_settle = 1;
    relay_run_ms(r, 29 * 1000);
    assert_int_equal(fake_count(r->out, "t1"), 0);
    relay_run_ms(r, 40 * 1000);
    assert_int_equal(fake_count(r->out, "t1"), 1);
    assert_int_equal(fake_count(r->out, "next"), 1);
    expect_no_trace(b, 5);
}

static void test_trial_suspect_is_charged_before_it_is_sent(void **state)
{
    struct bench *b = *state;
    struct relay *r = with_suspect(b);

    relay_put(r, "u", 3);
    relay_run_ms(r, 10);
    while (r->out->in_flight > 0) {
        (void)fake_settle_all(r->out, 0);
        relay_run_ms(r, 10);
    }
    for (int i = 0; r->out->in_flight == 0 && i < 600; i++)
        relay_run_ms(r, 100);
    assert_string_equal(fake_topics(r->out, 3), "t1");
    assert_string_equal(held(b), "t1|retry|0|6 next|behind|0|0");
    assert_true(sql_get(b->w.t.app,
                    "SELECT due_ms FROM outbox_held"
                    " WHERE seq = 1") > b->w.sim.mono_us / 1000 + 50 * 1000);
    /* the link is lost: not its doing */
    r->out->connect_err = POSTBAG_ELINK;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_step(r);
    assert_string_equal(held(b), "t1|retry|0|5 next|behind|0|0");
}

static void test_trial_suspect_flies_alone_on_a_busy_link(void **state)
{
    struct bench *b = *state;
    struct relay *r = with_suspect(b);

    r->out->auto_settle = 1;
    relay_run_ms(r, 10);
    relay_put(r, "u", 20); /* opens the window */
    relay_run_ms(r, 29 * 1000);
    r->out->auto_settle = 0;
    relay_put(r, "v", 5);
    relay_run_ms(r, 5 * 1000);
    assert_int_equal(r->out->in_flight, 5);
    relay_put(r, "w", 5);
    relay_run_ms(r, 10);
    assert_int_equal(r->out->in_flight, 5); /* what flies comes to its end */
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 25), "t1");
    relay_run_ms(r, 5000);
    assert_int_equal(r->out->in_flight, 1);
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 10);
    assert_int_equal(r->out->in_flight, 6); /* and its follower */
}

/* No other was answered in this life: it may be anything. */
static void test_trial_suspect_without_others_is_not_charged(void **state)
{
    struct bench *b = *state;
    struct relay *r = with_suspect(b);

    for (int i = 0; r->out->in_flight == 0 && i < 600; i++)
        relay_run_ms(r, 100);
    assert_string_equal(fake_topics(r->out, 0), "t1");
    assert_string_equal(held(b), "t1|retry|0|5 next|behind|0|0");
    assert_true(sql_get(b->w.t.app,
                    "SELECT due_ms FROM outbox_held"
                    " WHERE seq = 1") > b->w.sim.mono_us / 1000 + 50 * 1000);
}

static void test_trial_dead_at_last_and_its_follower_goes(void **state)
{
    struct bench *b = *state;
    struct relay *r = with_suspect(b);

    r->out->auto_settle = 1;
    relay_run_ms(r, 10);
    sql_run(b->w.t.app, "UPDATE outbox_held SET deaths = 17 WHERE seq = 1");
    relay_run_ms(r, 70 * 1000);
    assert_string_equal(held(b), "t1|dead|1|17");
    assert_string_equal(fake_topics(r->out, 0), "next");
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT error LIKE 'the relay died with it in"
                            " flight: 5 times, and 12 times more%%'"
                            " FROM outbox_held"),
        1);
    assert_has(r->log, "1 message is dead: the relay died with it in flight");
}

/* The transport has no room: the mark stands, nobody died. */
static void test_trial_send_that_is_put_off_is_no_death(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    hold(b, 1);
    for (int i = 0; i < 4; i++) {
        b->w.sim.boot++;
        die_unanswered(b, 1);
    }
    b->w.sim.boot++;
    r->out->send_err = POSTBAG_EAGAIN;
    (void)bench_up(b);
    relay_run_ms(r, 1000);
    assert_string_equal(held(b), "t1|retry|1|5");
    r->out->send_err = 0;
    relay_run_ms(r, 1000);
    assert_int_equal(r->out->in_flight, 1);
    fake_settle(r->out, 0, 0);
    relay_step(r);
    expect_no_trace(b, 1);
}

static void test_trial_send_of_a_lane_that_is_put_off_is_no_death(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    relay_put(r, "t", 1);
    die_unanswered(b, 5);
    r->out->send_err = POSTBAG_EAGAIN;
    (void)bench_up(b);
    relay_run_ms(r, 1000);
    assert_string_equal(mark(b, 0), "1|5");
    assert_string_equal(held(b), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_trial_held_row_is_marked_and_found),
        BENCH(test_trial_refused_held_row_is_harmless),
        BENCH(test_trial_held_rows_go_one_at_a_time),
        BENCH(test_trial_orderly_end_forgets_what_is_not_suspect),
        BENCH(test_trial_send_that_is_put_off_is_no_death),
        BENCH(test_trial_send_of_a_lane_that_is_put_off_is_no_death),
        BENCH(test_trial_suspect_is_set_aside_with_its_followers),
        BENCH(test_trial_suspect_waits_for_a_link_that_lives),
        BENCH(test_trial_suspect_is_charged_before_it_is_sent),
        BENCH(test_trial_suspect_flies_alone_on_a_busy_link),
        BENCH(test_trial_suspect_without_others_is_not_charged),
        BENCH(test_trial_dead_at_last_and_its_follower_goes),
    };

    wal_syncs_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
