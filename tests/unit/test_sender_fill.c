/* SPDX-License-Identifier: MIT */
/*
 * What leaves, and when: the window, the reservation, lanes, the order of
 * keys, and rows that can never leave.
 */
#include "sender.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "relay.h"
#include "unit.h"

static void put_sql(struct bench *b, const char *columns, const char *values)
{
    sql_run(b->w.t.app, "INSERT INTO outbox(%s) VALUES %s", columns, values);
}

/* ---- the window ---- */

static void test_fill_window_is_never_exceeded(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.window = 8;
    r = bench_up(b);
    assert_int_equal(r->e.outbound.was_used, 0);
    relay_put(r, "t", 100);
    for (int i = 0; i < 200 && r->out->count < 100; i++) {
        relay_step(r);
        (void)fake_settle_all(r->out, 0);
    }
    relay_run_ms(r, 10);
    assert_int_equal(r->out->count, 100);
    /* bulk leaves a slot to urgent messages */
    assert_int_equal(r->out->most_in_flight, 7);
    assert_int_equal(r->e.outbound.was_used, 1);
}

static void test_fill_receive_maximum_bounds_the_window(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.receive_max = 3;
    r = bench_up(b);
    relay_put(r, "t", 10);
    put_sql(b, "topic, payload, priority",
        "('u1', '', 1), ('u2', '', 1), ('u3', '', 1), ('u4', '', 2)");
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 0), "u4 u1 u2");
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 10);
    assert_int_equal(r->out->most_in_flight, 3);
}

static void test_fill_receive_maximum_of_one_still_sends_bulk(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.receive_max = 1;
    r = bench_up(b);
    relay_put(r, "t", 3);
    r->out->auto_settle = 1;
    relay_run_ms(r, 10);
    assert_int_equal(r->out->count, 3);
    assert_int_equal(r->out->most_in_flight, 1);
}

static void test_fill_bytes_in_flight_are_bounded(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.window_bytes = 1024;
    r = bench_up(b);
    for (int i = 0; i < 30; i++)
        put_sql(b, "topic, payload", "('t', zeroblob(99))");
    for (int i = 0; i < 60 && r->out->count < 30; i++) {
        relay_step(r);
        (void)fake_settle_all(r->out, 0);
    }
    assert_int_equal(r->out->count, 30);
    /* bulk: seven eighths, in rows of 100 bytes */
    assert_int_equal(r->out->most_bytes, 800);
}

static void test_fill_row_larger_than_the_window_goes_alone(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.window_bytes = 1024;
    r = bench_up(b);
    put_sql(b, "topic, payload",
        "('small', ''), ('large', zeroblob(5000)), ('next', '')");
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 0), "small");
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 0), "small large");
    fake_settle(r->out, 1, 0);
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 0), "small large next");
    assert_int_equal(r->out->most_in_flight, 1);
}

/* RAM, look-ahead and duplicates are bounded behind one lost PUBACK. */
static void test_fill_stops_four_windows_behind_an_unsettled_row(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.window = 4;
    r = bench_up(b);
    relay_put(r, "t", 100);
    relay_step(r);
    for (int i = 0; i < 50; i++) {
        for (size_t k = 1; k < r->out->count; k++)
            if (!r->out->sent[k].is_settled)
                fake_settle(r->out, k, 0);
        relay_step(r);
    }
    assert_int_equal(r->out->count, 16);
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 10);
    assert_int_equal(r->out->count, 19);
}

/* ---- the reservation ---- */

struct watcher {
    struct sqlite3 *db; /* another process that looks at the file */
    int looked;
};

static void expect_reserved(void *ctx, const struct fake_sent *s)
{
    struct watcher *w = ctx;

    assert_true(
        sql_get(w->db, "SELECT sent_hi FROM outbox_cursor WHERE lane = 0") >=
        s->seq);
    w->looked++;
}

