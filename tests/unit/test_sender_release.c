/* SPDX-License-Identifier: MIT */
/*
 * While the link is down, what was reserved and not sent is given back, so
 * that coalescing and limits may drop it.  An orderly end repeats nothing that
 * was acknowledged.
 */
#include <sqlite3.h>

#include "relay.h"
#include "sender.h"
#include "unit.h"

static int64_t reserved(struct bench *b, int lane)
{
    return sql_get(
        b->w.t.app, "SELECT sent_hi FROM outbox_cursor WHERE lane = %d", lane);
}

static void go_down(struct relay *r)
{
    r->out->auto_up = 0;
    fake_lose(r->out, POSTBAG_ELINK, 0);
    relay_run_ms(r, 3000);
}

static void test_release_of_what_was_not_sent_when_the_link_goes(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 3);
    relay_run_ms(r, 10);
    assert_true(reserved(b, 0) > 3);
    go_down(r);
    assert_int_equal(reserved(b, 0), 3);
    assert_int_equal(reserved(b, 1), 0);
    r->out->auto_up = 1;
    r->out->auto_settle = 1;
    relay_put(r, "u", 1);
    relay_run_ms(r, 400000);
    assert_string_equal(fake_topics(r->out, 3), "t1 t2 t3 u1");
    assert_true(reserved(b, 0) > 4);
}

/* What a cursor that is saved meanwhile reserves is given back, too. */
static void test_release_outlives_a_late_save(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.ack_delay_ms = 2000;
    r = bench_up(b);
    relay_put(r, "t", 3);
    relay_run_ms(r, 10);
    fake_settle(r->out, 0, 0);
    relay_run_ms(r, 10);
    go_down(r);
    assert_string_equal(
        sql_text(b->w.t.app,
            "SELECT acked, sent_hi FROM outbox_cursor WHERE lane = 0"),
        "1|3");
}

/* It is not known which of the stored rows were sent; later ones were not. */
static void test_release_after_a_kill_ends_at_the_newest_row(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    struct relay other;

    relay_init(&other, &b->w);
    relay_put(r, "t", 3);
    relay_run_ms(r, 10);
    relay_put(r, "u", 2);
    relay_kill(r);
    other.out->auto_up = 0;
    relay_open(&other);
    relay_run_ms(&other, 1000);
    assert_int_equal(reserved(b, 0), 5);
    relay_close(&other);
}

static void test_release_lets_a_full_outbox_drop(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.max_rows = 11; /* 10 for bulk */
    b->r.options.overflow = "drop_oldest";
    r = bench_up(b);
    r->out->auto_settle = 1;
    relay_put(r, "first", 1);
    relay_run_ms(r, 3000);
    go_down(r);
    relay_put(r, "t", 30);
    r->out->auto_up = 1;
    relay_run_ms(r, 400000);
    assert_string_equal(
        fake_topics(r->out, 1), "t21 t22 t23 t24 t25 t26 t27 t28 t29 t30");
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT settled_rows, delivered, dropped"
                             " FROM outbox_cursor WHERE lane = 0"),
        "31|11|20");
}

/* It is done once for each time that the link was up. */
static void test_release_writes_nothing_more_while_offline(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    int64_t version;

    relay_put(r, "t", 1);
    relay_run_ms(r, 3000);
    go_down(r);
    version = sql_get(b->w.t.app, "PRAGMA data_version");
    relay_run_ms(r, 1000000);
    assert_int_equal(sql_get(b->w.t.app, "PRAGMA data_version"), version);
}

/* ---- an orderly end ---- */

static const char *held(struct bench *b)
{
    return sql_text(b->w.t.app,
        "SELECT ifnull(group_concat(topic || ' ' || state || ' ' || attempts,"
        " ', '), '') FROM (SELECT * FROM outbox_held ORDER BY seq)");
}

/* b1 and b2 are acknowledged, a1 is in flight, and the others of its key wait.
 */
static struct relay *overtaken(struct bench *b)
{
    static const char *const rows[][2] = {{"a1", "a"}, {"a2", "a"}, {"b1", "b"},
        {"a3", "a"}, {"b2", "b"}, {"a4", "a"}};
    struct relay *r = bench_up(b);

    for (size_t i = 0; i < COUNT(rows); i++)
        relay_put_key(r, rows[i][0], rows[i][1]);
    relay_run_ms(r, 100);
    assert_string_equal(fake_topics(r->out, 0), "a1 b1");
    fake_settle(r->out, 1, 0);
    relay_run_ms(r, 100);
    assert_string_equal(fake_topics(r->out, 2), "b2");
    fake_settle(r->out, 2, 0);
    return r;
}

/* The next life, with a broker that answers: what it sends. */
static const char *next_life(struct bench *b)
{
    struct relay *r = &b->r;

    relay_init(r, &b->w);
    r->out->auto_settle = 1;
    (void)bench_up(b);
    relay_run_ms(r, 5000);
    return fake_topics(r->out, 0);
}

static void test_release_repeats_nothing_that_was_acknowledged(void **state)
{
    struct bench *b = *state;
    struct relay *r = overtaken(b);

    fake_settle(r->out, 0, 0); /* a2 may not leave any more */
    relay_close(r);
    assert_string_equal(held(b), "a2 retry 0, a3 behind 0");
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0"),
        5);
    assert_string_equal(next_life(b), "a2 a3 a4");
    assert_string_equal(held(b), "");
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT sum(delivered) FROM outbox_cursor"), 6);
}

