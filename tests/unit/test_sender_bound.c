/* SPDX-License-Identifier: MIT */
/*
 * How much is held is bounded: what would come on top waits in the log, in
 * order, and nobody is needed to get it going again.
 */
#include <sqlite3.h>
#include <stdlib.h>

#include "postbag/admin.h"
#include "relay.h"
#include "sender.h"
#include "unit.h"

enum { DENIED = 0x87, TOO_LARGE = 0x95 };

static int64_t live(struct bench *b)
{
    return sql_get(
        b->w.t.app, "SELECT count(*) FROM outbox_held WHERE state <> 'dead'");
}

static int64_t cursor(struct bench *b)
{
    return sql_get(
        b->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0");
}

static void put_keyed(struct relay *r, const char *key, int count)
{
    char topic[20];

    for (int i = 1; i <= count; i++) {
        (void)snprintf(topic, sizeof(topic), "%s%d", key, i);
        relay_put_key(r, topic, key);
    }
}

static unsigned told(const struct relay *r, const char *what)
{
    unsigned n = 0;

    for (const char *at = r->log; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* Everything is refused, and 16 messages may be held, 14 of them bulk. */
static struct relay *revoked(struct bench *b)
{
    b->r.options.held_max_rows = 16;
    b->r.out->auto_settle = 1;
    b->r.out->reason = DENIED;
    b->w.sim.random_byte = 0xff;
    return bench_up(b);
}

static void test_bound_rows_beyond_it_wait_in_the_log(void **state)
{
    struct bench *b = *state;
    struct relay *r = revoked(b);

    relay_put(r, "t", 100);
    relay_run_ms(r, 10000);
    assert_int_equal(live(b), 14);
    assert_int_equal(cursor(b), 14);
    for (int i = 15; i <= 100; i++) {
        char topic[20];

        (void)snprintf(topic, sizeof(topic), "t%d", i);
        assert_int_equal(fake_count(r->out, topic), 0);
    }
    assert_true(r->out->count > 14 + 14); /* what is held is tried again */
    assert_int_equal(told(r, "new ones wait until there are fewer"), 1);
    r->out->reason = 0;
    relay_run_ms(r, 600000);
    assert_int_equal(live(b), 0);
    assert_int_equal(cursor(b), 100);
    assert_int_equal(told(r, "new ones are sent again"), 1);
    assert_int_equal(told(r, "new ones wait until there are fewer"), 1);
}

static void test_bound_leaves_room_for_urgent_messages(void **state)
{
    struct bench *b = *state;
    struct relay *r = revoked(b);

    relay_put(r, "t", 100);
    relay_run_ms(r, 10000);
    for (int i = 0; i < 4; i++)
        sql_run(b->w.t.app,
            "INSERT INTO outbox(topic, payload, priority)"
            " VALUES ('alarm%d', '', 2)",
            i);
    relay_run_ms(r, 2000);
    assert_int_equal(live(b), 16);
    assert_int_equal(fake_count(r->out, "alarm0"), 2);
    assert_int_equal(fake_count(r->out, "alarm2"), 0);
}

static void test_bound_in_bytes_is_passed_by_the_last_at_most(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.held_max_bytes = 1000;
    b->r.out->auto_settle = 1;
    b->r.out->reason = DENIED;
    r = bench_up(b);
    for (int i = 0; i < 10; i++)
        sql_run(b->w.t.app,
            "INSERT INTO outbox(topic, payload) VALUES ('t', zeroblob(299))");
    relay_run_ms(r, 10000);
    assert_int_equal(live(b), 3); /* 600 are below 875, 900 are not */
    assert_int_equal(cursor(b), 3);
}

/* What flies may be refused, too. */
static void test_bound_counts_what_is_in_flight(void **state)
{
    struct bench *b = *state;
    struct relay *r = revoked(b);

    r->out->auto_settle = 0;
    relay_put(r, "t", 100);
    relay_run_ms(r, 1000);
    assert_int_equal(r->out->in_flight, 14);
    (void)fake_settle_all(r->out, DENIED);
    relay_run_ms(r, 10);
    assert_int_equal(live(b), 14);
}

/* A revoked ACL, and nobody comes: all die in turn, then the good ones go. */
static void test_bound_revoked_acl_for_days_needs_nobody(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    int64_t most = 0;

    b->r.options.max_attempts = 4;
    b->r.options.retry_cap_ms = 60000;
    r = revoked(b);
    relay_put(r, "t", 120);
    put_keyed(r, "k", 20);
    for (int hour = 0; hour < 48; hour++) {
        relay_run_ms(r, 3600 * 1000);
        most = live(b) > most ? live(b) : most;
    }
    assert_true(most <= 16);
    assert_int_equal(live(b), 0);
    assert_int_equal(cursor(b), 140);
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                                         " WHERE state = 'dead'"
                                         " AND attempts = 4"),
        140);
    assert_int_equal(r->out->count, 4 * 140);
    r->out->reason = 0;
    relay_put(r, "good", 1);
    relay_run_ms(r, 1000);
    assert_string_equal(fake_topics(r->out, 4 * 140), "good1");
    assert_int_equal(r->errors, 0);
}

/* Of a key three messages may be held, and the first of eight is refused. */
static struct relay *key_a_refused(struct bench *b)
{
    b->r.options.held_max_per_key = 3;
    b->r.out->refuse_topic = "a1";
    b->r.out->refuse_reason = DENIED;
    b->r.out->auto_settle = 1;
    b->w.sim.random_byte = 0xff;
    put_keyed(bench_up(b), "a", 8);
    return &b->r;
}

static void test_bound_of_a_key_stops_that_key_only(void **state)
{
    struct bench *b = *state;
    struct relay *r = key_a_refused(b);

    put_keyed(r, "b", 20);
    relay_run_ms(r, 1500);
    assert_int_equal(live(b), 3);
    assert_int_equal(cursor(b), 3);
    assert_int_equal(fake_count(r->out, "b20"), 1);
    r->out->refuse_topic = NULL;
    relay_run_ms(r, 10000);
    assert_int_equal(live(b), 0);
    assert_int_equal(cursor(b), 28);
    assert_has(fake_topics(r->out, 0), "a1 a2 a3 a4 a5 a6 a7 a8");
}

/* As the sender sorts them. */
static uint32_t bucket_of(const char *key)
{
    uint32_t hash = 2166136261u;

    for (const char *c = key; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    return (hash ^ hash >> 16) % 1024;
}

/* Its rows go on beside the rows that stay, one at a time. */
static void test_bound_of_a_key_stops_no_other_of_its_bucket(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    char key[16];
    int n = 0;

    do
        (void)snprintf(key, sizeof(key), "k%d-", n++);
    while (bucket_of(key) != bucket_of("a"));
    r = key_a_refused(b);
    relay_run_ms(r, 10);
    assert_int_equal(live(b), 3);
    r->out->auto_settle = 0;
    put_keyed(r, key, 3);
    for (size_t i = 0; i < 3; i++) {
        relay_run_ms(r, 10);
        assert_int_equal(r->out->in_flight, 1);
        assert_int_equal(r->out->count, 2 + i);
        fake_settle(r->out, 1 + i, 0);
    }
    relay_run_ms(r, 10);
    assert_int_equal(r->out->count, 4);
    assert_int_equal(cursor(b), 0);
}

/* All that is held came after the oldest row, and is more than the bound,
 * which was lowered: held rows wait for the cursor, and the cursor for the
 * oldest row. */
static void test_bound_never_keeps_the_oldest_row_back_for_ever(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 30);
    relay_run_ms(r, 10);
    for (size_t i = 1; i < r->out->count; i++)
        fake_settle(r->out, i, DENIED);
    relay_run_ms(r, 10);
    assert_int_equal(live(b), 29);
    relay_kill(r);
    relay_init(r, &b->w);
    r = revoked(b);
    r->out->reason = 0;
    relay_run_ms(r, 600000);
    assert_int_equal(live(b), 0);
    assert_int_equal(cursor(b), 30);
}

/* Only suspects are held, and at the bound no other message can prove the
 * connection. */
static void test_bound_full_of_suspects_is_no_dead_end(void **state)
{
    struct bench *b = *state;
    struct relay *r = revoked(b);

    relay_put(r, "s", 14);
    relay_run_ms(r, 10);
    sql_run(b->w.t.app, "UPDATE outbox_held SET error = 'suspect: the link'");
    relay_put(r, "t", 30);
    r->out->reason = 0;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 600000);
    assert_int_equal(live(b), 0);
    assert_int_equal(cursor(b), 44);
}

