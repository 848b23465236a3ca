/* SPDX-License-Identifier: MIT */
/*
 * Coalescing with a relay: the newest value always arrives, and last; what is
 * in flight is not replaced; and put = delivered + held + dropped at the end.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "relay.h"
#include "sender.h"
#include "unit.h"

enum { DENIED = 0x87 };

static void put(
    struct bench *b, const char *topic, const char *coalesce, const char *key)
{
    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, coalesce, key)"
        " VALUES ('%s', 'xy', nullif('%s', ''), nullif('%s', ''))",
        topic, coalesce, key);
}

static const char *lost(struct bench *b)
{
    return sql_text(
        b->w.t.app, "SELECT dest, lo, hi, n, bytes, reason FROM outbox_lost");
}

static const char *held(struct bench *b)
{
    return sql_text(
        b->w.t.app, "SELECT topic, state FROM outbox_held ORDER BY seq");
}

/* All that was put is settled, and where it went is known. */
static void expect_balance(struct bench *b)
{
    assert_string_equal(
        sql_text(b->w.t.app,
            "SELECT max(seq) - (SELECT sum(settled_rows) FROM outbox_cursor),"
            " max(seq) - (SELECT sum(delivered + dropped) FROM outbox_cursor)"
            "  - (SELECT count(*) FROM outbox_held),"
            " (SELECT sum(dropped) FROM outbox_cursor)"
            "  - (SELECT ifnull(sum(n), 0) FROM outbox_lost) FROM outbox"),
        "0|0|0");
    assert_int_equal(
        sql_get(b->w.t.app,
            "SELECT (SELECT bytes FROM outbox_sum ORDER BY seq DESC LIMIT 1)"
            " + (SELECT ifnull(sum(length(topic) + length(payload)), 0)"
            "  FROM outbox WHERE seq > (SELECT max(seq) FROM outbox_sum))"
            " - (SELECT sum(settled_bytes) FROM outbox_cursor)"),
        0);
}

static void test_coalesce_offline_values_are_one_send(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    /* the reservation is ahead of what comes next */
    r->out->auto_settle = 1;
    put(b, "first", "", "");
    relay_run_ms(r, 5000);
    r->out->auto_up = 0;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 1000);
    for (int i = 0; i < 1000; i++)
        put(b, i == 999 ? "last" : "older", "c", "");
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox"), 2);
    r->out->auto_up = 1;
    relay_run_ms(r, 400000);
    assert_string_equal(fake_topics(r->out, 0), "first last");
    assert_string_equal(lost(b), "main|2|1000|999|6993|coalesced");
    expect_balance(b);
}

static void test_coalesce_value_in_flight_is_not_replaced(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    put(b, "1", "c", "");
    relay_step(r);
    put(b, "2", "c", "");
    put(b, "3", "c", "");
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 0), "1");
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 0), "1 3");
    fake_settle(r->out, 1, 0);
    relay_run_ms(r, 5000);
    assert_string_equal(lost(b), "main|2|2|1|3|coalesced");
    expect_balance(b);
}

/* What stays in the log says so, though one save tells of two. */
static void test_coalesce_reserved_values_that_stay_are_dropped(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    put(b, "1", "c", "");
    for (size_t i = 0; i < 2; i++) {
        relay_step(r);
        put(b, "old", "c", "");
        put(b, "new", "c", "");
        fake_settle(r->out, i, 0);
    }
    r->out->auto_settle = 1;
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 0), "1 new new");
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT state FROM outbox_status ORDER BY seq"),
        "published dropped published dropped published");
    assert_string_equal(
        lost(b), "main|2|2|1|5|coalesced main|4|4|1|5|coalesced");
    expect_balance(b);
}

