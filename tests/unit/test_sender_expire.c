/* SPDX-License-Identifier: MIT */
/*
 * A message whose ttl_ms is over: dropped instead of sent, counted with the
 * cursor, recorded, and its key goes on.
 */
#include <sqlite3.h>

#include "relay.h"
#include "sender.h"
#include "unit.h"

enum { DENIED = 0x87 };

/* By a writer of ours: with a stamp of the boot clock.  ttl 0: none. */
static void put(struct bench *b, const char *topic, const char *key, int ttl)
{
    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, key, ttl_ms, created_ms, boot,"
        " mono_ms) VALUES ('%s', 'xy', nullif('%s', ''), nullif(%d, 0),"
        " %lld, x'%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x"
        "%02x%02x', %lld)",
        topic, key, ttl, (long long)b->w.sim.wall_ms, b->w.sim.boot,
        b->w.sim.boot, b->w.sim.boot, b->w.sim.boot, b->w.sim.boot,
        b->w.sim.boot, b->w.sim.boot, b->w.sim.boot, b->w.sim.boot,
        b->w.sim.boot, b->w.sim.boot, b->w.sim.boot, b->w.sim.boot,
        b->w.sim.boot, b->w.sim.boot, b->w.sim.boot,
        (long long)(b->w.sim.mono_us / 1000));
}

static void wait_ms(struct bench *b, int64_t ms)
{
    b->w.sim.wall_ms += ms;
    b->w.sim.mono_us += ms * 1000;
}

static const char *lost(struct bench *b)
{
    return sql_text(b->w.t.app,
        "SELECT lo, hi, n, bytes, reason FROM outbox_lost ORDER BY lo");
}

static const char *cursor(struct bench *b)
{
    return sql_text(b->w.t.app,
        "SELECT acked, settled_rows, delivered, dropped FROM outbox_cursor"
        " WHERE lane = 0");
}

static void test_expire_rows_over_are_dropped_and_others_sent(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    put(b, "a", "", 1000);
    put(b, "b", "", 1000);
    put(b, "c", "", 0);
    put(b, "d", "", 1000);
    put(b, "e", "", 9000000);
    wait_ms(b, 60000);
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 0), "c e");
    assert_string_equal(lost(b), "1|2|2|6|ttl 4|4|1|3|ttl");
    assert_string_equal(cursor(b), "5|5|2|3");
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT state FROM outbox_status ORDER BY seq"),
        "dropped dropped published dropped published");
}

/* The first at once, the others together. */
static void test_expire_tells_how_many_were_dropped(void **state)
{
    static const char told[] = "dropped, since their ttl_ms was over: ";
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    for (int i = 0; i < 4; i++) {
        put(b, "a", "", 1);
        wait_ms(b, 10);
        relay_run_ms(r, 100);
    }
    assert_has(r->log, "their ttl_ms was over: 1, see outbox_lost");
    assert_null(strstr(strstr(r->log, told) + 1, told));
    relay_idle_ms(r, 10 * 1000);
    assert_has(r->log, "their ttl_ms was over: 3, see outbox_lost");
}

static void test_expire_of_a_requeued_row_is_told(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    put(b, "a", "", 500);
    relay_run_ms(r, 10);
    fake_settle(r->out, 0, 0x90);
    relay_run_ms(r, 3000);
    sql_run(b->w.t.app,
        "UPDATE outbox_held SET state = 'retry', dead_ms = NULL,"
        " due_boot = NULL, due_ms = NULL");
    relay_run_ms(r, 1000);
    assert_string_equal(lost(b), "1|1|1|3|ttl");
    assert_has(r->log, "their ttl_ms was over: 1, see outbox_lost");
}

/* The newest entry grows also when a save came between. */
static void test_expire_contiguous_drops_are_one_entry(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    for (int i = 0; i < 3; i++) {
        put(b, "a", "", 1);
        wait_ms(b, 10);
        relay_run_ms(r, 5000);
    }
    assert_int_equal(r->out->count, 0);
    assert_string_equal(lost(b), "1|3|3|9|ttl");
}

static void test_expire_row_waits_for_older_ones_unsent(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    put(b, "a", "", 0);
    relay_run_ms(r, 10);
    put(b, "b", "k", 1);
    put(b, "c", "k", 0);
    wait_ms(b, 10);
    relay_run_ms(r, 3000);
    assert_string_equal(fake_topics(r->out, 0), "a");
    assert_string_equal(lost(b), "");
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 3000);
    assert_string_equal(fake_topics(r->out, 0), "a c");
    assert_string_equal(lost(b), "2|2|1|3|ttl");
}

static void test_expire_row_in_flight_is_not_dropped(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    put(b, "a", "", 1000);
    relay_run_ms(r, 5000);
    assert_string_equal(fake_topics(r->out, 0), "a");
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 5000);
    assert_string_equal(lost(b), "");
    assert_string_equal(cursor(b), "1|1|1|0");
}

static void test_expire_held_row_frees_its_key(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->auto_settle = 1;
    b->r.out->refuse_topic = "a1";
    b->r.out->refuse_reason = DENIED;
    b->w.sim.random_byte = 0xff;
    r = bench_up(b);
    put(b, "a1", "k", 500);
    put(b, "a2", "k", 500);
    put(b, "a3", "k", 0);
    relay_run_ms(r, 10000);
    assert_string_equal(fake_topics(r->out, 0), "a1 a3");
    assert_string_equal(lost(b), "1|2|2|8|ttl");
    assert_string_equal(cursor(b), "3|3|1|2");
}

/* What is not saved is done again, once; books and record never differ. */
static void test_expire_kill_before_the_save_drops_once(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    struct relay other;

    relay_init(&other, &b->w);
    put(b, "a", "", 1);
    put(b, "b", "", 1);
    wait_ms(b, 10);
    relay_run_ms(r, 10);
    assert_string_equal(lost(b), "");
    relay_kill(r);
    relay_open(&other);
    relay_run_ms(&other, 120000);
    relay_close(&other);
    assert_string_equal(lost(b), "1|2|2|6|ttl");
    assert_string_equal(cursor(b), "2|2|0|2");
}

static void test_expire_plain_sql_row_is_sent(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, ttl_ms, created_ms)"
        " VALUES ('a', 'xy', 1, %lld)",
        (long long)b->w.sim.wall_ms);
    wait_ms(b, 60000);
    r = bench_up(b);
    relay_run_ms(r, 1000);
    assert_string_equal(fake_topics(r->out, 0), "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_expire_rows_over_are_dropped_and_others_sent),
        BENCH(test_expire_tells_how_many_were_dropped),
        BENCH(test_expire_of_a_requeued_row_is_told),
        BENCH(test_expire_contiguous_drops_are_one_entry),
        BENCH(test_expire_row_waits_for_older_ones_unsent),
        BENCH(test_expire_row_in_flight_is_not_dropped),
        BENCH(test_expire_held_row_frees_its_key),
        BENCH(test_expire_kill_before_the_save_drops_once),
        BENCH(test_expire_plain_sql_row_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
