/* SPDX-License-Identifier: MIT */
/*
 * A broker that hangs up on one message, and one that hangs up on all: the
 * first loses that message to outbox_held, the second loses none.
 */
#include "sender.h"

#include <stdlib.h>

#include "poison.h"

static struct relay *up(struct bench *b)
{
    b->r.options.reconnect_cap_ms = 1000;
    b->r.options.retry_cap_ms = 2000;
    return bench_up(b);
}

static void test_suspect_one_that_kills_the_link_is_set_aside_then_dead(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = up(b);

    relay_put(r, "a", 2);
    relay_put_key(r, "bad", "k");
    relay_put_key(r, "next", "k");
    relay_put(r, "z", 5);
    serve_until_held(r, "bad", 2);
    assert_string_equal(held_now(b), "bad retry 0, next behind 0");
    assert_has(r->log, "message 3 is set aside: suspect: the link died");
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT error LIKE 'suspect: the"
                            " link died 3 times%%'"
                            " FROM outbox_held WHERE topic = 'bad'"),
        1);
    serve(r, 120, "bad");
    assert_string_equal(held_now(b), "bad dead 1");
    assert_int_equal(sql_get(b->w.t.app, "SELECT error LIKE 'the link died"
                                         "%%and again%%' FROM outbox_held"),
        1);
    /* all others, and bounded: in company twice, alone 3 times, once more */
    assert_int_equal(fake_count(r->out, "next"), 1);
    assert_int_equal(fake_count(r->out, "bad"), 6);
    assert_int_equal(sql_get(b->w.t.app,
                         "SELECT delivered FROM outbox_cursor WHERE lane = 0"),
        8);
    assert_int_equal(postbag__suspicion_isolates(&r->e.sender.suspicion), 0);
}

static void test_suspect_followers_of_its_key_wait_behind_it(void **state)
{
    struct bench *b = *state;
    struct relay *r = up(b);

    b->r.e.sender.options.retry_cap_ms = 1000000;
    b->r.e.sender.options.retry_base_ms = 1000000;
    b->w.sim.random_byte = 0xff;
    relay_put_key(r, "bad", "k");
    relay_put_key(r, "next", "k");
    relay_put(r, "z", 2);
    serve_until_held(r, "bad", 2);
    serve(r, 20, "bad");
    assert_string_equal(held_now(b), "bad retry 0, next behind 0");
    assert_int_equal(fake_count(r->out, "next"), 0);
    /* the broker was repaired: in order, and no trace is left */
    serve(r, 2000, "-");
    assert_string_equal(held_now(b), "");
    assert_string_equal(fake_topics(r->out, r->out->count - 2), "bad next");
}

static void test_suspect_broker_that_hangs_up_on_all_for_a_day_kills_nothing(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    size_t sent;

    relay_put(r, "t", 40);
    serve(r, 86400, "");
    sent = r->out->count;
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                                         " WHERE state = 'dead'"
                                         " OR attempts <> 0"),
        0);
    /* about as many as the highest ceiling allows without any suspicion: 86400
     * by the mean of its draws, 165 s, is 524 */
    assert_in_range(sent, 300, 600);
    serve(r, 4000, "-");
    assert_string_equal(held_now(b), "");
    assert_int_equal(sql_get(b->w.t.app,
                         "SELECT delivered FROM outbox_cursor WHERE lane = 0"),
        40);
}

static void test_suspect_isolation_sends_one_at_a_time(void **state)
{
    struct bench *b = *state;
    struct relay *r = up(b);

    relay_put(r, "t", 10);
    for (int i = 0; i < 2; i++) {
        relay_run_ms(r, 3000);
        assert_int_equal(r->out->in_flight, 10);
        fake_lose(r->out, POSTBAG_ELINK, 0);
    }
    relay_run_ms(r, 3000);
    assert_int_equal(r->out->in_flight, 1);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(r->out->in_flight, 1);
        (void)fake_settle_all(r->out, 0);
        relay_run_ms(r, 10);
    }
    relay_put(r, "u", 10);
    relay_run_ms(r, 10);
    assert_true(r->out->in_flight > 0);
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 10);
    assert_true(r->out->in_flight > 1);
}

/* The broker goes with one row in flight and stays away for an hour. */
static void test_suspect_outage_with_one_row_in_flight_charges_nothing(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = up(b);

    relay_put(r, "a", 2);
    relay_run_ms(r, 100);
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 100);
    r->out->auto_up = 0;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    for (int i = 0; i < 36000; i++) {
        relay_run_ms(r, 100);
        if (r->out->is_connecting)
            fake_lose(r->out, POSTBAG_ELINK, 0);
    }
    assert_true(r->out->connects > 100);
    assert_string_equal(held_now(b), "");
    r->out->auto_up = 1;
    serve(r, 10, "-");
    assert_string_equal(held_now(b), "");
    assert_int_equal(fake_count(r->out, "a2"), 2);
}

static void test_suspect_our_own_hanging_up_suspects_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.ack_timeout_ms = 5000;
    r = up(b);
    relay_put(r, "t", 1);
    relay_run_ms(r, 600 * 1000);
    assert_true(r->out->count > 10);
    assert_string_equal(held_now(b), "");
    assert_int_equal(r->e.sender.suspicion.records[0].ends, 0);
}

/* Something is always in flight, until the suspect's turn comes. */
static void test_suspect_flies_alone_on_a_busy_link(void **state)
{
    struct bench *b = *state;
    struct relay *r = up(b);

    relay_put(r, "bad", 1);
    serve_until_held(r, "bad1", 1);
    relay_put(r, "z", 3000);
    for (int i = 0; i < 500; i++) {
        relay_run_ms(r, 20);
        if (r->e.sender.is_alone) {
            (void)fake_settle_all(r->out, 0);
            relay_step(r);
            assert_int_equal(flies(r, "bad1"), 1);
            assert_int_equal(r->out->in_flight, 1);
            return;
        }
        for (size_t k = 0; k < r->out->count && r->out->in_flight > 1; k++)
            if (!r->out->sent[k].is_settled)
                fake_settle(r->out, k, 0);
    }
    fail_msg("a busy link starves the suspect");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_suspect_one_that_kills_the_link_is_set_aside_then_dead),
        BENCH(test_suspect_followers_of_its_key_wait_behind_it),
        BENCH(test_suspect_broker_that_hangs_up_on_all_for_a_day_kills_nothing),
        BENCH(test_suspect_isolation_sends_one_at_a_time),
        BENCH(test_suspect_outage_with_one_row_in_flight_charges_nothing),
        BENCH(test_suspect_our_own_hanging_up_suspects_nobody),
        BENCH(test_suspect_flies_alone_on_a_busy_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
