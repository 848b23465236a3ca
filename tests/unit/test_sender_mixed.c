/* SPDX-License-Identifier: MIT */
/*
 * Messages that end the connection in different ways take turns: one hangs up,
 * one is never answered, one is too much.  Each is found out all the same, and
 * the good ones arrive.
 */
#include "sender.h"

#include "poison.h"

static void put(struct relay *r, const char *topic, const char *key, int lane)
{
    sql_run(r->world->t.app,
        "INSERT INTO outbox(topic, payload, key, priority)"
        " VALUES ('%s', 'x', nullif('%s', ''), %d)",
        topic, key, lane);
}

/* The broker's answer to what its topic names.  0: it is gone. */
static int answer(struct relay *r, size_t i)
{
    const struct fake_sent *sent = &r->out->sent[i];

    if (is_of(sent, "close")) {
        fake_lose(r->out, POSTBAG_ELINK, 0);
        return 0;
    }
    if (is_of(sent, "quota")) {
        fake_lose(r->out, POSTBAG_EREFUSED, 0x97);
        return 0;
    }
    if (!is_of(sent, "silent"))
        fake_settle(r->out, i, is_of(sent, "bad") ? 0x87 : 0);
    return 1;
}

static void serve_tenth(struct relay *r)
{
    int is_there = 1;

    relay_run_ms(r, 100);
    for (size_t k = 0; k < r->out->count && is_there; k++)
        if (!r->out->sent[k].is_settled)
            is_there = answer(r, k);
}

/* A second of it; and a good message comes. */
static void serve_all(struct relay *r)
{
    relay_put(r, "good", 1);
    for (int i = 0; i < 10; i++)
        serve_tenth(r);
}

static struct relay *up(struct bench *b)
{
    b->r.options.max_attempts = 3;
    b->r.options.ack_timeout_ms = 2000;
    b->r.options.reconnect_base_ms = 50;
    b->r.options.reconnect_cap_ms = 300;
    b->r.options.retry_base_ms = 50;
    b->r.options.retry_cap_ms = 300;
    b->r.options.stable_ms = 300;
    return bench_up(b);
}

static void serve_for(struct relay *r, int seconds)
{
    for (int i = 0; i < seconds; i++)
        serve_all(r);
}

/* How many good ones left before one of their key that was put before. */
static int out_of_order(const struct fake_transport *out)
{
    int count = 0;

    for (size_t i = 0; i < out->count; i++)
        for (size_t k = i + 1; k < out->count; k++)
            count += strcmp(out->sent[i].topic, "good") == 0 &&
                     strcmp(out->sent[i].key, out->sent[k].key) == 0 &&
                     out->sent[i].key[0] != 0 &&
                     out->sent[k].seq < out->sent[i].seq;
    return count;
}

/* What is held, released when the head of its key is dead, and the first of
 * the log. */
static void test_mixed_hang_up_and_silence_end_each_others_turns(void **state)
{
    struct bench *b = *state;
    struct relay *r = up(b);

    put(r, "bad", "c", 0);
    put(r, "close", "c", 0);
    put(r, "silent", "a", 0);
    serve_for(r, 60);
    assert_string_equal(held_now(b), "bad dead 3, close dead 1, silent dead 1");
    assert_int_equal(delivered(b), 60);
}

static void test_mixed_kinds_in_three_lanes_end_and_keep_the_order(void **state)
{
    static const char *const kinds[] = {"bad", "close", "silent", "close"};
    static const char *const keys[] = {"a", "b", "c"};
    struct bench *b = *state;
    struct relay *r = up(b);

    for (int i = 0; i < 12; i++) {
        put(r, kinds[i % 4], keys[i % 3], i % 3);
        put(r, "good", keys[i % 3], i % 3);
    }
    serve_for(r, 200);
    assert_int_equal(delivered(b), 12 + 200);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                            " WHERE state = 'dead' AND topic <> 'good'"),
        12);
    assert_int_equal(out_of_order(r->out), 0);
}

/* Each quota makes it wait for minutes. */
static void test_mixed_with_a_quota_end_all_the_same(void **state)
{
    struct bench *b = *state;
    struct relay *r = up(b);

    put(r, "bad", "c", 0);
    put(r, "quota", "c", 0);
    put(r, "silent", "a", 0);
    put(r, "close", "b", 0);
    put(r, "good", "b", 0);
    serve_for(r, 1200);
    assert_string_equal(
        held_now(b), "bad dead 3, quota dead 3, silent dead 1, close dead 1");
    assert_int_equal(delivered(b), 1201);
}

/* It is never alone, nor is there a connection without a PUBACK: when one comes
 * up, an urgent message waits. */
static void test_mixed_with_urgent_ones_keeps_no_bulk_waiting(void **state)
{
    struct bench *b = *state;
    struct relay *r = up(b);

    put(r, "close", "", 0);
    put(r, "last", "", 0);
    put(r, "last", "", 0);
    for (int i = 0; i < 300; i++) {
        if (!r->out->is_up)
            put(r, "good", "", 3);
        serve_tenth(r);
    }
    assert_string_equal(held_now(b), "close dead 1");
    assert_int_equal(postbag__suspicion_isolates(&r->e.sender.suspicion), 0);
    assert_int_equal(fake_count(r->out, "close"), 3 + 3 + 1);
}

/* A suspect waits to be alone, and so all others wait for the one in flight. */
static void test_mixed_one_in_flight_keeps_no_suspect_waiting(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.receive_max = 2;
    r = up(b);
    put(r, "close", "a", 1);
    put(r, "silent", "c", 1);
    put(r, "silent", "b", 1);
    put(r, "silent", "c", 1);
    for (int i = 0; i < 200; i++) {
        if (i % 10 == 0)
            put(r, "good", "", 3);
        for (int k = 0; k < 10; k++)
            serve_tenth(r);
    }
    assert_string_equal(held_now(b),
        "close dead 1, silent dead 1, silent dead 1, silent dead 1");
    assert_int_equal(delivered(b), 20);
}

/* It ends nothing, who is answered: between the ends it is refused. */
static void test_mixed_refusal_clears_the_row_it_is_for(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.retry_cap_ms = 1000;
    b->r.options.reconnect_cap_ms = 300;
    r = bench_up(b);
    relay_put(r, "t", 1);
    for (int i = 0; i < 9; i++) {
        while (r->out->in_flight == 0)
            relay_run_ms(r, 100);
        if (i % 2 == 0)
            fake_lose(r->out, POSTBAG_ELINK, 0);
        else
            (void)fake_settle_all(r->out, 0x87);
        relay_run_ms(r, 100);
    }
    assert_string_equal(held_now(b), "t1 retry 4");
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                                         " WHERE error LIKE 'refused%%'"),
        1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_mixed_hang_up_and_silence_end_each_others_turns),
        BENCH(test_mixed_kinds_in_three_lanes_end_and_keep_the_order),
        BENCH(test_mixed_with_a_quota_end_all_the_same),
        BENCH(test_mixed_with_urgent_ones_keeps_no_bulk_waiting),
        BENCH(test_mixed_one_in_flight_keeps_no_suspect_waiting),
        BENCH(test_mixed_refusal_clears_the_row_it_is_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
