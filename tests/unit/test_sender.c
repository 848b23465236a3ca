/* SPDX-License-Identifier: MIT */
/* Where the sender starts, when it saves the cursor, and what a crash costs. */
#include "sender.h"

#include "relay.h"
#include "unit.h"

static int64_t cursor(struct bench *b)
{
    return sql_get(
        b->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0");
}

/* ---- the lazy save ---- */

static void test_sender_saves_after_a_batch_of_pubacks(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 100);
    relay_run_ms(r, 1);
    assert_int_equal(fake_settle_all(r->out, 0), 63);
    relay_run_ms(r, 1);
    assert_int_equal(cursor(b), 0);
    fake_settle(r->out, 63, 0);
    relay_run_ms(r, 1);
    assert_int_equal(cursor(b), 64);
    assert_int_equal(r->e.sender.unsaved_us, 0);
}

static void test_sender_saves_when_the_oldest_puback_waited(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 3);
    relay_run_ms(r, 1);
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 600);
    fake_settle(r->out, 1, 0);
    relay_run_ms(r, 399);
    assert_int_equal(cursor(b), 0);
    relay_idle_ms(r, 2);
    assert_int_equal(cursor(b), 2);
}

static void test_sender_saves_all_lanes_in_one_transaction(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    uint32_t before;

    sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload, priority) VALUES"
                        " ('a', '', 0), ('b', '', 1), ('c', '', 2),"
                        " ('d', '', 3)");
    relay_run_ms(r, 1);
    (void)fake_settle_all(r->out, 0);
    before = r->e.db.commits;
    relay_run_ms(r, 2000);
    assert_int_equal(r->e.db.commits, before + 1);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT acked, delivered FROM outbox_cursor"),
        "4|1 4|1 4|1 4|1");
}

static void test_sender_without_news_writes_nothing(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    int64_t before = sql_get(b->w.t.app, "PRAGMA data_version");

    relay_idle_ms(r, 3600 * 1000);
    assert_int_equal(sql_get(b->w.t.app, "PRAGMA data_version"), before);
}

static void test_sender_kept_rows_get_their_time_of_delivery(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.keep_s = 100;
    r = bench_up(b);
    r->out->auto_settle = 1;
    relay_put(r, "t", 2);
    relay_run_ms(r, 1500);
    relay_put(r, "u", 1);
    relay_run_ms(r, 1500);
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT seq, state, published_at > 1700000000000"
                             " FROM outbox_status ORDER BY seq"),
        "1|published|1 2|published|1 3|published|1");
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT upto FROM outbox_acks"), "2 3");
}

static void test_sender_rows_not_kept_leave_no_times(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    r->out->auto_settle = 1;
    relay_put(r, "t", 2);
    relay_run_ms(r, 1500);
    assert_int_equal(cursor(b), 2);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_acks"), 0);
}

static void test_sender_busy_database_delays_the_save_only(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    unsigned before;

    relay_put(r, "t", 3);
    relay_run_ms(r, 1);
    (void)fake_settle_all(r->out, 0);
    sql_run(b->w.t.app, "BEGIN IMMEDIATE");
    relay_run_ms(r, 1000);
    before = r->steps;
    relay_idle_ms(r, 1000);
    assert_in_range(r->steps - before, 2, 1000); /* it does not spin */
    sql_run(b->w.t.app, "ROLLBACK");
    assert_int_equal(cursor(b), 0);
    relay_idle_ms(r, 100);
    assert_int_equal(cursor(b), 3);
    assert_int_equal(r->out->count, 3);
}

/* ---- the reservation ---- */

static void test_sender_reserves_two_windows_ahead_of_need(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    uint32_t before;

    b->r.window = 10;
    r = bench_up(b);
    relay_put(r, "t", 100);
    relay_run_ms(r, 1);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT sent_hi FROM outbox_cursor WHERE lane = 0"),
        21);
    before = r->e.db.commits;
    assert_ok(postbag__sender_reserve(&r->e.sender, 0, 21));
    assert_int_equal(r->e.db.commits, before);
    assert_ok(postbag__sender_reserve(&r->e.sender, 0, 22));
    assert_int_equal(r->e.db.commits, before + 1);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT sent_hi FROM outbox_cursor WHERE lane = 0"),
        42);
}

/* ---- crashes ---- */