static void test_release_keeps_what_was_not_acknowledged_in_order(void **state)
{
    struct bench *b = *state;

    relay_close(overtaken(b));
    assert_string_equal(held(b), "a1 retry 0, a2 behind 0, a3 behind 0");
    assert_string_equal(next_life(b), "a1 a2 a3 a4");
}

static void test_release_holds_no_more_of_a_key_than_may_be(void **state)
{
    struct bench *b = *state;

    b->r.options.held_max_per_key = 2;
    relay_close(overtaken(b));
    assert_string_equal(held(b), "a1 retry 0, a2 behind 0");
    assert_string_equal(next_life(b), "a1 b2 a2 a3 a4");
    assert_string_equal(held(b), "");
}

/* Row 9 waited in the ring for k1, and was not reserved, when a newer value
 * dropped it: it is counted already. */
static void test_release_does_not_keep_what_a_writer_dropped(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.window = 3;
    r = bench_up(b);
    relay_put_key(r, "k1", "k");
    relay_put(r, "t", 7);
    for (int i = 0; i < 2; i++) {
        sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload, key, coalesce)"
                            " VALUES ('value', '', 'k', 'c')");
        relay_run_ms(r, 10);
    }
    relay_put(r, "u", 1);
    for (size_t i = 1; i <= 8; i++) {
        fake_settle(r->out, i, 0);
        relay_run_ms(r, 10);
    }
    relay_close(r);
    assert_string_equal(held(b), "k1 retry 0, value behind 0");
    assert_string_equal(
        sql_text(b->w.t.app, "SELECT settled_rows, delivered, dropped"
                             " FROM outbox_cursor WHERE lane = 0"),
        "11|8|1");
}

/* Else all that waits of that key would be copied, too. */
static void test_release_lets_the_next_of_the_key_wait_in_the_log(void **state)
{
    struct bench *b = *state;

    relay_close(overtaken(b));
    relay_init(&b->r, &b->w);
    (void)bench_up(b);
    relay_run_ms(&b->r, 5000);
    assert_string_equal(fake_topics(b->r.out, 0), "a1");
    assert_string_equal(held(b), "a1 retry 0, a2 behind 0, a3 behind 0");
}

/* So many of one key, of which the first was refused once, and arrived; then
 * one more of it, and one of another key, both seen.  The ring has 12 rows. */
static struct relay *long_queue(struct bench *b, int rows)
{
    struct relay *r;

    b->r.window = 3;
    r = bench_up(b);
    for (int i = 0; i < rows; i++)
        relay_put_key(r, "a", "a");
    relay_run_ms(r, 100);
    fake_settle(r->out, 0, 0x87);
    relay_run_ms(r, 3000);
    fake_settle(r->out, 1, 0); /* nobody refused the next */
    relay_run_ms(r, 100);
    relay_put_key(r, "late", "a");
    relay_put_key(r, "b", "b");
    relay_run_ms(r, 1100);
    assert_string_equal(fake_topics(r->out, 0), "a a a b");
    return r;
}

static int64_t is_held(struct bench *b, const char *topic)
{
    return sql_get(b->w.t.app,
        "SELECT count(*) FROM outbox_held WHERE topic = '%s'", topic);
}

/* To wait for one that is longer than the look-ahead would pin the log. */
static void test_release_joins_a_queue_longer_than_the_ring(void **state)
{
    struct bench *b = *state;

    (void)long_queue(b, 1 + 13);
    assert_int_equal(is_held(b, "a"), 13);
    assert_int_equal(is_held(b, "late"), 1);
}

static void test_release_makes_no_queue_longer_than_the_ring(void **state)
{
    struct bench *b = *state;
    struct relay *r = long_queue(b, 1 + 12);

    assert_int_equal(is_held(b, "late"), 0);
    fake_settle(r->out, 3, 0);
    relay_close(r);
    assert_int_equal(is_held(b, "a"), 12);
    assert_int_equal(is_held(b, "late"), 0);
}

static void test_release_holds_nothing_that_overtook_nothing(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 5);
    relay_run_ms(r, 100);
    fake_settle(r->out, 0, 0);
    relay_close(r);
    assert_string_equal(held(b), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_release_of_what_was_not_sent_when_the_link_goes),
        BENCH(test_release_outlives_a_late_save),
        BENCH(test_release_after_a_kill_ends_at_the_newest_row),
        BENCH(test_release_lets_a_full_outbox_drop),
        BENCH(test_release_writes_nothing_more_while_offline),
        BENCH(test_release_repeats_nothing_that_was_acknowledged),
        BENCH(test_release_keeps_what_was_not_acknowledged_in_order),
        BENCH(test_release_holds_no_more_of_a_key_than_may_be),
        BENCH(test_release_does_not_keep_what_a_writer_dropped),
        BENCH(test_release_lets_the_next_of_the_key_wait_in_the_log),
        BENCH(test_release_joins_a_queue_longer_than_the_ring),
        BENCH(test_release_makes_no_queue_longer_than_the_ring),
        BENCH(test_release_holds_nothing_that_overtook_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
