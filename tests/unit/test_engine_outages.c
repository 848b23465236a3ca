/* SPDX-License-Identifier: MIT */
/*
 * A day and a month without a network, on the virtual clock: no message is
 * charged or dead, everything leaves afterwards, and the broker is called as
 * often as the backoff says.
 */
#include "engine.h"

#include <string.h>

#include "backoff.h"
#include "relay.h"
#include "unit.h"

enum { HOUR_MS = 3600 * 1000, DAY_MS = 24 * HOUR_MS };

/* ---- the network ---- */

enum trouble { REFUSED, NO_ANSWER, LOST };

static void set_trouble(struct relay *r, enum trouble what)
{
    r->out->connect_err = what == REFUSED ? POSTBAG_ELINK : 0;
    r->out->auto_up = 0;
}

/* So much time; an attempt that is not refused hangs, or fails late. */
static void endure(struct relay *r, enum trouble what, int64_t ms)
{
    set_trouble(r, what);
    for (int64_t end_us = r->world->sim.mono_us + ms * 1000;
         r->world->sim.mono_us < end_us;) {
        relay_idle_ms(r, what == LOST ? 5000 : ms);
        if (what == LOST && r->out->is_connecting)
            fake_lose(r->out, POSTBAG_ELINK, 0);
    }
}

static void recover(struct relay *r)
{
    r->out->connect_err = 0;
    r->out->auto_up = 1;
    r->out->auto_settle = 1;
    if (r->out->is_connecting)
        fake_come_up(r->out);
    relay_run_ms(r, 600 * 1000);
}

/* ---- what is left of it ---- */

static void expect_nothing_charged(struct bench *b)
{
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT (SELECT count(*) FROM outbox_held)"
                            " + (SELECT count(*) FROM outbox_lost)"
                            " + (SELECT sum(iif(tried > acked, deaths, 0)) "
                            "FROM outbox_cursor)"),
        0);
}

static void expect_all_delivered(struct bench *b, int64_t rows)
{
    expect_nothing_charged(b);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT sum(delivered) FROM outbox_cursor"), rows);
}

/* Full jitter is drawn as the middle. */
static unsigned attempts_in(const struct relay *r, int64_t ms)
{
    unsigned attempts = 0;
    int64_t at = 0;

    while (at < ms) {
        attempts++;
        at += postbag__backoff_ms(attempts, r->config.reconnect_base_ms,
            r->config.reconnect_cap_ms, 0x80808080u);
    }
    return attempts;
}

/* ---- outages ---- */

static void test_outage_of_a_day_calls_as_often_as_the_backoff_says(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;
    unsigned attempts;

    b->w.sim.random_byte = 0x80;
    relay_put(r, "t", 200);
    r->out->connect_err = POSTBAG_ELINK;
    relay_open(r);
    attempts = attempts_in(r, DAY_MS);
    assert_in_range(attempts, 500, 560);
    endure(r, REFUSED, DAY_MS);
    assert_in_range(r->out->connects, attempts - 1, attempts + 1);
    assert_int_equal(r->out->count, 0);
    expect_nothing_charged(b);
    recover(r);
    expect_all_delivered(b, 200);
    assert_int_equal(r->errors, 0);
}

/* With 62 in flight when it begins, and attempts of every kind. */
static void test_outage_of_a_day_in_the_midst_of_sending(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 200);
    relay_run_ms(r, 10);
    assert_true(r->out->in_flight > 60);
    set_trouble(r, REFUSED);
    fake_lose(r->out, POSTBAG_ELINK, 0);
    for (int hour = 0; hour < 24; hour++) {
        endure(r, (enum trouble)(hour % 3), HOUR_MS);
        relay_put(r, "u", 10);
    }
    /* 300 s at most apart, 30 s at least but for the first ones */
    assert_in_range(r->out->connects, 288, 1000);
    expect_nothing_charged(b);
    recover(r);
    expect_all_delivered(b, 440);
    assert_int_equal(r->errors, 0);
}

/* A new boot, at 1970; the one before ended by a power cut, or in order. */
static void boot_anew(struct bench *b, int is_orderly)
{
    struct relay *r = &b->r;

    if (is_orderly)
        relay_close(r);
    else
        relay_kill(r);
    b->w.sim.boot++;
    b->w.sim.mono_us = 30 * 1000000;
    b->w.sim.wall_ms = 30 * 1000;
    relay_init(r, &b->w);
    r->options.poll_ms = 60000;
    set_trouble(r, REFUSED);
    relay_open(r);
}

static void test_outage_of_a_month_with_boots_at_1970(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;
    unsigned connects = 0;
    int64_t put = 200;

    r->options.poll_ms = 60000;
    (void)bench_up(b);
    relay_put(r, "t", 200);
    relay_run_ms(r, 10);
    assert_true(r->out->in_flight > 60);
    for (int day = 0; day < 30; day++) {
        boot_anew(b, day % 5 == 4);
        for (int hour = 0; hour < 24; hour += 8) {
            relay_put(r, "u", 5);
            endure(r, (enum trouble)((day + hour / 8) % 3), 8 * HOUR_MS);
        }
        put += 15;
        connects += r->out->connects;
        assert_int_equal(r->out->count, 0);
    }
    assert_in_range(connects, 30 * 288, 30 * 1000);
    expect_nothing_charged(b);
    recover(r);
    expect_all_delivered(b, put);
    assert_int_equal(r->errors, 0);
}

/* Each day the network is there for a moment, too short for an answer; then
 * the power goes.  The link had gone before: nothing is charged. */
static void test_outage_of_a_month_with_links_that_answer_nothing(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;

    r->options.poll_ms = 60000;
    relay_put(r, "t", 40);
    (void)bench_up(b);
    for (int day = 0; day < 30; day++) {
        boot_anew(b, 0);
        endure(r, REFUSED, 12 * HOUR_MS);
        r->out->connect_err = 0;
        r->out->auto_up = 1;
        while (r->out->in_flight == 0)
            relay_idle_ms(r, 1000);
        set_trouble(r, REFUSED);
        fake_lose(r->out, POSTBAG_ELINK, 0);
        endure(r, REFUSED, 12 * HOUR_MS);
        expect_nothing_charged(b);
    }
    recover(r);
    expect_all_delivered(b, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_outage_of_a_day_calls_as_often_as_the_backoff_says),
        BENCH(test_outage_of_a_day_in_the_midst_of_sending),
        BENCH(test_outage_of_a_month_with_boots_at_1970),
        BENCH(test_outage_of_a_month_with_links_that_answer_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
