/* SPDX-License-Identifier: MIT */
/*
 * The order of keys around a refused message, what an operator requeues, and
 * the books: whatever happens, every message is delivered or dead.
 */
#include <sqlite3.h>
#include <stdlib.h>

#include "bench_admin.h"
#include "sender.h"

enum { DENIED = 0x87, TOO_LARGE = 0x95 };

static const char *held(struct bench *b)
{
    return sql_text(
        b->w.t.app, "SELECT topic, state FROM outbox_held ORDER BY seq");
}

static void put_keys(struct relay *r, const char *const topics[])
{
    for (size_t i = 0; topics[i] != NULL; i++)
        relay_put_key(r, topics[i], topics[i][0] == 'a' ? "a" : "b");
}

/* a1 was refused once and waits; a2, a3 and b1 were put behind it. */
static struct relay *holding(struct bench *b, int reason)
{
    static const char *const topics[] = {"a1", "a2", "b1", "a3", NULL};
    struct relay *r;

    b->r.out->refuse_topic = "a1";
    b->r.out->refuse_reason = reason;
    b->r.out->auto_settle = 1;
    b->w.sim.random_byte = 0xff;
    r = bench_up(b);
    put_keys(r, topics);
    relay_run_ms(r, 100);
    return r;
}

/* ---- behind a held message ---- */

static void test_keys_rows_behind_a_held_one_wait_and_leave_in_order(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, DENIED);

    assert_string_equal(fake_topics(r->out, 0), "a1 b1");
    assert_string_equal(held(b), "a1|retry a2|behind a3|behind");
    relay_put_key(r, "a4", "a");
    relay_put_key(r, "b2", "b");
    relay_run_ms(r, 100);
    assert_string_equal(fake_topics(r->out, 2), "b2");
    r->out->refuse_topic = NULL;
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 3), "a1 a2 a3 a4");
    assert_string_equal(held(b), "");
    relay_put_key(r, "a5", "a");
    relay_run_ms(r, 100);
    assert_string_equal(fake_topics(r->out, 7), "a5");
}

static void test_keys_one_held_row_of_a_key_is_in_flight(void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, DENIED);

    r->out->auto_settle = 0;
    relay_run_ms(r, 2000);
    assert_string_equal(fake_topics(r->out, 2), "a1");
    relay_run_ms(r, 10000);
    assert_int_equal(r->out->in_flight, 1);
    fake_settle(r->out, 2, 0);
    relay_run_ms(r, 1000);
    assert_string_equal(fake_topics(r->out, 3), "a2");
    assert_int_equal(r->out->in_flight, 1);
}

static void test_keys_dead_message_releases_the_next(void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, TOO_LARGE);

    relay_run_ms(r, 5000);
    assert_string_equal(held(b), "a1|dead");
    assert_string_equal(fake_topics(r->out, 0), "a1 b1 a2 a3");
}

static void test_keys_message_that_dies_while_held_releases_the_next(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, DENIED);

    r->out->refuse_reason = TOO_LARGE;
    relay_run_ms(r, 5000);
    assert_string_equal(held(b), "a1|dead");
    assert_string_equal(fake_topics(r->out, 0), "a1 b1 a1 a2 a3");
}

static void test_keys_next_of_a_released_key_may_be_refused_too(void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, DENIED);

    r->out->refuse_topic = "a2";
    relay_run_ms(r, 1500);
    assert_string_equal(held(b), "a2|retry a3|behind");
    r->out->refuse_topic = NULL;
    relay_run_ms(r, 5000);
    assert_string_equal(held(b), "");
    assert_string_equal(fake_topics(r->out, 0), "a1 b1 a1 a2 a2 a3");
}

static void test_keys_of_urgent_lanes_are_their_own(void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, DENIED);

    sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload, key, priority)"
                        " VALUES ('alarm', '', 'a', 2)");
    relay_run_ms(r, 100);
    assert_string_equal(fake_topics(r->out, 2), "alarm");
}

static void test_keys_held_order_survives_a_restart(void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, DENIED);

    relay_kill(r);
    relay_init(r, &b->w);
    r->out->auto_settle = 1;
    r = bench_up(b);
    relay_run_ms(r, 10000);
    /* b1's PUBACK was not saved */
    assert_string_equal(fake_topics(r->out, 0), "b1 a1 a2 a3");
    assert_string_equal(held(b), "");
}

/* a1 was acknowledged behind one that was not: so the cursor did not pass it,
 * and it is sent again, while a2 is held. */
