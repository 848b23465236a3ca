/* SPDX-License-Identifier: MIT */
/*
 * What the purge may take while relays run: never what is unsettled in its own
 * lane for any destination; and no lane that is idle keeps the rest.
 */
#include "purge_store.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "relay.h"
#include "schema.h"
#include "sound.h"
#include "unit.h"

/* Rows that no purge takes: those behind the newest running total. */
enum { TAIL = 256 };

static int64_t rows(struct bench *b, const char *where)
{
    return sql_get(b->w.t.app, "SELECT count(*) FROM outbox WHERE %s", where);
}

/* The rows above a destination's cursors are those that it has not settled. */
static void assert_nothing_is_missing(struct bench *b)
{
    assert_string_equal(
        sql_text(b->w.t.app,
            "SELECT d.name, (SELECT max(seq) FROM outbox)"
            " - (SELECT sum(settled_rows) FROM outbox_cursor c"
            "    WHERE c.dest = d.name) AS pending,"
            " (SELECT count(*) FROM outbox o JOIN outbox_cursor c"
            "   ON c.dest = d.name AND c.lane = o.priority"
            "  WHERE o.seq > c.acked) AS stored"
            " FROM outbox_dest d WHERE pending <> stored"),
        "");
}

static void put_one(struct bench *b, const char *topic, int priority)
{
    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, priority) VALUES ('%s', 'x', %d)",
        topic, priority);
}

/* Settle what is in flight, but for one topic. */
static void settle_but(struct relay *r, const char *topic)
{
    for (size_t i = 0; i < r->out->count; i++)
        if (!r->out->sent[i].is_settled &&
            strcmp(r->out->sent[i].topic, topic) != 0)
            fake_settle(r->out, i, 0);
}

/* Steps until the bulk lane is settled up to seq; the urgent row flies. */
static void drain_bulk(struct bench *b, int64_t seq)
{
    for (int i = 0; i < 1000 && b->r.e.sender.lanes[0].saved < seq; i++) {
        settle_but(&b->r, "urgent");
        relay_run_ms(&b->r, 100);
        assert_nothing_is_missing(b);
        assert_int_equal(rows(b, "topic = 'urgent'"), 1);
    }
    assert_in_range(b->r.e.sender.lanes[0].saved, seq, seq + 1);
}

static void test_purge_goes_round_an_urgent_row_that_is_unsettled(void **state)
{
    struct bench *b = *state;

    relay_put(&b->r, "a", 499);
    put_one(b, "urgent", 1);
    relay_put(&b->r, "b", 499);
    put_one(b, "last", 0);
    (void)bench_up(b);
    drain_bulk(b, 1000);
    relay_run_ms(&b->r, 5000);
    assert_int_equal(rows(b, "seq < 500"), 0);
    assert_int_equal(rows(b, "seq = 500"), 1);
    assert_in_range(rows(b, "seq > 500"), 1, TAIL);
    b->r.out->auto_settle = 1;
    (void)fake_settle_all(b->r.out, 0);
    relay_put(&b->r, "c", 300);
    relay_run_ms(&b->r, 5000);
    assert_int_equal(rows(b, "topic = 'urgent'"), 0);
    assert_in_range(rows(b, "1"), 1, TAIL);
}

/* Three urgent lanes were never used, or hold one old row that is settled. */
static void test_purge_is_not_held_up_by_idle_lanes(void **state)
{
    struct bench *b = *state;

    put_one(b, "u", 2);
    relay_put(&b->r, "a", 999);
    b->r.out->auto_settle = 1;
    (void)bench_up(b);
    for (int i = 0; i < 3; i++) {
        relay_run_ms(&b->r, 5000);
        assert_nothing_is_missing(b);
        assert_in_range(rows(b, "1"), 1, TAIL);
        relay_put(&b->r, "b", 500);
    }
}

/* ---- at random, with two destinations ---- */

static void put_some(struct bench *b, unsigned *seed)
{
    static const char *const dests[] = {"NULL", "NULL", "'main'", "'cloud'"};

    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, priority, dest)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < %d) SELECT 't', 'x', %d, %s FROM n",
        1 + rand_r(seed) % 40, rand_r(seed) % 4, dests[rand_r(seed) % 4]);
}

static void settle_some(struct relay *r, unsigned *seed)
{
    for (size_t i = 0; i < r->out->count; i++)
        if (!r->out->sent[i].is_settled && rand_r(seed) % 3 != 0)
            fake_settle(r->out, i, rand_r(seed) % 50 == 0 ? 0x87 : 0);
}

static void run_at_random(struct bench *b, struct relay *other, unsigned seed)
{
    for (int i = 0; i < 60; i++) {
        struct relay *r = rand_r(&seed) % 2 ? &b->r : other;

        put_some(b, &seed);
        settle_some(r, &seed);
        relay_run_ms(r, rand_r(&seed) % 1500);
        assert_nothing_is_missing(b);
    }
}

static void test_purge_at_random_takes_nothing_unsettled(void **state)
{
    struct bench *b = *state;
    unsigned seed = 20261130;
    struct relay other;
    struct db db;

    assert_ok(postbag__db_borrow(&db, b->w.t.app));
    assert_ok(postbag__schema_add_dest(&db, "cloud"));
    relay_init(&other, &b->w);
    other.options.dest = "cloud";
    relay_open(&other);
    relay_open(&b->r);
    run_at_random(b, &other, seed);
    b->r.out->auto_settle = 1;
    other.out->auto_settle = 1;
    (void)fake_settle_all(b->r.out, 0);
    (void)fake_settle_all(other.out, 0);
    for (int i = 0; i < 20; i++) {
        relay_run_ms(&b->r, 5000);
        relay_run_ms(&other, 5000);
        assert_nothing_is_missing(b);
    }
    assert_in_range(rows(b, "1"), 1, 2 * TAIL);
    relay_close(&other);
    assert_sound(&b->w.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_purge_goes_round_an_urgent_row_that_is_unsettled),
        BENCH(test_purge_is_not_held_up_by_idle_lanes),
        BENCH(test_purge_at_random_takes_nothing_unsettled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