/* It stands in the ring, unreserved, when a writer deletes it. */
static void test_coalesce_row_replaced_behind_the_relay_is_counted_once(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.window = 2;
    r = bench_up(b);
    relay_put(r, "t", 5);
    put(b, "old", "c", "");
    relay_step(r);
    put(b, "new", "c", "");
    assert_string_equal(lost(b), "main|6|6|1|5|coalesced");
    r->out->auto_settle = 1;
    fake_settle_all(r->out, 0);
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 0), "t1 t2 t3 t4 t5 new");
    assert_int_equal(r->errors, 0);
    expect_balance(b);
}

static void test_coalesce_refused_value_gives_way_to_a_newer_one(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    put(b, "1", "c", "");
    relay_step(r);
    put(b, "2", "c", "");
    fake_settle(r->out, 0, DENIED);
    r->out->auto_settle = 1;
    relay_run_ms(r, 5000);
    assert_string_equal(held(b), "");
    assert_string_equal(fake_topics(r->out, 0), "1 2");
    expect_balance(b);
}

/* Refuses topic 1, and is in no hurry to try it again. */
static struct relay *up_and_refusing(struct bench *b)
{
    b->w.sim.random_byte = 0xff;
    b->r.options.retry_base_ms = 60000;
    b->r.out->auto_settle = 1;
    b->r.out->refuse_topic = "1";
    b->r.out->refuse_reason = DENIED;
    return bench_up(b);
}

static void check_held(struct bench *b, const char *key)
{
    struct relay *r = up_and_refusing(b);

    put(b, "1", "c", key);
    relay_run_ms(r, 1500);
    assert_string_equal(held(b), "1|retry");
    put(b, "2", "c", key);
    relay_run_ms(r, 10);
    assert_string_equal(held(b), "");
    assert_string_equal(fake_topics(r->out, 0), "1 2");
    relay_run_ms(r, 100000);
    assert_string_equal(fake_topics(r->out, 0), "1 2");
    expect_balance(b);
}

static void test_coalesce_held_value_gives_way_to_a_newer_one(void **state)
{
    check_held(*state, "");
}

static void test_coalesce_held_value_of_a_key_gives_way_too(void **state)
{
    check_held(*state, "k");
}

/* One between them keeps its place. */
static void test_coalesce_rows_between_of_the_key_keep_their_order(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_and_refusing(b);

    put(b, "1", "c", "k");
    put(b, "between", "", "k");
    relay_run_ms(r, 1500);
    assert_string_equal(held(b), "1|retry between|behind");
    put(b, "2", "c", "k");
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 0), "1 between 2");
    expect_balance(b);
}

/* The held one is in flight again: the newer one waits for its answer. */
static struct relay *held_and_newer(struct bench *b)
{
    struct relay *r = bench_up(b);

    put(b, "1", "c", "");
    relay_run_ms(r, 10);
    fake_settle(r->out, 0, DENIED);
    relay_run_ms(r, 10000);
    assert_string_equal(fake_topics(r->out, 0), "1 1");
    put(b, "2", "c", "");
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 0), "1 1");
    return r;
}

static void test_coalesce_newer_value_waits_for_a_held_one_in_flight(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = held_and_newer(b);

    fake_settle(r->out, 1, 0);
    r->out->auto_settle = 1;
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 0), "1 1 2");
    assert_string_equal(lost(b), "");
    expect_balance(b);
}

static void test_coalesce_held_value_that_is_due_gives_way(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_and_refusing(b);

    put(b, "1", "c", "");
    relay_run_ms(r, 1500);
    fake_lose(r->out, POSTBAG_ELINK, 0);
    r->out->auto_up = 0;
    put(b, "2", "c", "");
    relay_run_ms(r, 100000);
    r->out->auto_up = 1;
    relay_run_ms(r, 400000);
    assert_string_equal(fake_topics(r->out, 0), "1 2");
    expect_balance(b);
}

static void test_coalesce_value_refused_again_gives_way(void **state)
{
    struct bench *b = *state;
    struct relay *r = held_and_newer(b);

    fake_settle(r->out, 1, DENIED);
    r->out->auto_settle = 1;
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 0), "1 1 2");
    assert_string_equal(lost(b), "main|1|1|1|3|coalesced");
    expect_balance(b);
}