static void test_keys_older_one_refused_after_a_crash_holds_the_later_back(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "plain", 1);
    relay_put_key(r, "a1", "a");
    relay_put_key(r, "a2", "a");
    relay_run_ms(r, 100);
    fake_settle(r->out, 1, 0);
    relay_run_ms(r, 100);
    fake_settle(r->out, 2, DENIED);
    relay_run_ms(r, 100);
    assert_string_equal(held(b), "a2|retry");
    relay_kill(r);
    relay_init(r, &b->w);
    r = bench_up(b);
    relay_run_ms(r, 100);
    fake_settle(r->out, 1, DENIED);
    relay_run_ms(r, 100);
    assert_string_equal(held(b), "a1|retry a2|behind");
    r->out->auto_settle = 1;
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 10000);
    assert_string_equal(fake_topics(r->out, 0), "plain1 a1 a1 a2");
    assert_string_equal(held(b), "");
}

static void test_keys_held_row_of_an_earlier_boot_is_due_at_once(void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, DENIED);

    sql_run(b->w.t.app, "UPDATE outbox_held SET due_ms = due_ms + 60000");
    relay_close(r);
    relay_init(r, &b->w);
    r->out->auto_settle = 1;
    relay_open(r);
    relay_run_ms(r, 5000);
    assert_int_equal(r->out->count, 0);
    relay_close(r);
    b->w.sim.boot = 2;
    relay_init(r, &b->w);
    r->out->auto_settle = 1;
    r = bench_up(b);
    relay_run_ms(r, 100);
    assert_string_equal(fake_topics(r->out, 0), "a1 a2 a3");
}

/* As in a container whose time namespace is made anew. */
static void test_keys_held_row_of_a_clock_that_begins_anew_is_due(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->w.sim.mono_us = INT64_C(1000000) * 86400;
    r = holding(b, DENIED);
    relay_close(r);
    b->w.sim.mono_us = 1000000;
    relay_init(r, &b->w);
    r->out->auto_settle = 1;
    r = bench_up(b);
    relay_run_ms(r, 100);
    assert_string_equal(fake_topics(r->out, 0), "a1 a2 a3");
}

/* ---- operators ---- */

static void test_keys_requeued_message_leaves_with_its_id(void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, TOO_LARGE);
    struct postbag_admin *a = open_admin(b);
    int64_t count = 0;

    r->out->refuse_topic = NULL;
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 0), "a1 b1 a2 a3");
    assert_ok(postbag_admin_requeue(a, NULL, 0, NULL, &count));
    assert_int_equal(count, 1);
    relay_run_ms(r, 1000);
    assert_string_equal(fake_topics(r->out, 4), "a1");
    assert_string_equal(r->out->sent[4].id, r->out->sent[0].id);
    assert_string_equal(held(b), "");
    postbag_admin_close(a);
}

static void test_keys_requeued_messages_of_a_key_leave_in_order(void **state)
{
    static const char *const topics[] = {"a1", "a2", "a3", NULL};
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    struct postbag_admin *a = open_admin(b);

    r->out->auto_settle = 1;
    r->out->reason = TOO_LARGE;
    put_keys(r, topics);
    relay_run_ms(r, 1000);
    assert_string_equal(held(b), "a1|dead a2|dead a3|dead");
    r->out->reason = 0;
    assert_ok(postbag_admin_requeue(a, NULL, 0, NULL, NULL));
    relay_run_ms(r, 3000);
    assert_string_equal(fake_topics(r->out, 3), "a1 a2 a3");
    assert_int_equal(r->out->in_flight, 0);
    postbag_admin_close(a);
}

static void test_keys_refused_while_an_older_one_is_requeued_waits_for_it(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, TOO_LARGE);
    struct postbag_admin *a = open_admin(b);

    relay_run_ms(r, 5000);
    r->out->auto_settle = 0;
    relay_put_key(r, "a4", "a");
    relay_run_ms(r, 100);
    assert_ok(postbag_admin_requeue(a, NULL, 1, NULL, NULL));
    fake_settle(r->out, 4, DENIED);
    relay_run_ms(r, 1000);
    assert_string_equal(held(b), "a1|retry a4|behind");
    assert_int_equal(sql_get(b->w.t.app, "SELECT attempts FROM outbox_held"
                                         " WHERE topic = 'a4'"),
        1);
    fake_settle(r->out, 5, 0);
    relay_run_ms(r, 1000);
    assert_string_equal(fake_topics(r->out, 4), "a4 a1 a4");
    postbag_admin_close(a);
}

