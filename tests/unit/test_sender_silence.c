/* SPDX-License-Identifier: MIT */
/*
 * A broker that never answers one message, but the others; one that answers
 * none; and one that says with its DISCONNECT that it was too much.
 */
#include "sender.h"

#include "poison.h"

static int64_t has_error(struct bench *b, const char *like)
{
    return sql_get(b->w.t.app,
        "SELECT count(*) FROM outbox_held WHERE error LIKE '%s'", like);
}

/* ---- passed over ---- */

/* More rows than the look-ahead: after the first connection nothing is left
 * to be answered beside it. */
static void test_silence_of_one_sets_it_aside_and_all_others_arrive(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put_key(r, "bad", "k");
    relay_put_key(r, "next", "k");
    relay_put(r, "t", 400);
    for (int i = 0; i < 150 && held_now(b)[0] == 0; i++)
        pass_over(r, 10);
    pass_over(r, 5 * 10);
    assert_string_equal(held_now(b), "bad retry 0, next behind 0");
    assert_int_equal(has_error(b, "suspect: the link was up%PUBACK%"), 1);
    pass_over(r, 60 * 10);
    assert_string_equal(held_now(b), "bad dead 1");
    assert_int_equal(has_error(b, "no PUBACK came for it%again%"), 1);
    assert_int_equal(delivered(b), 401);
    assert_int_equal(fake_count(r->out, "bad"), 4);
    assert_int_equal(fake_count(r->out, "t400"), 1);
}

/* There is always a PUBACK, only not for the one. */
static void test_silence_of_one_is_noticed_while_others_flow(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "bad", 1);
    for (int i = 0; i < 300; i++) {
        relay_put(r, "t", 1);
        pass_over(r, 10);
    }
    assert_string_equal(held_now(b), "bad1 dead 1");
    assert_int_equal(r->out->connects, 1 + 3 + 1);
    pass_over(r, 300);
    assert_int_equal(delivered(b), 300);
}

/* Nothing but it is left, so that nothing proves the connection. */
static void test_silence_of_a_suspect_alone_is_not_its_death(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "bad", 1);
    relay_put(r, "t", 10);
    pass_over(r, 3600 * 10);
    assert_string_equal(held_now(b), "bad1 retry 0");
    assert_int_equal(has_error(b, "suspect: the link was up%"), 1);
    relay_put(r, "u", 1);
    pass_over(r, 900 * 10);
    assert_string_equal(held_now(b), "bad1 dead 1");
    assert_int_equal(delivered(b), 11);
}

/* Two hang-ups made it one row at a time. */
static void test_silence_in_isolation_blocks_nobody_for_ever(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "bad", 1);
    relay_put(r, "t", 10);
    for (int i = 0; i < 2; i++) {
        relay_run_ms(r, 10 * 1000);
        assert_int_equal(r->out->in_flight, 11);
        fake_lose(r->out, POSTBAG_ELINK, 0);
    }
    pass_over(r, 300 * 10);
    assert_string_equal(held_now(b), "bad1 dead 1");
    assert_int_equal(delivered(b), 10);
}

/* Nothing can be answered beside it, since there is no room for another. */
static void never_answered_in_the_way(struct bench *b, const char *payload)
{
    struct relay *r = bench_up(b);

    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, key)"
        " VALUES ('bad', %s, 'k')",
        payload);
    relay_put_key(r, "next", "k");
    for (int i = 0; i < 10; i++)
        sql_run(b->w.t.app,
            "INSERT INTO outbox(topic, payload) VALUES ('t', %s)", payload);
    for (int i = 0; i < 150 && held_now(b)[0] == 0; i++)
        pass_over(r, 10);
    assert_int_equal(has_error(b, "suspect: the link was up%PUBACK%"), 1);
    assert_int_equal(delivered(b), 0);
    pass_over(r, 60 * 10);
    assert_string_equal(held_now(b), "bad dead 1");
    assert_int_equal(delivered(b), 11);
    assert_int_equal(fake_count(r->out, "bad"), 3 + 1);
}

static void test_silence_where_one_may_be_in_flight_blocks_nobody(void **state)
{
    struct bench *b = *state;

    b->r.out->link.receive_max = 1;
    never_answered_in_the_way(b, "''");
}

/* Bulk leaves the second slot to what is urgent. */
static void test_silence_where_two_may_be_in_flight_blocks_nobody(void **state)
{
    struct bench *b = *state;

    b->r.out->link.receive_max = 2;
    never_answered_in_the_way(b, "''");
}

