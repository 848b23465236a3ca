/* SPDX-License-Identifier: MIT */
/*
 * A broker that turns messages down without a verdict on them: "slow down"
 * (0x97), "packet id in use" (0x91).  All of them, or always the same one.
 */
#include "sender.h"

#include "poison.h"

enum { SLOW = 0x97, IN_USE = 0x91, DENIED = 0x87, HANG_UP = 0x100 };

/* A broker that answers topics that begin with "bad" with this reason, and
 * hangs up then or not. */
static void answer(struct relay *r, int tenths, int how)
{
    for (int i = 0; i < tenths; i++) {
        relay_run_ms(r, 100);
        for (size_t k = 0; k < r->out->count && r->out->in_flight > 0; k++) {
            int is_bad = is_of(&r->out->sent[k], "bad");

            if (!r->out->sent[k].is_settled)
                fake_settle(r->out, k, is_bad ? how & 0xff : 0);
            if (is_bad && (how & HANG_UP) != 0)
                fake_lose(r->out, POSTBAG_ELINK, 0);
            if (is_bad && how != SLOW)
                break; /* we hang up, before it comes to the others */
        }
        if (r->out->in_flight == 0)
            r->out->count = 0;
    }
}

/* One that turns down all. */
static void turn_down(struct relay *r, int seconds, int reason)
{
    for (int i = 0; i < seconds; i++) {
        relay_run_ms(r, 1000);
        (void)fake_settle_all(r->out, reason);
        r->out->count = 0;
    }
}

static const char *error(struct bench *b)
{
    return sql_text(
        b->w.t.app, "SELECT error FROM outbox_held WHERE state = 'retry'");
}

/* More rows than the look-ahead. */
static void test_throttle_of_one_sets_it_aside_and_all_others_arrive(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->w.sim.random_byte = 0xff;
    r = bench_up(b);
    relay_put_key(r, "bad", "k");
    relay_put_key(r, "next", "k");
    relay_put(r, "t", 400);
    answer(r, 35, SLOW);
    assert_string_equal(held_now(b), "bad retry 1, next behind 0");
    answer(r, 5 * 10, SLOW);
    assert_int_equal(delivered(b), 400);
    assert_string_equal(error(b), "refused: quota exceeded (0x97)");
}

static void test_throttle_of_one_is_an_attempt_while_others_flow(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_attempts = 3;
    r = bench_up(b);
    relay_put(r, "bad", 1);
    for (int i = 0; i < 60; i++) {
        relay_put(r, "t", 1);
        answer(r, 10, SLOW);
    }
    answer(r, 20, SLOW);
    assert_string_equal(held_now(b), "bad1 dead 3");
    assert_int_equal(delivered(b), 60);
}

/* Down to one at a time, by what is there alone. */
static void test_throttle_of_the_only_one_lets_later_ones_go_first(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "bad", 2);
    answer(r, 60 * 10, SLOW);
    assert_string_equal(held_now(b), "");
    assert_int_equal(r->e.sender.allowed, 1);
    relay_put(r, "t", 10);
    answer(r, 30 * 10, SLOW);
    assert_int_equal(delivered(b), 10);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"), 2);
}

static void test_throttle_of_every_second_one_blocks_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_attempts = 3;
    r = bench_up(b);
    for (int i = 0; i < 300; i++) {
        relay_put(r, "bad", 1);
        relay_put(r, "t", 1);
    }
    answer(r, 2400 * 10, SLOW);
    relay_put(r, "u", 5); /* the last bad one had nothing beside it */
    answer(r, 60 * 10, SLOW);
    assert_int_equal(delivered(b), 305);
}

static void test_throttle_and_hang_up_blocks_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_attempts = 3;
    r = bench_up(b);
    relay_put(r, "bad", 1);
    answer(r, 600 * 10, SLOW | HANG_UP);
    assert_string_equal(held_now(b), "");
    for (int i = 0; i < 200; i++) {
        relay_put(r, "t", 1);
        answer(r, 5 * 10, SLOW | HANG_UP);
    }
    answer(r, 300 * 10, SLOW | HANG_UP);
    assert_string_equal(held_now(b), "bad1 dead 3");
    assert_int_equal(delivered(b), 200);
}

static void test_throttle_packet_id_in_use_of_one_blocks_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_attempts = 3;
    r = bench_up(b);
    relay_put(r, "bad", 1);
    for (int i = 0; i < 200; i++) {
        relay_put(r, "t", 1);
        answer(r, 5 * 10, IN_USE);
    }
    assert_string_equal(held_now(b), "bad1 dead 3");
    answer(r, 300 * 10, IN_USE);
    assert_int_equal(delivered(b), 200);
}

/* Also not what is held for another reason, and was about to die. */
static void test_throttle_of_all_for_a_day_charges_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_attempts = 2;
    r = bench_up(b);
    relay_put(r, "bad", 1);
    relay_put(r, "t", 5);
    answer(r, 5, DENIED);
    relay_put(r, "u", 10);
    turn_down(r, 86400, SLOW);
    assert_string_equal(held_now(b), "bad1 retry 1");
    answer(r, 10 * 10, 0);
    assert_int_equal(delivered(b), 15);
    answer(r, 600 * 10, 0);
    assert_string_equal(held_now(b), "");
    assert_int_equal(delivered(b), 16);
}

/* Held for another reason; the second is watched after the first. */
static void test_throttle_of_what_is_held_is_charged_at_the_third(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_attempts = 3;
    b->r.options.retry_cap_ms = 10000;
    r = bench_up(b);
    relay_put(r, "bad", 2);
    answer(r, 5, DENIED);
    assert_string_equal(held_now(b), "bad1 retry 1, bad2 retry 1");
    for (int i = 0; i < 120; i++) {
        relay_put(r, "t", 1);
        answer(r, 10, SLOW);
    }
    assert_string_equal(held_now(b), "bad1 dead 3, bad2 dead 3");
    answer(r, 20, SLOW);
    assert_int_equal(delivered(b), 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_throttle_of_one_sets_it_aside_and_all_others_arrive),
        BENCH(test_throttle_of_one_is_an_attempt_while_others_flow),
        BENCH(test_throttle_of_the_only_one_lets_later_ones_go_first),
        BENCH(test_throttle_of_every_second_one_blocks_nobody),
        BENCH(test_throttle_and_hang_up_blocks_nobody),
        BENCH(test_throttle_packet_id_in_use_of_one_blocks_nobody),
        BENCH(test_throttle_of_all_for_a_day_charges_nobody),
        BENCH(test_throttle_of_what_is_held_is_charged_at_the_third),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