static void test_keys_discarded_head_lets_the_next_go_in_order(void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, DENIED);
    struct postbag_admin *a = open_admin(b);

    relay_run_ms(r, 1500); /* by then the cursor is saved */
    assert_string_equal(fake_topics(r->out, 2), "a1");
    assert_ok(postbag_admin_discard(a, NULL, 1, NULL));
    relay_put_key(r, "a4", "a");
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 3), "a2 a3 a4");
    assert_string_equal(held(b), "");
    postbag_admin_close(a);
}

static void test_keys_held_row_removed_in_flight_is_forgotten(void **state)
{
    struct bench *b = *state;
    struct relay *r = holding(b, DENIED);

    r->out->auto_settle = 0;
    relay_run_ms(r, 1500);
    assert_string_equal(fake_topics(r->out, 2), "a1");
    sql_run(b->w.t.app, "DELETE FROM outbox_held WHERE topic = 'a1'");
    fake_settle(r->out, 2, DENIED);
    relay_run_ms(r, 1000);
    assert_int_equal(r->errors, 0);
    assert_int_equal(r->e.sender.window.used, 0);
}

/* ---- the books ---- */

static unsigned draw(unsigned *random, unsigned below)
{
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 16) % below;
}

/* Settle something at random, or lose the link. */
static void fate(struct relay *r, unsigned *random)
{
    static const int reasons[] = {0, 0, 0, 0, DENIED, TOO_LARGE, 0x97, 0x10};

    for (size_t i = 0; i < r->out->count; i++)
        if (!r->out->sent[i].is_settled && draw(random, 2))
            fake_settle(r->out, i, reasons[draw(random, COUNT(reasons))]);
    if (draw(random, 20) == 0 && r->out->is_up)
        fake_lose(r->out, POSTBAG_ELINK, 0);
}

static void check_books(struct bench *b)
{
    struct postbag_admin *a = open_admin(b);
    struct postbag_status s = {.struct_size = sizeof(s)};

    assert_ok(postbag_admin_status(a, NULL, &s));
    assert_int_equal(s.ledger_gap, 0);
    postbag_admin_close(a);
}

static void test_keys_books_balance_whatever_happens(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    unsigned random = 7;

    b->r.options.max_attempts = 3;
    b->r.options.reconnect_cap_ms = 2000;
    b->r.window = 8;
    r = bench_up(b);
    for (int i = 0; i < 400; i++) {
        char topic[20];

        (void)snprintf(topic, sizeof(topic), "t%d", i);
        relay_put_key(r, topic, (const char *[]){"a", "b", "c"}[i % 3]);
        relay_run_ms(r, 1 + draw(&random, 50));
        fate(r, &random);
        if (i % 10 == 0)
            check_books(b);
    }
    r->out->auto_settle = 1;
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 600 * 1000);
    check_books(b);
    assert_int_equal(r->errors, 0);
    assert_int_equal(
        sql_get(b->w.t.app,
            "SELECT count(*) FROM outbox_held WHERE state <> 'dead'"),
        0);
    assert_int_equal(sql_get(b->w.t.app,
                         "SELECT delivered + (SELECT count(*) FROM outbox_held)"
                         " FROM outbox_cursor WHERE lane = 0"),
        400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_keys_rows_behind_a_held_one_wait_and_leave_in_order),
        BENCH(test_keys_one_held_row_of_a_key_is_in_flight),
        BENCH(test_keys_dead_message_releases_the_next),
        BENCH(test_keys_message_that_dies_while_held_releases_the_next),
        BENCH(test_keys_next_of_a_released_key_may_be_refused_too),
        BENCH(test_keys_of_urgent_lanes_are_their_own),
        BENCH(test_keys_held_order_survives_a_restart),
        BENCH(test_keys_older_one_refused_after_a_crash_holds_the_later_back),
        BENCH(test_keys_held_row_of_an_earlier_boot_is_due_at_once),
        BENCH(test_keys_held_row_of_a_clock_that_begins_anew_is_due),
        BENCH(test_keys_requeued_message_leaves_with_its_id),
        BENCH(test_keys_requeued_messages_of_a_key_leave_in_order),
        BENCH(test_keys_refused_while_an_older_one_is_requeued_waits_for_it),
        BENCH(test_keys_discarded_head_lets_the_next_go_in_order),
        BENCH(test_keys_held_row_removed_in_flight_is_forgotten),
        BENCH(test_keys_books_balance_whatever_happens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