/* Bulk leaves the third slot: two that are never answered fill the window. */
static void test_silence_of_as_many_as_there_are_slots_blocks_nobody(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.receive_max = 3;
    r = bench_up(b);
    relay_put(r, "bad", 2);
    relay_put(r, "t", 10);
    pass_over(r, 600 * 10);
    assert_string_equal(held_now(b), "bad1 dead 1, bad2 dead 1");
    assert_int_equal(delivered(b), 10);
}

static void test_silence_of_one_that_fills_the_transport_blocks_nobody(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    r->out->send_err = POSTBAG_EFULL;
    relay_put(r, "bad", 1);
    relay_put(r, "t", 10);
    for (int i = 0; i < 600 * 10; i++) {
        r->out->send_accepts = r->out->in_flight == 0;
        pass_over(r, 1);
    }
    assert_string_equal(held_now(b), "bad1 dead 1");
    assert_int_equal(delivered(b), 10);
}

/* Nor is anything sent beside two with followers, where all is of their keys.
 */
static void test_silence_in_the_way_of_two_keys_sets_both_aside(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put_key(r, "bad", "k");
    relay_put_key(r, "bad", "l");
    relay_put_key(r, "t", "k");
    relay_put_key(r, "t", "l");
    pass_over(r, 900 * 10);
    assert_string_equal(
        held_now(b), "bad retry 0, bad retry 0, t behind 0, t behind 0");
}

static void test_silence_of_one_as_large_as_the_window_blocks_nobody(
    void **state)
{
    never_answered_in_the_way(*state, "zeroblob(60000)");
}

/* ---- not the message's fault ---- */

static void test_silence_for_a_day_of_one_in_flight_charges_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.receive_max = 1;
    b->r.options.ack_timeout_ms = 2000;
    r = bench_up(b);
    relay_put(r, "t", 40);
    relay_run_ms(r, 86400 * 1000);
    assert_in_range(r->out->connects, 300, 600);
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                                         " WHERE state = 'dead'"
                                         " OR attempts <> 0"),
        0);
    r->out->auto_settle = 1;
    relay_run_ms(r, 4000 * 1000);
    assert_string_equal(held_now(b), "");
    assert_int_equal(delivered(b), 40);
}

static void test_silence_for_hours_of_a_full_window_charges_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.receive_max = 4;
    b->r.options.ack_timeout_ms = 2000;
    r = bench_up(b);
    relay_put(r, "t", 40);
    relay_run_ms(r, 6 * 3600 * 1000);
    assert_in_range(r->out->connects, 75, 170);
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                                         " WHERE state = 'dead'"
                                         " OR attempts <> 0"),
        0);
    r->out->auto_settle = 1;
    relay_run_ms(r, 4000 * 1000);
    assert_string_equal(held_now(b), "");
    assert_int_equal(delivered(b), 40);
}

/* Nobody waits for it. */
static void test_silence_of_one_row_alone_suspects_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.receive_max = 1;
    r = bench_up(b);
    relay_put(r, "bad", 1);
    relay_run_ms(r, 3600 * 1000);
    assert_true(r->out->connects > 10);
    assert_string_equal(held_now(b), "");
}

static void test_silence_of_a_broker_for_a_day_suspects_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 4);
    relay_run_ms(r, 86400 * 1000);
    assert_in_range(r->out->connects, 300, 600);
    assert_string_equal(held_now(b), "");
}

/* It takes what is in flight along, whatever it answered before. */
static void test_silence_after_answers_suspects_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    for (int i = 0; i < 10; i++) {
        relay_put(r, "t", 5);
        relay_run_ms(r, 100);
        for (size_t k = 0; k < r->out->count - 1; k++)
            if (!r->out->sent[k].is_settled)
                fake_settle(r->out, k, 0);
        relay_run_ms(r, 600 * 1000);
        while (delivered(b) < 5 * (i + 1)) {
            (void)fake_settle_all(r->out, 0);
            relay_run_ms(r, 100);
        }
    }
    assert_int_equal(r->e.sender.suspicion.records[0].ends, 0);
    assert_string_equal(held_now(b), "");
    assert_int_equal(delivered(b), 50);
}

static void test_silence_of_a_slow_link_suspects_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "bad", 1);
    relay_put(r, "t", 5);
    relay_run_ms(r, 100);
    r->out->is_transferring = 1;
    r->out->takes = 1;
    relay_run_ms(r, 3600 * 1000);
    assert_int_equal(r->out->connects, 1);
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 10000);
    assert_int_equal(delivered(b), 6);
}

