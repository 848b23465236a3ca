/* SPDX-License-Identifier: MIT */
/*
 * A message whose ttl_ms is over: dropped instead of sent, counted with the
 * cursor, recorded, and its key goes on.
 */
#include <sqlite3.h>
#include <stdio.h>

#include "relay.h"
#include "schema.h"
#include "sender.h"
#include "unit.h"

enum { DENIED = 0x87 };

/* By a writer of ours: with a stamp of the boot clock.  ttl 0: none. */
static void put_in(struct bench *b, int lane, const char *topic,
    const char *key, const char *coalesce, int ttl)
{
    char boot[33] = "";

    for (int i = 0; i < 16; i++)
        (void)snprintf(boot + 2 * i, 3, "%02x", (unsigned)b->w.sim.boot);
    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, key, coalesce, ttl_ms, priority,"
        " created_ms, boot, mono_ms) VALUES ('%s', 'xy', nullif('%s', ''),"
        " nullif('%s', ''), nullif(%d, 0), %d, %lld, x'%s', %lld)",
        topic, key, coalesce, ttl, lane, (long long)b->w.sim.wall_ms, boot,
        (long long)(b->w.sim.mono_us / 1000));
}

static void put(struct bench *b, const char *topic, const char *key, int ttl)
{
    put_in(b, 0, topic, key, "", ttl);
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

/* ---- while the link is down ---- */

static struct relay *up_in_the_dark(struct bench *b)
{
    b->r.out->auto_up = 0;
    relay_open(&b->r);
    relay_run_ms(&b->r, 100);
    return &b->r;
}

static void test_expire_offline_rows_over_make_room(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_rows = 11; /* ten of bulk */
    r = up_in_the_dark(b);
    for (int i = 0; i < 10; i++)
        put(b, "a", i % 2 ? "k" : "", 1000);
    sql_fails(b->w.t.app, "outbox is full",
        "INSERT INTO outbox(topic, payload) VALUES ('b', 'xy')");
    relay_run_ms(r, 3500);
    put(b, "b", "", 0);
    assert_string_equal(lost(b), "1|10|10|30|ttl");
    assert_string_equal(cursor(b), "10|10|0|10");
    r->out->auto_settle = 1;
    r->out->auto_up = 1;
    relay_run_ms(r, 400000);
    assert_string_equal(fake_topics(r->out, 0), "b");
    assert_string_equal(lost(b), "1|10|10|30|ttl");
}

static void test_expire_offline_many_rows_go_in_few_transactions(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    uint32_t commits;

    sql_run(b->w.t.app, "BEGIN");
    for (int i = 0; i < 1000; i++)
        put(b, "a", "", 1000);
    sql_run(b->w.t.app, "COMMIT");
    r = up_in_the_dark(b);
    commits = r->e.db.commits;
    relay_run_ms(r, 4000);
    assert_string_equal(lost(b), "1|1000|1000|3000|ttl");
    assert_true(r->e.db.commits - commits <= 12);
}

/* The cursor is a prefix; and what waits costs nothing. */
static void test_expire_offline_row_behind_one_that_lives_waits(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);
    uint32_t commits;
    unsigned steps;

    put(b, "a", "", 0);
    put(b, "b", "", 1000);
    relay_run_ms(r, 3000);
    commits = r->e.db.commits;
    steps = r->steps;
    relay_run_ms(r, 100000);
    assert_string_equal(lost(b), "");
    assert_int_equal(r->e.db.commits, commits);
    assert_true(r->steps - steps <= 100);
    r->out->auto_settle = 1;
    r->out->auto_up = 1;
    relay_run_ms(r, 400000);
    assert_string_equal(fake_topics(r->out, 0), "a");
    assert_string_equal(lost(b), "2|2|1|3|ttl");
}

static void test_expire_offline_row_is_kept_until_its_time(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);

    put(b, "a", "", 200000);
    relay_idle_ms(r, 199000);
    assert_string_equal(lost(b), "");
    relay_idle_ms(r, 3000);
    assert_string_equal(lost(b), "1|1|1|3|ttl");
}

/* The engine does not spin for what it has not noticed yet. */
static void test_expire_offline_unnoticed_row_waits_for_the_next_look(
    void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.poll_ms = 30000;
    r = up_in_the_dark(b);
    put(b, "a", "", 500);
    put(b, "b", "", 3000);
    relay_run_ms(r, 2000);
    put(b, "c", "", 500);
    relay_idle_ms(r, 5000);
    relay_run_ms(r, 5000);
    assert_string_equal(lost(b), "1|3|3|9|ttl");
}

static void test_expire_offline_rows_of_others_are_passed(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);

    assert_ok(postbag__schema_add_dest(&r->e.db, "cloud"));
    sql_run(b->w.t.app, "BEGIN");
    for (int i = 0; i < 700; i++)
        sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload, dest)"
                            " VALUES ('c', 'xy', 'cloud')");
    sql_run(b->w.t.app, "COMMIT");
    put(b, "a", "", 1000);
    put(b, "b", "", 0);
    relay_run_ms(r, 5000);
    assert_string_equal(lost(b), "701|701|1|3|ttl");
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT settled_rows, passed, dropped, sent_hi"
                             " FROM outbox_cursor WHERE dest = 'main'"
                             " AND lane = 0"),
        "701|700|1|701");
}

