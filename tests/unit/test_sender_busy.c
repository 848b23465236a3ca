/* SPDX-License-Identifier: MIT */
/* Outcomes of sends that cannot be written: while the database is busy they
 * wait, else their rows are sent again. */
#include "sender.h"

#include <sqlite3.h>

#include "relay.h"
#include "unit.h"

enum { DENIED = 0x87, TOO_LARGE = 0x95 };

static int64_t cursor(struct bench *b)
{
    return sql_get(
        b->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0");
}

static const char *held(struct bench *b)
{
    return sql_text(
        b->w.t.app, "SELECT topic, state, attempts FROM outbox_held");
}

/* The relay with n rows of prefix "t" in flight. */
static struct relay *sending(struct bench *b, int n)
{
    struct relay *r = bench_up(b);

    relay_put(r, "t", n);
    relay_run_ms(r, 1);
    assert_int_equal(r->out->in_flight, n);
    return r;
}

/* ---- the database cannot be written ---- */

static void test_sender_busy_outcome_that_cannot_be_written_is_not_lost(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 2);
    struct sqlite3 *foreign = tempdb_connect(&b->w.t);

    sql_run(foreign, "BEGIN IMMEDIATE");
    r->out->refuse_topic = "t1";
    r->out->refuse_reason = TOO_LARGE;
    r->out->auto_settle = 1;
    fake_settle(r->out, 0, TOO_LARGE);
    fake_settle(r->out, 1, 0);
    relay_run_ms(r, 3000);
    assert_string_equal(held(b), "");
    assert_int_equal(cursor(b), 0);
    sql_run(foreign, "ROLLBACK");
    relay_idle_ms(r, 2000);
    assert_string_equal(held(b), "t1|dead|1");
    assert_int_equal(cursor(b), 2);
    assert_int_equal(r->out->count, 2);
    (void)sqlite3_close(foreign);
}

/* While its fate cannot be recorded the row is not sent in a loop. */
static void test_sender_busy_outcome_that_cannot_be_written_does_not_flood(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 1);

    sql_run(b->w.t.app, "CREATE TRIGGER no BEFORE INSERT ON outbox_held"
                        " BEGIN SELECT RAISE(ABORT, 'no'); END");
    r->out->reason = DENIED;
    r->out->auto_settle = 1;
    fake_settle(r->out, 0, DENIED);
    relay_run_ms(r, 3000);
    assert_in_range(r->out->count, 3, 30);
    sql_run(b->w.t.app, "DROP TRIGGER no");
    relay_run_ms(r, 1000);
    assert_has(held(b), "t1|retry|");
}

/* ---- the database is busy ---- */

/* Refused and sent again, so that their rows stand in outbox_held. */
static struct relay *sending_held(struct bench *b, size_t n)
{
    struct relay *r;

    b->r.options.ack_delay_ms = 1;
    b->r.options.ack_timeout_ms = 2000;
    r = sending(b, (int)n);
    for (size_t i = 0; i < n; i++)
        fake_settle(r->out, i, DENIED);
    for (int i = 0; i < 100 && r->out->count < 2 * n; i++)
        relay_run_ms(r, 20);
    assert_int_equal(r->out->count, 2 * n);
    assert_int_equal(r->out->in_flight, n);
    return r;
}

static void test_sender_busy_held_rows_are_sent_once_beside_a_writer(
    void **state)
{
    static const int reasons[] = {0, DENIED, TOO_LARGE};
    struct bench *b = *state;
    struct relay *r = sending_held(b, 3);

    sql_run(b->w.t.app, "BEGIN IMMEDIATE");
    for (size_t i = 6; i-- > 3;) /* newest first */
        fake_settle(r->out, i, reasons[r->out->sent[i].topic[1] - '1']);
    relay_run_ms(r, 5000);
    assert_int_equal(r->out->count, 6);
    assert_int_equal(r->out->connects, 1);
    assert_int_equal(r->e.sender.window.used, 3);
    sql_run(b->w.t.app, "COMMIT");
    b->w.sim.random_byte = 0xff;
    relay_idle_ms(r, 100);
    assert_int_equal(r->e.sender.window.used, 0);
    assert_int_equal(r->e.sender.delivered, 1);
    assert_int_equal(r->out->count, 6);
    assert_string_equal(held(b), "t2|retry|2 t3|dead|2");
    assert_int_equal(sql_get(b->w.t.app, "SELECT delivered FROM outbox_cursor"
                                         " WHERE lane = 0"),
        1);
}

/* A refused row of the log; what comes after it waits a moment. */
static void test_sender_busy_refused_row_is_sent_once_beside_a_writer(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = sending(b, 3);

    sql_run(b->w.t.app, "BEGIN IMMEDIATE");
    fake_settle(r->out, 1, DENIED);
    fake_settle(r->out, 0, 0);
    fake_settle(r->out, 2, 0);
    relay_run_ms(r, 2000);
    assert_int_equal(r->out->count, 3);
    sql_run(b->w.t.app, "COMMIT");
    b->w.sim.random_byte = 0xff;
    relay_idle_ms(r, 100);
    relay_run_ms(r, 500);
    assert_int_equal(r->out->count, 3);
    assert_string_equal(held(b), "t2|retry|1");
    assert_int_equal(r->e.sender.window.used, 0);
}

/* The connection ends meanwhile: what needs no write is settled, and only the
 * rest sent again. */
static void test_sender_busy_link_lost_while_busy_sends_only_unwritten_rows(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = sending_held(b, 1);

    relay_put(r, "u", 2);
    relay_run_ms(r, 10);
    assert_string_equal(fake_topics(r->out, 2), "u1 u2");
    sql_run(b->w.t.app, "BEGIN IMMEDIATE");
    fake_settle(r->out, 1, 0);
    fake_settle(r->out, 2, 0);
    fake_settle(r->out, 3, 0);
    relay_run_ms(r, 100);
    assert_int_equal(r->e.sender.delivered, 1);
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 100);
    sql_run(b->w.t.app, "COMMIT");
    r->out->auto_settle = 1;
    relay_run_ms(r, 20000);
    assert_string_equal(fake_topics(r->out, 4), "t1");
    assert_string_equal(held(b), "");
    assert_int_equal(cursor(b), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_sender_busy_outcome_that_cannot_be_written_is_not_lost),
        BENCH(test_sender_busy_outcome_that_cannot_be_written_does_not_flood),
        BENCH(test_sender_busy_held_rows_are_sent_once_beside_a_writer),
        BENCH(test_sender_busy_refused_row_is_sent_once_beside_a_writer),
        BENCH(test_sender_busy_link_lost_while_busy_sends_only_unwritten_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