/* "Slow down" is no answer to a message. */
static void test_silence_of_a_broker_that_throttles_suspects_nobody(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "bad", 1);
    relay_put(r, "t", 5);
    for (int i = 0; i < 36000; i++) {
        relay_run_ms(r, 100);
        for (size_t k = 0; k < r->out->count; k++)
            if (!r->out->sent[k].is_settled && !is_of(&r->out->sent[k], "bad"))
                fake_settle(r->out, k, 0x97);
    }
    assert_true(r->out->connects > 10);
    assert_string_equal(held_now(b), "");
}

/* ---- too much ---- */

/* A broker that ends the connection with "quota exceeded" at these topics, and
 * takes so many messages of a connection. */
static void meter(struct relay *r, int tenths, const char *poison, int quota)
{
    unsigned connects = 0;
    int taken = 0;

    for (int i = 0; i < tenths; i++) {
        relay_run_ms(r, 100);
        if (r->out->connects != connects)
            taken = 0;
        connects = r->out->connects;
        for (size_t k = 0; k < r->out->count && r->out->in_flight > 0; k++) {
            if (r->out->sent[k].is_settled)
                continue;
            if (taken++ == quota || is_of(&r->out->sent[k], poison)) {
                fake_lose(r->out, POSTBAG_EREFUSED, 0x97);
                break;
            }
            fake_settle(r->out, k, 0);
        }
    }
}

static void test_quota_at_one_message_sets_it_aside_slowly(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->w.sim.random_byte = 0xff;
    r = bench_up(b);
    relay_put(r, "bad", 1);
    relay_put(r, "t", 40);
    /* in company, then three times alone: after 60, 120, 240 s */
    meter(r, 415 * 10, "bad", 1000);
    assert_string_equal(held_now(b), "");
    meter(r, 50 * 10, "bad", 1000);
    assert_string_equal(held_now(b), "bad1 retry 0");
    assert_int_equal(has_error(b, "suspect: the link ended with quota%"), 1);
    for (int i = 0; i < 40; i++) {
        relay_put(r, "u", 1);
        meter(r, 60 * 10, "bad", 1000);
    }
    assert_string_equal(held_now(b), "bad1 dead 3");
    assert_int_equal(has_error(b, "the link ended with quota%"), 1);
    meter(r, 120 * 10, "bad", 1000);
    assert_int_equal(delivered(b), 80);
}

static void test_quota_of_a_connection_suspects_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 60);
    meter(r, 86400 * 10, "-", 3);
    assert_int_equal(delivered(b), 60);
    assert_string_equal(held_now(b), "");
}

static void test_quota_used_up_for_a_day_charges_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 40);
    meter(r, 86400 * 10, "", 0);
    assert_in_range(r->out->connects, 300, 600);
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                                         " WHERE state = 'dead'"
                                         " OR attempts <> 0"),
        0);
    meter(r, 4000 * 10, "-", 1000);
    assert_int_equal(delivered(b), 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_silence_of_one_sets_it_aside_and_all_others_arrive),
        BENCH(test_silence_of_one_is_noticed_while_others_flow),
        BENCH(test_silence_of_a_suspect_alone_is_not_its_death),
        BENCH(test_silence_in_isolation_blocks_nobody_for_ever),
        BENCH(test_silence_where_one_may_be_in_flight_blocks_nobody),
        BENCH(test_silence_where_two_may_be_in_flight_blocks_nobody),
        BENCH(test_silence_of_as_many_as_there_are_slots_blocks_nobody),
        BENCH(test_silence_of_one_that_fills_the_transport_blocks_nobody),
        BENCH(test_silence_in_the_way_of_two_keys_sets_both_aside),
        BENCH(test_silence_of_one_as_large_as_the_window_blocks_nobody),
        BENCH(test_silence_for_a_day_of_one_in_flight_charges_nobody),
        BENCH(test_silence_for_hours_of_a_full_window_charges_nobody),
        BENCH(test_silence_of_one_row_alone_suspects_nobody),
        BENCH(test_silence_of_a_broker_for_a_day_suspects_nobody),
        BENCH(test_silence_after_answers_suspects_nobody),
        BENCH(test_silence_of_a_slow_link_suspects_nobody),
        BENCH(test_silence_of_a_broker_that_throttles_suspects_nobody),
        BENCH(test_quota_at_one_message_sets_it_aside_slowly),
        BENCH(test_quota_of_a_connection_suspects_nobody),
        BENCH(test_quota_used_up_for_a_day_charges_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
