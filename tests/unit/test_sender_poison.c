/* SPDX-License-Identifier: MIT */
/*
 * What messages that end the connection cost the others with the default
 * options, each delay being as long as it can be.
 */
#include "sender.h"

#include "poison.h"

static struct relay *slowest(struct bench *b)
{
    b->w.sim.random_byte = 0xff;
    return bench_up(b);
}

/* Seconds until the good ones are delivered and the bad ones dead. */
static int64_t take_s(struct bench *b, int good, int bad)
{
    struct sqlite3 *db = b->w.t.app;
    int64_t from_us = b->w.sim.mono_us;

    while (delivered(b) < good || sql_get(db, "SELECT count(*) FROM outbox_held"
                                              " WHERE state = 'dead'") < bad)
        serve_once(&b->r, "bad");
    return (b->w.sim.mono_us - from_us) / 1000000;
}

static void check_head(struct bench *b, int bad, int most_s)
{
    struct relay *r = slowest(b);

    relay_put(r, "bad", bad);
    relay_put(r, "good", 100);
    assert_true(take_s(b, 100, bad) < most_s);
    /* twice in company, three times alone, then once more each */
    assert_true(r->out->connects <= 1u + 2 + 4 * (unsigned)bad);
}

static void test_poison_at_the_head_costs_seconds(void **state)
{
    check_head(*state, 1, 30);
}

static void test_poison_three_at_the_head_cost_a_minute(void **state)
{
    check_head(*state, 3, 60);
}

/* Nothing yet speaks against a broker that ends every connection. */
static void test_poison_ten_at_the_head_cost_the_longest_waits(void **state)
{
    check_head(*state, 10, 2800);
}

static void test_poison_among_good_ones_costs_seconds_each(void **state)
{
    struct bench *b = *state;
    struct relay *r = slowest(b);

    for (int i = 0; i < 10; i++) {
        relay_put(r, "bad", 1);
        relay_put(r, "good", 10);
    }
    assert_true(take_s(b, 100, 10) < 10 * 20);
}

/* It refuses "bad", and hangs up before it reads on. */
static void refuse_and_hang_up(struct relay *r)
{
    relay_run_ms(r, 100);
    for (size_t i = 0; i < r->out->count; i++) {
        int is_bad = is_of(&r->out->sent[i], "bad");

        if (r->out->sent[i].is_settled)
            continue;
        fake_settle(r->out, i, is_bad ? 0x87 : 0);
        if (is_bad) {
            fake_lose(r->out, POSTBAG_ELINK, 0);
            return;
        }
    }
}

static struct relay *tries_often(struct bench *b)
{
    b->r.options.max_attempts = 1000000;
    b->r.options.retry_base_ms = 10;
    b->r.options.retry_cap_ms = 100;
    b->r.options.reconnect_cap_ms = 1000;
    return slowest(b);
}

static void refuse_until_delivered(struct bench *b, int good)
{
    for (int i = 0; i < 600; i++) {
        refuse_and_hang_up(&b->r);
        if (delivered(b) == good)
            return;
    }
    fail_msg("%d of %d are delivered", (int)delivered(b), good);
}

/* mosquitto 2.0.11 does so, with max_queued_messages 0. */
static void test_poison_refused_with_a_hang_up_lets_the_others_flow(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = tries_often(b);

    for (int i = 0; i < 10; i++) {
        relay_put(r, "bad", 1);
        relay_put(r, "good", 1);
    }
    refuse_until_delivered(b, 10);
}

static void test_poison_refused_with_a_hang_up_keeps_no_suspect_out(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = tries_often(b);

    relay_put(r, "good", 1);
    serve_until_held(r, "good", 1);
    relay_put(r, "bad", 1);
    refuse_until_delivered(b, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_poison_at_the_head_costs_seconds),
        BENCH(test_poison_three_at_the_head_cost_a_minute),
        BENCH(test_poison_ten_at_the_head_cost_the_longest_waits),
        BENCH(test_poison_among_good_ones_costs_seconds_each),
        BENCH(test_poison_refused_with_a_hang_up_lets_the_others_flow),
        BENCH(test_poison_refused_with_a_hang_up_keeps_no_suspect_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