/* None of those that wait may be sent, so it need not wait for them. */
static void test_bound_full_of_suspects_tries_one_on_a_young_link(void **state)
{
    struct bench *b = *state;
    struct relay *r = revoked(b);

    relay_put(r, "s", 14);
    relay_run_ms(r, 10);
    sql_run(b->w.t.app, "UPDATE outbox_held SET error = 'suspect: the link',"
                        " due_boot = NULL, due_ms = NULL");
    relay_put(r, "t", 30);
    r->out->reason = 0;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    while (r->out->connects < 2 || !r->out->is_up)
        relay_run_ms(r, 100);
    relay_run_ms(r, 2000);
    assert_true(live(b) < 14);
}

static void test_bound_ends_when_an_operator_discards(void **state)
{
    struct bench *b = *state;
    struct relay *r = revoked(b);

    relay_put(r, "t", 100);
    relay_run_ms(r, 2000);
    assert_int_equal(cursor(b), 14);
    r->out->reason = 0;
    sql_run(b->w.t.app, "DELETE FROM outbox_held WHERE seq <= 4");
    relay_run_ms(r, 100);
    assert_int_equal(fake_count(r->out, "t15"), 1);
}

/* Dead at once, and dead after their attempts: both make room. */
static void test_bound_of_the_dead_drops_the_oldest(void **state)
{
    static const int reasons[] = {DENIED, TOO_LARGE};
    struct bench *b = *state;
    struct relay *r;

    b->r.options.dead_max_rows = 10;
    b->r.options.max_attempts = 2;
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    for (int i = 0; i < 100; i++) {
        r->out->reason = reasons[i % 2];
        relay_put(r, "t", 1);
        relay_run_ms(r, 5000);
    }
    assert_int_equal(sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"
                                         " WHERE state = 'dead'"
                                         " AND seq > 90"),
        10);
    assert_int_equal(sql_get(b->w.t.app, "SELECT sum(n) FROM outbox_lost"
                                         " WHERE reason = 'dead_overflow'"),
        90);
    assert_int_equal(sql_get(b->w.t.app, "SELECT dropped FROM outbox_cursor"
                                         " WHERE lane = 0"),
        90);
    assert_int_equal(cursor(b), 100);
    assert_true(told(r, "dead messages dropped to make room") > 0);
    assert_int_equal(r->errors, 0);
}

