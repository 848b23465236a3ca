/* SPDX-License-Identifier: MIT */
/* No transaction, of reading or of writing, is open while the transport is
 * called; and the window after a quota is the broker's. */
#include <sqlite3.h>

#include "relay.h"
#include "unit.h"

struct witness {
    struct sqlite3 *db;
    int looked;
};

static void expect_no_transaction(void *ctx, const struct fake_sent *s)
{
    struct witness *w = ctx;

    (void)s;
    assert_int_equal(sqlite3_txn_state(w->db, NULL), SQLITE_TXN_NONE);
    w->looked++;
}

static void test_send_has_no_transaction_open(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    struct witness w = {.db = r->e.db.handle};

    r->out->on_send = expect_no_transaction;
    r->out->on_send_ctx = &w;
    b->w.sim.random_byte = 0;
    relay_put_key(r, "refused", "k");
    relay_put(r, "t", 3);
    relay_run_ms(r, 1);
    fake_settle(r->out, 0, 0x87);
    relay_run_ms(r, 10);
    relay_put_key(r, "behind", "k");
    (void)fake_settle_all(r->out, 0);
    r->out->auto_settle = 1;
    relay_run_ms(r, 10000);
    assert_string_equal(
        fake_topics(r->out, 0), "refused t1 t2 t3 refused behind");
    assert_int_equal(w.looked, 6);
}

/* A programming error of ours must not become a lock held for a round trip:
 * the row stays, and the log tells. */
static void test_send_inside_a_transaction_is_refused(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 1);
    relay_run_ms(r, 1);
    relay_put(r, "u", 1);
    assert_ok(postbag__sender_look(&r->e.sender));
    assert_ok(postbag__exec(&r->e.db, "BEGIN"));
    assert_int_equal(
        postbag__sender_fill(&r->e.sender, b->w.sim.mono_us), POSTBAG_ESTATE);
    assert_ok(postbag__exec(&r->e.db, "ROLLBACK"));
    assert_string_equal(fake_topics(r->out, 0), "t1");
    relay_run_ms(r, 1);
    assert_string_equal(fake_topics(r->out, 0), "t1 u1");
}

static void test_send_window_never_grows_over_receive_maximum(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.out->link.receive_max = 4;
    r = bench_up(b);
    relay_put(r, "t", 100);
    relay_run_ms(r, 1);
    fake_settle(r->out, 0, 0x97);
    for (int i = 0; i < 30; i++) {
        relay_run_ms(r, 2000);
        (void)fake_settle_all(r->out, 0);
    }
    relay_run_ms(r, 10);
    assert_in_range(r->out->count, 80, 101);
    assert_in_range(r->out->most_in_flight, 3, 4);
}

/* An alarm's bytes find room beside bulk that has taken all it may. */
static void test_send_bulk_leaves_an_eighth_of_the_bytes(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    b->r.options.window_bytes = 8000;
    r = bench_up(b);
    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < 20) SELECT 'b', zeroblob(499) FROM n");
    relay_run_ms(r, 1);
    assert_int_equal(r->out->count, 14);
    sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload, priority)"
                        " VALUES ('alarm', zeroblob(900), 1)");
    relay_run_ms(r, 1);
    assert_string_equal(fake_topics(r->out, 14), "alarm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_send_has_no_transaction_open),
        BENCH(test_send_inside_a_transaction_is_refused),
        BENCH(test_send_window_never_grows_over_receive_maximum),
        BENCH(test_send_bulk_leaves_an_eighth_of_the_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