/* A row for another destination is passed, and may be replaced: once of both.
 */
static void test_coalesce_row_of_another_destination_is_counted_once(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    sql_run(b->w.t.app, "INSERT INTO outbox_dest(name) VALUES ('cloud')");
    sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload, coalesce, dest)"
                        " VALUES ('a', 'xy', 'c', 'cloud')");
    relay_step(r);
    sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload, coalesce, dest)"
                        " VALUES ('b', 'xy', 'c', 'cloud')");
    relay_run_ms(r, 5000);
    put(b, "end", "", "");
    r->out->auto_settle = 1;
    relay_run_ms(r, 5000);
    assert_string_equal(
        sql_text(b->w.t.app,
            "SELECT settled_rows, settled_bytes, delivered, passed, dropped"
            " FROM outbox_cursor WHERE lane = 0"),
        "3|11|1|2|0");
}

static void test_coalesce_kill_before_the_save_counts_once(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    struct relay other;

    relay_init(&other, &b->w);
    r->out->auto_settle = 1;
    put(b, "first", "", "");
    relay_run_ms(r, 5000);
    for (int i = 0; i < 10; i++)
        put(b, "c", "c", "");
    relay_step(r);
    assert_string_equal(lost(b), "");
    relay_kill(r);
    other.out->auto_settle = 1;
    relay_open(&other);
    relay_run_ms(&other, 120000);
    assert_string_equal(fake_topics(other.out, 0), "c");
    relay_close(&other);
    assert_string_equal(lost(b), "main|2|10|9|27|coalesced");
    expect_balance(b);
}

/* ---- at random ---- */

enum { VALUES = 4 };

struct play {
    struct bench *b;
    uint32_t max_rows; /* with drop_oldest; 0: any number */
    unsigned random;
    long long last_put[VALUES];
    long long arrived[VALUES]; /* seq of the last that was acknowledged */
};

static unsigned pick(struct play *p, unsigned n)
{
    p->random = p->random * 1664525u + 1013904223u;
    return (p->random >> 8) % n;
}

/* 0: everything that waits is reserved. */
static int take(
    struct play *p, const char *topic, const char *coalesce, const char *key)
{
    char *sql =
        sqlite3_mprintf("INSERT INTO outbox(topic, payload, coalesce, key)"
                        " VALUES (%Q, 'xy', nullif(%Q, ''), nullif(%Q, ''))",
            topic, coalesce, key);
    int err = sqlite3_exec(p->b->w.t.app, sql, NULL, NULL, NULL);

    sqlite3_free(sql);
    if (err != SQLITE_OK)
        assert_has(sqlite3_errmsg(p->b->w.t.app), "outbox is full");
    return err == SQLITE_OK;
}

static void put_some(struct play *p)
{
    for (unsigned n = 1 + pick(p, 6); n > 0; n--) {
        char topic[8];
        char name[8];
        unsigned value = pick(p, VALUES);

        (void)snprintf(topic, sizeof(topic), "v%u", value);
        (void)snprintf(name, sizeof(name), "c%u", value);
        if (take(p, topic, name, value % 2 ? name : ""))
            p->last_put[value] =
                sql_get(p->b->w.t.app, "SELECT max(seq) FROM outbox");
        if (pick(p, 3) == 0)
            (void)take(p, "other", "", pick(p, 2) ? name : "");
    }
}

/* An answer to one message in flight; older values never come after newer. */
static void answer(struct play *p, struct fake_transport *out)
{
    size_t k = out->count == 0 ? 0 : pick(p, (unsigned)out->count);

    if (out->in_flight == 0)
        return;
    while (out->sent[k % out->count].is_settled)
        k++;
    k %= out->count;
    if (pick(p, 4) == 0) {
        fake_settle(out, k, DENIED);
        return;
    }
    if (out->sent[k].topic[0] == 'v') {
        long long *last = &p->arrived[out->sent[k].topic[1] - '0'];

        if (out->sent[k].seq < *last)
            fail_msg("%lld after %lld", out->sent[k].seq, *last);
        *last = out->sent[k].seq;
    }
    fake_settle(out, k, 0);
}