static void test_sender_crash_before_a_save_costs_duplicates_only(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    char id[40];

    relay_put(r, "t", 10);
    relay_run_ms(r, 1);
    for (size_t i = 0; i < 4; i++)
        fake_settle(r->out, i, 0);
    relay_run_ms(r, 2000);
    for (size_t i = 4; i < 8; i++)
        fake_settle(r->out, i, 0);
    relay_run_ms(r, 1);
    (void)strcpy(id, r->out->sent[4].id);
    relay_kill(r);
    relay_init(r, &b->w);
    r->out->auto_settle = 1;
    r = bench_up(b);
    relay_run_ms(r, 2000);
    assert_string_equal(fake_topics(r->out, 0), "t5 t6 t7 t8 t9 t10");
    assert_string_equal(r->out->sent[0].id, id);
    assert_int_equal(cursor(b), 10);
    assert_int_equal(sql_get(b->w.t.app,
                         "SELECT delivered FROM outbox_cursor WHERE lane = 0"),
        10);
}

/* Killed at a random moment again and again: each row is seen, and ids stay. */
static void test_sender_many_crashes_lose_no_row(void **state)
{
    struct bench *b = *state;
    struct relay *r = &b->r;
    static char ids[301][40];
    unsigned random = 3;

    relay_open(r);
    relay_put(r, "t", 300);
    for (int crash = 0; crash < 40; crash++) {
        r->out->auto_settle = crash % 2;
        relay_run_ms(r, 20);
        random = random * 1664525u + 1013904223u;
        for (size_t i = 0; i < r->out->count; i++) {
            const struct fake_sent *s = &r->out->sent[i];

            if (ids[s->seq][0] != '\0')
                assert_string_equal(ids[s->seq], s->id);
            (void)strcpy(ids[s->seq], s->id);
            if (!s->is_settled && (random >> (i % 31) & 1))
                fake_settle(r->out, i, 0);
        }
        relay_run_ms(r, random >> 16 & 1023);
        relay_kill(r);
        relay_init(r, &b->w);
        relay_open(r);
    }
    r->out->auto_settle = 1;
    relay_run_ms(r, 20000);
    assert_int_equal(cursor(b), 300);
    for (int seq = 1; seq <= 300; seq++)
        assert_int_not_equal(ids[seq][0], '\0');
}

static void test_sender_clean_stop_leaves_no_duplicates(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 3);
    relay_run_ms(r, 1);
    (void)fake_settle_all(r->out, 0);
    relay_run_ms(r, 1);
    relay_close(r);
    assert_int_equal(cursor(b), 3);
    relay_init(r, &b->w);
    r = bench_up(b);
    assert_int_equal(r->out->count, 0);
}

/* ---- work ---- */

static void test_sender_has_work_while_a_row_is_unsettled(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    assert_int_equal(postbag__sender_has_work(&r->e.sender), 0);
    relay_put(r, "t", 1);
    relay_run_ms(r, 1);
    assert_int_equal(postbag__sender_has_work(&r->e.sender), 1);
    fake_settle(r->out, 0, 0x87);
    relay_run_ms(r, 1);
    assert_int_equal(postbag__sender_has_work(&r->e.sender), 1);
    r->out->auto_settle = 1;
    relay_run_ms(r, 3000);
    assert_int_equal(postbag__sender_has_work(&r->e.sender), 0);
}

static void test_sender_has_work_until_the_cursor_is_saved(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    r->out->auto_settle = 1;
    relay_put(r, "t", 1);
    relay_run_ms(r, 1);
    assert_int_equal(r->e.sender.lanes[0].count, 0);
    assert_int_not_equal(r->e.sender.unsaved_us, 0);
    assert_int_equal(postbag__sender_has_work(&r->e.sender), 1);
    relay_run_ms(r, 3000);
    assert_int_equal(postbag__sender_has_work(&r->e.sender), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_sender_saves_after_a_batch_of_pubacks),
        BENCH(test_sender_saves_when_the_oldest_puback_waited),
        BENCH(test_sender_saves_all_lanes_in_one_transaction),
        BENCH(test_sender_without_news_writes_nothing),
        BENCH(test_sender_kept_rows_get_their_time_of_delivery),
        BENCH(test_sender_rows_not_kept_leave_no_times),
        BENCH(test_sender_busy_database_delays_the_save_only),
        BENCH(test_sender_reserves_two_windows_ahead_of_need),
        BENCH(test_sender_crash_before_a_save_costs_duplicates_only),
        BENCH(test_sender_many_crashes_lose_no_row),
        BENCH(test_sender_clean_stop_leaves_no_duplicates),
        BENCH(test_sender_has_work_while_a_row_is_unsettled),
        BENCH(test_sender_has_work_until_the_cursor_is_saved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