static int64_t dead(struct bench *b)
{
    return sql_get(b->w.t.app, "SELECT sum(dead_rows) FROM outbox_cursor");
}

static int64_t overflowed(struct bench *b)
{
    return sql_get(b->w.t.app, "SELECT sum(n) FROM outbox_lost"
                               " WHERE reason = 'dead_overflow'");
}

/* None of them may go before the cursor is saved behind it. */
static void test_bound_of_the_dead_holds_though_no_more_die(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.dead_max_rows = 10;
    b->r.out->auto_settle = 1;
    b->r.out->reason = TOO_LARGE;
    relay_put(&b->r, "t", 100);
    r = bench_up(b);
    relay_run_ms(r, 12000);
    assert_int_equal(dead(b), 10);
    assert_int_equal(overflowed(b), 90);
    assert_true(told(r, "dead messages dropped to make room: ") > 0);
    assert_int_equal(r->errors, 0);
}

/* The cursor passed them when they were held, and is not saved again. */
static void test_bound_of_the_dead_holds_for_used_up_attempts(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.dead_max_rows = 10;
    b->r.options.max_attempts = 2;
    b->r.out->auto_settle = 1;
    b->r.out->reason = DENIED;
    relay_put(&b->r, "t", 50);
    r = bench_up(b);
    relay_run_ms(r, 60000);
    assert_int_equal(dead(b), 10);
    assert_int_equal(overflowed(b), 40);
    assert_int_equal(r->errors, 0);
}

static void test_bound_of_the_dead_may_be_lowered(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->auto_settle = 1;
    b->r.out->reason = TOO_LARGE;
    relay_put(&b->r, "t", 600);
    r = bench_up(b);
    relay_run_ms(r, 5000);
    assert_int_equal(dead(b), 600);
    relay_close(r);
    relay_init(r, &b->w);
    r->options.dead_max_rows = 10;
    r = bench_up(b);
    relay_run_ms(r, 100);
    assert_int_equal(dead(b), 10);
    assert_int_equal(overflowed(b), 590);
}

static void test_bound_holds_after_a_restart(void **state)
{
    struct bench *b = *state;
    struct relay *r = revoked(b);

    relay_put(r, "t", 100);
    relay_run_ms(r, 2000);
    relay_close(r);
    relay_init(r, &b->w);
    r = revoked(b);
    relay_run_ms(r, 2000);
    assert_int_equal(live(b), 14);
    assert_int_equal(fake_count(r->out, "t15"), 0);
    assert_int_equal(told(r, "new ones wait until there are fewer"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_bound_rows_beyond_it_wait_in_the_log),
        BENCH(test_bound_leaves_room_for_urgent_messages),
        BENCH(test_bound_in_bytes_is_passed_by_the_last_at_most),
        BENCH(test_bound_counts_what_is_in_flight),
        BENCH(test_bound_revoked_acl_for_days_needs_nobody),
        BENCH(test_bound_of_a_key_stops_that_key_only),
        BENCH(test_bound_of_a_key_stops_no_other_of_its_bucket),
        BENCH(test_bound_never_keeps_the_oldest_row_back_for_ever),
        BENCH(test_bound_full_of_suspects_is_no_dead_end),
        BENCH(test_bound_full_of_suspects_tries_one_on_a_young_link),
        BENCH(test_bound_ends_when_an_operator_discards),
        BENCH(test_bound_of_the_dead_holds_though_no_more_die),
        BENCH(test_bound_of_the_dead_holds_for_used_up_attempts),
        BENCH(test_bound_of_the_dead_may_be_lowered),
        BENCH(test_bound_holds_after_a_restart),
        BENCH(test_bound_of_the_dead_drops_the_oldest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