static void test_expire_offline_urgent_rows_go_in_their_lane(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);

    put(b, "a", "", 0);
    put_in(b, 2, "u", "", "", 1000);
    relay_run_ms(r, 5000);
    assert_string_equal(lost(b), "2|2|1|3|ttl");
    assert_int_equal(sql_get(b->w.t.app, "SELECT sum(dropped) FROM"
                                         " outbox_cursor WHERE lane = 2"),
        1);
}

/* Dropped in memory and not saved yet: a writer must leave it alone. */
static void test_expire_offline_row_is_reserved_before_it_goes(void **state)
{
    struct bench *b = *state;
    struct relay *r = up_in_the_dark(b);

    put_in(b, 0, "old", "", "c", 500);
    relay_run_ms(r, 1500);
    assert_string_equal(lost(b), "");
    put_in(b, 0, "new", "", "c", 0);
    relay_run_ms(r, 5000);
    assert_string_equal(lost(b), "1|1|1|5|ttl");
    assert_string_equal(cursor(b), "1|1|0|1");
}

/* The row stands in the ring, and a writer deletes it before it is too old. */
static void test_expire_offline_row_dropped_by_others_counts_once(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.window = 2;
    r = bench_up(b);
    put(b, "1", "", 5000);
    put(b, "2", "", 5000);
    put_in(b, 0, "old", "", "c", 5000);
    put(b, "4", "", 5000);
    relay_step(r);
    assert_string_equal(fake_topics(r->out, 0), "1");
    fake_lose(r->out, POSTBAG_ELINK, 0);
    r->out->auto_up = 0;
    relay_run_ms(r, 1000);
    put_in(b, 0, "new", "", "c", 0);
    assert_string_equal(lost(b), "3|3|1|5|coalesced");
    relay_run_ms(r, 10000);
    assert_string_equal(lost(b), "1|2|2|6|ttl 3|3|1|5|coalesced 4|4|1|3|ttl");
    assert_string_equal(cursor(b), "4|4|0|4");
    assert_int_equal(r->errors, 0);
}

static void test_expire_offline_held_rows_go_and_free_their_key(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->auto_settle = 1;
    b->r.out->refuse_topic = "a1";
    b->r.out->refuse_reason = DENIED;
    b->r.options.retry_base_ms = 300000;
    b->r.options.retry_cap_ms = 300000;
    b->w.sim.random_byte = 0xff;
    r = bench_up(b);
    put(b, "a1", "k", 5000);
    put(b, "a2", "k", 5000);
    put(b, "a3", "k", 0);
    relay_run_ms(r, 2000);
    r->out->auto_up = 0;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 10000);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT topic, state FROM outbox_held"),
        "a3|retry");
    assert_string_equal(lost(b), "1|2|2|8|ttl");
    assert_string_equal(cursor(b), "3|3|0|2");
    assert_has(r->log, "their ttl_ms was over: 2");
}

static void test_expire_held_row_in_flight_is_not_dropped(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    put(b, "a", "", 5000);
    relay_run_ms(r, 10);
    fake_settle(r->out, 0, DENIED);
    relay_run_ms(r, 4000);
    assert_string_equal(fake_topics(r->out, 0), "a a");
    relay_run_ms(r, 5000);
    assert_string_equal(lost(b), "");
    fake_settle(r->out, 1, 0);
    relay_run_ms(r, 5000);
    assert_string_equal(cursor(b), "1|1|1|0");
}

/* Without its copy it would be found in the log, and counted again. */
static void test_expire_held_row_waits_for_the_cursor(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    put(b, "a", "", 0);
    put(b, "b", "", 1500);
    relay_run_ms(r, 10);
    fake_settle(r->out, 1, DENIED);
    relay_run_ms(r, 10000);
    assert_string_equal(fake_topics(r->out, 0), "a b");
    assert_string_equal(lost(b), "");
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 10000);
    assert_string_equal(lost(b), "2|2|1|3|ttl");
    assert_string_equal(cursor(b), "2|2|1|1");
}

/* The table of held rows is not full of dead ends. */
static void test_expire_many_held_rows_go_in_turn(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->auto_settle = 1;
    b->r.out->refuse_topic = "a";
    b->r.out->refuse_reason = DENIED;
    b->r.options.retry_base_ms = 300000;
    b->r.options.retry_cap_ms = 300000;
    b->w.sim.random_byte = 0xff;
    r = bench_up(b);
    for (int i = 0; i < 150; i++)
        put(b, "a", "", i < 100 ? 500000 : 20000);
    relay_run_ms(r, 5000);
    r->out->auto_up = 0;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 100000);
    assert_string_equal(lost(b), "101|150|50|150|ttl");
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
        BENCH(test_expire_offline_rows_over_make_room),
        BENCH(test_expire_offline_many_rows_go_in_few_transactions),
        BENCH(test_expire_offline_row_behind_one_that_lives_waits),
        BENCH(test_expire_offline_row_is_kept_until_its_time),
        BENCH(test_expire_offline_unnoticed_row_waits_for_the_next_look),
        BENCH(test_expire_offline_rows_of_others_are_passed),
        BENCH(test_expire_offline_urgent_rows_go_in_their_lane),
        BENCH(test_expire_offline_row_is_reserved_before_it_goes),
        BENCH(test_expire_offline_row_dropped_by_others_counts_once),
        BENCH(test_expire_offline_held_rows_go_and_free_their_key),
        BENCH(test_expire_held_row_in_flight_is_not_dropped),
        BENCH(test_expire_held_row_waits_for_the_cursor),
        BENCH(test_expire_many_held_rows_go_in_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
