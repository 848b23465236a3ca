/* SPDX-License-Identifier: MIT */
/* The pace of bulk, or of all lanes: how many messages and bytes a second,
 * and who does not wait for it. */
#include "sender.h"

#include <sqlite3.h>

#include "relay.h"
#include "unit.h"

enum { DENIED = 0x87 };

static void put_lane(
    struct relay *r, const char *topic, int lane, int count, int size)
{
    sql_run(r->world->t.app,
        "INSERT INTO outbox(topic, payload, priority)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < %d)"
        " SELECT '%s', zeroblob(%d), %d FROM n",
        count, topic, size, lane);
}

/* Each send is acknowledged at once. */
static struct relay *paced(struct bench *b, uint32_t rate, uint32_t bytes_rate)
{
    b->r.options.bulk_rate = rate;
    b->r.options.bulk_bytes_rate = bytes_rate;
    b->r.out->auto_settle = 1;
    return bench_up(b);
}

static void test_send_bulk_keeps_its_pace(void **state)
{
    struct bench *b = *state;
    struct relay *r = paced(b, 40, 0);
    size_t before;
    unsigned steps;

    put_lane(r, "bulk", 0, 1000, 10);
    relay_run_ms(r, 2000);
    before = r->out->count;
    steps = r->steps;
    relay_run_ms(r, 10000);
    assert_int_equal(r->out->count - before, 400);
    /* it sleeps until a message may leave */
    assert_in_range(r->steps - steps, 400, 1300);
}

static void test_send_burst_after_a_pause_is_an_eighth(void **state)
{
    struct bench *b = *state;
    struct relay *r = paced(b, 40, 0);

    relay_run_ms(r, 60000);
    put_lane(r, "bulk", 0, 1000, 10);
    relay_run_ms(r, 0);
    assert_int_equal(r->out->count, 5);
    relay_run_ms(r, 999);
    assert_int_equal(r->out->count, 44);
}

static void test_send_large_message_leaves_and_the_next_pay_for_it(void **state)
{
    struct bench *b = *state;
    struct relay *r = paced(b, 0, 1000);
    int64_t sent_us;

    put_lane(r, "large", 0, 1, 10000);
    put_lane(r, "small", 0, 1, 10);
    relay_run_ms(r, 200);
    assert_string_equal(fake_topics(r->out, 0), "large");
    sent_us = b->w.sim.mono_us;
    while (r->out->count == 1)
        relay_idle_ms(r, 10);
    /* its packet has 10,000 bytes and an envelope */
    assert_in_range(b->w.sim.mono_us - sent_us, 10000000, 10500000);
}

static void test_send_both_rates_hold(void **state)
{
    struct bench *b = *state;
    struct relay *r = paced(b, 10, 1000000);

    put_lane(r, "bulk", 0, 100, 10);
    relay_run_ms(r, 5000);
    assert_in_range(r->out->count, 49, 52);
}

static void test_send_urgent_messages_do_not_wait_for_the_pace(void **state)
{
    struct bench *b = *state;
    struct relay *r = paced(b, 1, 0);

    put_lane(r, "bulk", 0, 100, 10);
    relay_run_ms(r, 10);
    put_lane(r, "urgent", 1, 500, 10);
    relay_run_ms(r, 100);
    assert_int_equal(fake_count(r->out, "urgent"), 500);
    assert_in_range(fake_count(r->out, "bulk"), 0, 1);
    /* nor do they cost bulk anything */
    relay_run_ms(r, 10000);
    assert_in_range(fake_count(r->out, "bulk"), 9, 11);
}

static void test_send_pace_of_all_lanes_lets_urgent_messages_first(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.pace_all = 1;
    r = paced(b, 8, 0);
    put_lane(r, "bulk", 0, 100, 10);
    relay_run_ms(r, 2000);
    put_lane(r, "urgent", 1, 14, 10);
    relay_run_ms(r, 2000);
    assert_int_equal(fake_count(r->out, "urgent"), 14);
    assert_in_range(r->out->count, 31, 33);
}

/* Small ones would else keep the bucket from ever being full. */
static void test_send_large_urgent_message_is_paced_before_small_bulk(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.pace_all = 1;
    r = paced(b, 0, 8000);
    put_lane(r, "bulk", 0, 1000, 10);
    relay_run_ms(r, 1000);
    put_lane(r, "urgent", 1, 1, 5000);
    relay_run_ms(r, 200);
    assert_int_equal(fake_count(r->out, "urgent"), 1);
}

static void test_send_held_bulk_keeps_the_pace(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.retry_base_ms = 10;
    b->r.options.retry_cap_ms = 10;
    b->r.options.max_attempts = 1000000;
    b->r.out->reason = DENIED;
    r = paced(b, 40, 0);
    put_lane(r, "bulk", 0, 100, 10);
    relay_run_ms(r, 5000);
    assert_in_range(r->out->count, 190, 201);
    /* and what waits behind them is not forgotten */
    r->out->reason = 0;
    relay_run_ms(r, 5000);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT sum(delivered) FROM outbox_cursor"), 100);
}

/* What the transport did not take costs nothing. */
static void test_send_that_failed_is_not_charged(void **state)
{
    struct bench *b = *state;
    struct relay *r = paced(b, 1, 0);

    relay_run_ms(r, 5000);
    r->out->send_err = POSTBAG_EAGAIN;
    put_lane(r, "bulk", 0, 1, 10);
    relay_run_ms(r, 100);
    r->out->send_err = 0;
    relay_run_ms(r, 20);
    assert_int_equal(r->out->count, 1);
}

/* A link that is down, or a broker that said "slow", is not asked at the
 * bucket's pace. */
static void test_send_pace_wakes_nobody_while_nothing_can_be_sent(void **state)
{
    struct bench *b = *state;
    struct relay *r = paced(b, 40, 0);
    unsigned steps;

    put_lane(r, "bulk", 0, 1000, 10);
    relay_run_ms(r, 1000);
    r->out->auto_up = 0;
    r->out->connect_err = POSTBAG_ELINK;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 100);
    steps = r->steps;
    relay_run_ms(r, 60000);
    assert_in_range(r->steps - steps, 1, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_send_bulk_keeps_its_pace),
        BENCH(test_send_burst_after_a_pause_is_an_eighth),
        BENCH(test_send_large_message_leaves_and_the_next_pay_for_it),
        BENCH(test_send_both_rates_hold),
        BENCH(test_send_urgent_messages_do_not_wait_for_the_pace),
        BENCH(test_send_pace_of_all_lanes_lets_urgent_messages_first),
        BENCH(test_send_large_urgent_message_is_paced_before_small_bulk),
        BENCH(test_send_held_bulk_keeps_the_pace),
        BENCH(test_send_that_failed_is_not_charged),
        BENCH(test_send_pace_wakes_nobody_while_nothing_can_be_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
