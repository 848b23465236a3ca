/* SPDX-License-Identifier: MIT */
/* A message leaves as it left before, whatever happened in between; only what
 * is left of its TTL is counted down. */
#include "sender.h"

#include "relay.h"
#include "unit.h"

enum { NOT_AUTHORIZED = 0x87, TTL_S = 3600 };

struct sent {
    uint64_t print;
    uint32_t expiry_s; /* of the last attempt */
};

static const struct fake_sent *last(const struct relay *r)
{
    assert_true(r->out->count > 0);
    return &r->out->sent[r->out->count - 1];
}

/* Run until one more frame has left, and compare it with the first. */
static void expect_again(struct relay *r, struct sent *first)
{
    size_t count = r->out->count;
    const struct fake_sent *now;

    for (int i = 0; i < 1000 && r->out->count == count; i++)
        relay_run_ms(r, 50);
    assert_int_equal(r->out->count, count + 1);
    now = last(r);
    if (first->print == 0)
        *first = (struct sent){.print = now->print, .expiry_s = TTL_S};
    assert_true(now->print == first->print);
    assert_in_range(now->expiry_s, 1, first->expiry_s);
    first->expiry_s = now->expiry_s;
}

/* As after kill -9, perhaps in another boot. */
static void start_again(struct bench *b, const char *envelope, unsigned version)
{
    if (b->r.is_open)
        relay_kill(&b->r);
    else
        b->r.out->base.ops->destroy(&b->r.out->base);
    relay_init(&b->r, &b->w);
    b->r.options.envelope = envelope;
    b->r.out->link.mqtt_version = version;
    relay_open(&b->r);
}

static void put_full_row(struct bench *b)
{
    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, key, key_version, type,"
        " content_type, headers, retain, ttl_ms, created_ms) VALUES"
        " ('t', '{\"a\" : 1}', 'k', 3, 'com.example.r', 'application/json',"
        " json_object('response_topic', 're', 'correlation_data', 'c',"
        "  'traceparent', '00-1', 'subject', 's'), 1, %d, %lld)",
        TTL_S * 1000, (long long)b->w.sim.wall_ms);
}

static void check_every_attempt(
    struct bench *b, const char *envelope, unsigned version)
{
    struct sent first = {0};

    start_again(b, envelope, version);
    put_full_row(b);
    expect_again(&b->r, &first);
    fake_lose(b->r.out, POSTBAG_ELINK, 0);
    expect_again(&b->r, &first);
    start_again(b, envelope, version);
    expect_again(&b->r, &first);
    fake_settle(b->r.out, 0, NOT_AUTHORIZED);
    expect_again(&b->r, &first); /* from outbox_held */
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT attempts FROM outbox_held"), 1);
    start_again(b, envelope, version);
    expect_again(&b->r, &first);
    b->w.sim.boot = 2;
    start_again(b, envelope, version);
    expect_again(&b->r, &first);
    assert_in_range(first.expiry_s, TTL_S - 200, TTL_S - 2);
    fake_settle(b->r.out, 0, 0);
    relay_run_ms(&b->r, 2000);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"), 0);
}

static void test_frames_every_attempt_is_the_same_on_mqtt_5(void **state)
{
    check_every_attempt(*state, "cloudevents", 5);
}

static void test_frames_every_attempt_is_the_same_on_mqtt_311(void **state)
{
    check_every_attempt(*state, "cloudevents", 4);
}

static void test_frames_every_attempt_is_the_same_with_the_id_only(void **state)
{
    check_every_attempt(*state, "minimal", 5);
}

static void test_frames_every_attempt_is_the_same_when_raw(void **state)
{
    check_every_attempt(*state, "raw", 5);
}

/* A stamped row ages by CLOCK_BOOTTIME, whatever the wall says. */
static void test_frames_expiry_ignores_a_wall_clock_that_jumps(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, ttl_ms, boot, mono_ms) VALUES"
        " ('t', '', 60000, x'01010101010101010101010101010101', %lld)",
        (long long)b->w.sim.mono_us / 1000 - 30000);
    b->w.sim.wall_ms += INT64_C(86400000);
    relay_run_ms(r, 10);
    assert_int_equal(last(r)->expiry_s, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_frames_every_attempt_is_the_same_on_mqtt_5),
        BENCH(test_frames_every_attempt_is_the_same_on_mqtt_311),
        BENCH(test_frames_every_attempt_is_the_same_with_the_id_only),
        BENCH(test_frames_every_attempt_is_the_same_when_raw),
        BENCH(test_frames_expiry_ignores_a_wall_clock_that_jumps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