static void test_fill_reservation_is_committed_before_a_send(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    struct watcher w = {.db = tempdb_connect(&b->w.t)};

    b->r.window = 5;
    r = bench_up(b);
    r->out->on_send = expect_reserved;
    r->out->on_send_ctx = &w;
    r->out->auto_settle = 1;
    relay_put(r, "t", 60);
    relay_run_ms(r, 5000);
    assert_int_equal(w.looked, 60);
    (void)sqlite3_close(w.db);
}

static void test_fill_without_the_reservation_sends_nothing(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    struct sqlite3 *foreign = tempdb_connect(&b->w.t);

    relay_put(r, "t", 3);
    sql_run(foreign, "BEGIN IMMEDIATE");
    relay_run_ms(r, 300);
    assert_int_equal(r->out->count, 0);
    sql_run(foreign, "ROLLBACK");
    relay_idle_ms(r, 100);
    assert_int_equal(r->out->count, 3);
    (void)sqlite3_close(foreign);
}

/* ---- lanes ---- */

static void test_fill_urgent_overtakes_a_backlog(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.window = 4;
    r = bench_up(b);
    relay_put(r, "bulk", 50);
    relay_run_ms(r, 10);
    assert_int_equal(r->out->count, 3);
    put_sql(b, "topic, payload, priority", "('alarm', '', 3)");
    relay_run_ms(r, 10);
    /* at once, though bulk has filled its part of the window */
    assert_string_equal(fake_topics(r->out, 3), "alarm");
    put_sql(b, "topic, payload, priority", "('low', '', 1), ('high', '', 2)");
    relay_run_ms(r, 10);
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 4), "high low bulk4");
}

/* ---- keys ---- */

static void test_fill_one_message_of_a_key_is_in_flight(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put_key(r, "a1", "a");
    relay_put_key(r, "a2", "a");
    relay_put_key(r, "b1", "b");
    relay_put_key(r, "a3", "a");
    relay_put(r, "free", 1);
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 0), "a1 b1 free1");
    fake_settle(r->out, 1, 0);
    relay_run_ms(r, 10);
    assert_int_equal(r->out->count, 3);
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 10);
    fake_settle(r->out, 3, 0);
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 3), "a2 a3");
}

/* 3000 random messages of 20 keys, settled in random order: each key's leave
 * in the order of their commit, and never two at once. */
static void test_fill_random_keys_keep_their_order(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    long long last[20] = {0};
    unsigned random = 1;

    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, key)"
        " WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < 2999)"
        " SELECT 't' || (i * 7919 %% 20), '', i * 7919 %% 20 FROM n");
    for (int i = 0; i < 60000 && r->out->count < 3000; i++) {
        relay_step(r);
        random = random * 1664525u + 1013904223u;
        if (r->out->in_flight == 0)
            continue;
        for (size_t k = random % (unsigned)r->out->count;; k++) {
            if (r->out->sent[k % r->out->count].is_settled)
                continue;
            fake_settle(r->out, k % r->out->count, 0);
            break;
        }
    }
    assert_int_equal(r->out->count, 3000);
    for (size_t i = 0; i < r->out->count; i++) {
        const struct fake_sent *s = &r->out->sent[i];
        int key = atoi(s->key);

        assert_true(s->seq > last[key]);
        last[key] = s->seq;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_fill_window_is_never_exceeded),
        BENCH(test_fill_receive_maximum_bounds_the_window),
        BENCH(test_fill_receive_maximum_of_one_still_sends_bulk),
        BENCH(test_fill_bytes_in_flight_are_bounded),
        BENCH(test_fill_row_larger_than_the_window_goes_alone),
        BENCH(test_fill_stops_four_windows_behind_an_unsettled_row),
        BENCH(test_fill_reservation_is_committed_before_a_send),
        BENCH(test_fill_without_the_reservation_sends_nothing),
        BENCH(test_fill_urgent_overtakes_a_backlog),
        BENCH(test_fill_one_message_of_a_key_is_in_flight),
        BENCH(test_fill_random_keys_keep_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
