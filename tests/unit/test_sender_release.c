/* SPDX-License-Identifier: MIT */
/*
 * While the link is down, what was reserved and not sent is given back, so
 * that coalescing and limits may drop it.
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_release_of_what_was_not_sent_when_the_link_goes),
        BENCH(test_release_outlives_a_late_save),
        BENCH(test_release_after_a_kill_ends_at_the_newest_row),
        BENCH(test_release_lets_a_full_outbox_drop),
        BENCH(test_release_writes_nothing_more_while_offline),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