static void start(struct play *p)
{
    p->b->r.window = 4;
    p->b->r.options.max_rows = p->max_rows;
    p->b->r.options.overflow = p->max_rows == 0 ? NULL : "drop_oldest";
    (void)bench_up(p->b);
}

/* As after kill -9. */
static void start_again(struct play *p)
{
    relay_kill(&p->b->r);
    relay_init(&p->b->r, &p->b->w);
    start(p);
}

static void drain(struct play *p, struct relay *r)
{
    int64_t waits = 1;

    r->out->auto_up = 1;
    for (int i = 0; i < 20000 && waits > 0; i++) {
        relay_run_ms(r, 2000);
        if (r->out->count > FAKE_SENDS / 2)
            start_again(p);
        while (r->out->in_flight > 0)
            answer(p, r->out);
        waits = sql_get(p->b->w.t.app,
            "SELECT max(seq) - (SELECT sum(settled_rows) FROM outbox_cursor)"
            " + (SELECT count(*) FROM outbox_held WHERE state <> 'dead')"
            " FROM outbox");
    }
    assert_int_equal(waits, 0);
}

static void play(struct bench *b, uint32_t max_rows)
{
    const char *seed = getenv("POSTBAG_SEED");
    struct play p = {.b = b,
        .max_rows = max_rows,
        .random = seed != NULL ? (unsigned)strtoul(seed, NULL, 10)
                               : (unsigned)time(NULL)};
    struct relay *r = &b->r;

    print_message("POSTBAG_SEED=%u\n", p.random);
    start(&p);
    for (int i = 0; i < 600; i++) {
        if (pick(&p, 3) == 0)
            put_some(&p);
        if (r->out->is_up && pick(&p, 40) == 0)
            fake_lose(r->out, POSTBAG_ELINK, 0);
        if (pick(&p, 60) == 0)
            start_again(&p);
        relay_run_ms(r, pick(&p, 300));
        answer(&p, r->out);
    }
    drain(&p, r);
    for (int i = 0; i < VALUES && max_rows == 0; i++)
        if (sql_get(b->w.t.app,
                "SELECT count(*) FROM outbox_held WHERE seq = %lld",
                p.last_put[i]) == 0)
            assert_int_equal(p.arrived[i], p.last_put[i]);
    expect_balance(b);
}

static void test_coalesce_random_play_ends_with_the_last_values(void **state)
{
    play(*state, 0);
}

static void test_coalesce_random_play_within_a_limit_balances(void **state)
{
    struct bench *b = *state;

    play(b, 12);
    assert_true(sql_get(b->w.t.app, "SELECT ifnull(sum(n), 0) FROM outbox_lost"
                                    " WHERE reason = 'limit'") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_coalesce_offline_values_are_one_send),
        BENCH(test_coalesce_value_in_flight_is_not_replaced),
        BENCH(test_coalesce_reserved_values_that_stay_are_dropped),
        BENCH(test_coalesce_row_replaced_behind_the_relay_is_counted_once),
        BENCH(test_coalesce_refused_value_gives_way_to_a_newer_one),
        BENCH(test_coalesce_held_value_gives_way_to_a_newer_one),
        BENCH(test_coalesce_held_value_of_a_key_gives_way_too),
        BENCH(test_coalesce_rows_between_of_the_key_keep_their_order),
        BENCH(test_coalesce_newer_value_waits_for_a_held_one_in_flight),
        BENCH(test_coalesce_held_value_that_is_due_gives_way),
        BENCH(test_coalesce_value_refused_again_gives_way),
        BENCH(test_coalesce_row_of_another_destination_is_counted_once),
        BENCH(test_coalesce_kill_before_the_save_counts_once),
        BENCH(test_coalesce_random_play_ends_with_the_last_values),
        BENCH(test_coalesce_random_play_within_a_limit_balances),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
