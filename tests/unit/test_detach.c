/* SPDX-License-Identifier: MIT */
/*
 * A destination that holds the log back is detached by the relay of another:
 * what it misses is recorded exactly, and it goes on behind that.
 */
#include "detach.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "dest_store.h"
#include "relay.h"
#include "schema.h"
#include "sound.h"
#include "status_store.h"
#include "unit.h"

enum { MINUTE_MS = 60 * 1000, HOUR_S = 3600 };

/* Relay a of main, which settles at once; destination cloud, whose relay b a
 * test may open. */
struct pair {
    struct world w;
    struct relay a, b;
};

static int set_up(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));
    struct db db;

    assert_non_null(p);
    world_make(&p->w);
    assert_ok(postbag__db_borrow(&db, p->w.t.app));
    assert_ok(postbag__schema_add_dest(&db, "cloud"));
    relay_init(&p->a, &p->w);
    p->a.out->auto_settle = 1;
    relay_init(&p->b, &p->w);
    p->b.options.dest = "cloud";
    *state = p;
    return 0;
}

static void close_relay(struct relay *r)
{
    if (r->is_open)
        relay_close(r);
    else if (r->out != NULL)
        r->out->base.ops->destroy(&r->out->base);
}

static int tear_down(void **state)
{
    struct pair *p = *state;

    close_relay(&p->a);
    close_relay(&p->b);
    assert_sound(&p->w.t);
    world_remove(&p->w);
    free(p);
    return 0;
}

/* Relay a has these options, owns main and has been up for over a minute. */
static void open_a(struct pair *p, uint32_t after_s, uint32_t after_bytes)
{
    p->a.options.detach_after_s = after_s;
    p->a.options.detach_after_bytes = after_bytes;
    relay_open(&p->a);
    relay_run_ms(&p->a, MINUTE_MS + 100);
}

static void put(struct pair *p, int count, int priority, const char *dest)
{
    sql_run(p->w.t.app,
        "INSERT INTO outbox(topic, payload, priority, dest, created_ms)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < %d)"
        " SELECT 't', '123456789', %d, nullif('%s', ''), %lld FROM n",
        count, priority, dest, (long long)p->w.sim.wall_ms);
}

/* A look of relay a comes by. */
static void look(struct pair *p)
{
    relay_run_ms(&p->a, 11 * 1000);
}

static const char *lost(struct pair *p)
{
    return sql_text(
        p->w.t.app, "SELECT dest, lo, hi, n, bytes, reason FROM outbox_lost");
}

static struct postbag_status status(struct pair *p, const char *dest)
{
    static const struct moment now;
    struct postbag_status s = {0};
    struct db db;

    assert_ok(postbag__db_borrow(&db, p->w.t.app));
    assert_ok(postbag__status_read(&db, dest, &now, &s));
    assert_int_equal(s.ledger_gap, 0);
    assert_int_equal(s.dropped,
        sql_get(p->w.t.app,
            "SELECT ifnull(sum(n), 0) FROM outbox_lost WHERE dest = '%s'",
            dest));
    return s;
}

static void assert_detached(struct pair *p, int is_detached)
{
    struct postbag_status s = status(p, "cloud");

    assert_int_equal(s.dropped > 0, is_detached);
    assert_int_equal(
        strstr(p->a.log, "destination cloud is detached") != NULL, is_detached);
}

/* ---- when ---- */

static void test_detach_is_off_by_default(void **state)
{
    struct pair *p = *state;

    put(p, 300, 0, "");
    open_a(p, 0, 0);
    relay_run_ms(&p->a, 1000 * MINUTE_MS);
    assert_detached(p, 0);
    assert_int_equal(sql_get(p->w.t.app, "SELECT count(*) FROM outbox"), 300);
}

static void test_detach_by_bytes_at_the_limit(void **state)
{
    struct pair *p = *state;

    open_a(p, 0, 100);
    put(p, 9, 0, "");
    look(p);
    assert_detached(p, 0);
    put(p, 1, 0, "");
    look(p);
    assert_detached(p, 1);
    assert_string_equal(lost(p), "cloud|1|10|10|100|detached");
    assert_int_equal(status(p, "cloud").pending, 0);
    assert_int_equal(status(p, "cloud").pending_bytes, 0);
    assert_has(p->a.log, "10 messages (100 bytes)");
}

static void test_detach_by_age_of_a_plain_row(void **state)
{
    struct pair *p = *state;

    open_a(p, HOUR_S, 0);
    put(p, 1, 0, "");
    relay_run_ms(&p->a, 59 * MINUTE_MS);
    put(p, 1, 0, "");
    look(p);
    assert_detached(p, 0);
    relay_run_ms(&p->a, MINUTE_MS);
    assert_detached(p, 1);
    assert_string_equal(lost(p), "cloud|1|2|2|20|detached");
}

static void test_detach_by_age_of_an_urgent_row(void **state)
{
    struct pair *p = *state;

    open_a(p, HOUR_S, 0);
    put(p, 1, 3, "");
    relay_run_ms(&p->a, 61 * MINUTE_MS);
    assert_string_equal(lost(p), "cloud|1|1|1|10|detached");
}

/* The wall clock was set after it was put; the boot clock knows. */
static void test_detach_by_age_of_a_stamped_row(void **state)
{
    struct pair *p = *state;

    open_a(p, HOUR_S, 0);
    sql_run(p->w.t.app,
        "INSERT INTO outbox(topic, payload, created_ms, boot, mono_ms) SELECT"
        " 't', '', 1000, x'01010101010101010101010101010101', %lld",
        (long long)(p->w.sim.mono_us / 1000));
    relay_run_ms(&p->a, 59 * MINUTE_MS);
    assert_detached(p, 0);
    relay_run_ms(&p->a, 2 * MINUTE_MS);
    assert_detached(p, 1);
}

/* Nothing is dropped by a guess. */
static void test_detach_age_that_no_clock_knows_is_none(void **state)
{
    struct pair *p = *state;

    open_a(p, HOUR_S, 0);
    sql_run(p->w.t.app,
        "INSERT INTO outbox(topic, payload, created_ms, boot, mono_ms) VALUES"
        " ('t', '', 1000, x'02020202020202020202020202020202', 1),"
        " ('t', '', 1000, NULL, NULL)");
    relay_run_ms(&p->a, 90 * MINUTE_MS);
    assert_detached(p, 0);
}

/* After a start the others' relays may still be on their way. */
static void test_detach_waits_a_minute_after_the_start(void **state)
{
    struct pair *p = *state;

    put(p, 20, 0, "");
    p->a.options.detach_after_bytes = 100;
    relay_open(&p->a);
    relay_run_ms(&p->a, 59 * 1000);
    assert_int_equal(status(p, "main").delivered, 20);
    assert_detached(p, 0);
    relay_run_ms(&p->a, 2000);
    assert_detached(p, 1);
}

/* Without our own PUBACKs everybody waits, and nobody is to blame. */
static void test_detach_offline_relay_blames_nobody(void **state)
{
    struct pair *p = *state;

    p->a.out->auto_settle = 0;
    open_a(p, HOUR_S, 100);
    put(p, 50, 0, "");
    relay_run_ms(&p->a, 100 * MINUTE_MS);
    assert_detached(p, 0);
}

static void test_detach_is_not_a_standbys(void **state)
{
    struct pair *p = *state;
    struct relay owner;

    relay_init(&owner, &p->w);
    owner.out->auto_settle = 1;
    relay_open(&owner);
    relay_run_ms(&owner, 100);
    open_a(p, 0, 100);
    put(p, 20, 0, "");
    relay_run_ms(&owner, 5000);
    look(p);
    assert_int_equal(p->a.e.lease.is_owner, 0);
    assert_detached(p, 0);
    relay_close(&owner);
}

/* ---- what ---- */

/* What waits for us, too, must be stored anyway. */
static void test_detach_leaves_what_we_have_not_settled(void **state)
{
    struct pair *p = *state;

    open_a(p, 0, 100);
    put(p, 15, 0, "");
    relay_run_ms(&p->a, 2000);
    p->a.out->auto_settle = 0;
    put(p, 5, 0, "");
    put(p, 2, 1, "");
    look(p);
    assert_string_equal(lost(p), "cloud|1|15|15|150|detached");
    assert_int_equal(status(p, "cloud").pending, 7);
    assert_string_equal(
        sql_text(p->w.t.app, "SELECT DISTINCT state FROM outbox_status"
                             " WHERE dest = 'cloud' AND seq > 15"),
        "pending");
}

/* Ranges hold dropped rows only: not those of others, nor what is held. */
static void test_detach_records_exact_ranges_of_each_lane(void **state)
{
    struct pair *p = *state;

    put(p, 2, 0, "");      /* 1 2 */
    put(p, 1, 0, "main");  /* 3 */
    put(p, 2, 0, "cloud"); /* 4 5 */
    put(p, 1, 2, "");      /* 6 */
    put(p, 2, 0, "");      /* 7 8: 8 is held */
    put(p, 1, 2, "main");  /* 9 */
    sql_run(p->w.t.app,
        "INSERT INTO outbox_held(dest, seq, state, id, topic, payload,"
        " priority, retain, created_ms) SELECT 'cloud', seq, 'retry', id,"
        " topic, payload, 0, 0, 1 FROM outbox WHERE seq = 8");
    open_a(p, 0, 30);
    assert_string_equal(
        sql_text(p->w.t.app, "SELECT lo, hi, n, bytes FROM outbox_lost"
                             " ORDER BY lo"),
        "1|2|2|20 4|6|3|30 7|7|1|10");
    assert_int_equal(status(p, "cloud").passed, 2);
    assert_int_equal(status(p, "cloud").held, 1);
    assert_string_equal(
        sql_text(p->w.t.app, "SELECT lane, acked, sent_hi, settled_rows, "
                             "settled_bytes, dropped FROM outbox_cursor"
                             " WHERE dest = 'cloud' AND lane IN (0, 2)"),
        "0|9|9|7|70|5 2|9|9|2|20|1");
    assert_string_equal(
        sql_text(p->w.t.app, "SELECT state FROM outbox_status"
                             " WHERE dest = 'cloud' ORDER BY seq"),
        "dropped dropped passed dropped dropped dropped dropped retry passed");
}

static void test_detach_passes_rows_of_others_without_a_loss(void **state)
{
    struct pair *p = *state;

    open_a(p, 0, 100);
    put(p, 300, 0, "main");
    relay_run_ms(&p->a, 30000);
    assert_detached(p, 0);
    assert_int_equal(status(p, "cloud").passed, 300);
    assert_in_range(sql_get(p->w.t.app, "SELECT count(*) FROM outbox"), 1, 50);
}

/* In three transactions that fence the owner, told once. */
static void test_detach_of_much_is_one_entry_and_one_line(void **state)
{
    struct pair *p = *state;
    const char *first;

    open_a(p, 0, 20480);
    put(p, 3072, 0, "");
    relay_run_ms(&p->a, 30000);
    assert_string_equal(lost(p), "cloud|1|3072|3072|30720|detached");
    assert_in_range(sql_get(p->w.t.app,
                        "SELECT epoch FROM outbox_dest WHERE name = 'cloud'"),
        3, 3);
    first = strstr(p->a.log, "detached: 3072 messages (30720 bytes)");
    assert_non_null(first);
    assert_null(strstr(first + 1, "detached"));
    assert_in_range(sql_get(p->w.t.app, "SELECT count(*) FROM outbox"), 1, 256);
}

static void test_detach_lets_the_purge_with_keep_s_go_on(void **state)
{
    struct pair *p = *state;

    p->a.options.keep_s = 60;
    open_a(p, 0, 100);
    put(p, 600, 0, "");
    look(p);
    assert_detached(p, 1);
    assert_int_equal(sql_get(p->w.t.app, "SELECT count(*) FROM outbox"), 600);
    relay_run_ms(&p->a, 2 * MINUTE_MS);
    assert_int_equal(sql_get(p->w.t.app, "SELECT count(*) FROM outbox"), 88);
}

/* A destination that never had a relay stops the puts no longer. */
static void test_detach_makes_room_below_the_limit(void **state)
{
    struct pair *p = *state;

    p->a.options.max_rows = 22; /* 20 for bulk */
    open_a(p, 0, 150);
    put(p, 20, 0, "");
    relay_run_ms(&p->a, 2000);
    sql_fails(p->w.t.app, "outbox is full",
        "INSERT INTO outbox(topic, payload) VALUES ('t', '')");
    look(p);
    put(p, 20, 0, "");
    assert_detached(p, 1);
}

static void test_detach_with_a_failing_table_changes_nothing(void **state)
{
    struct pair *p = *state;

    sql_run(p->w.t.app, "CREATE TRIGGER no BEFORE INSERT ON outbox_lost BEGIN"
                        " SELECT RAISE(ABORT, 'no'); END");
    open_a(p, 0, 100);
    put(p, 20, 0, "");
    look(p);
    assert_detached(p, 0);
    assert_int_equal(status(p, "cloud").pending, 20);
    assert_int_equal(sql_get(p->w.t.app, "SELECT sum(epoch) FROM outbox_dest"),
        1); /* that of main */
    sql_run(p->w.t.app, "DROP TRIGGER no");
    look(p);
    assert_detached(p, 1);
    assert_has(p->a.log, "20 messages (200 bytes)");
}

static void test_detach_of_one_that_is_removed_meanwhile_ends(void **state)
{
    struct pair *p = *state;
    struct db db;

    open_a(p, 0, 20480);
    put(p, 3000, 0, "");
    while (p->a.e.detach.rows == 0) {
        sim_pass_ms(&p->w.sim, 100);
        relay_step(&p->a);
    }
    assert_ok(postbag__db_borrow(&db, p->w.t.app));
    assert_ok(postbag__dest_remove(&db, "cloud"));
    look(p);
    assert_int_equal(p->a.e.detach.is_running, 0);
    assert_int_equal(p->a.err, POSTBAG_OK);
}

/* ---- the other relay ---- */

/* It lives, but its broker does not answer: what is in flight is lost to the
 * ledger, whatever comes back, and what is put next is sent. */
static void test_detach_fences_an_owner_with_rows_in_flight(void **state)
{
    struct pair *p = *state;
    size_t sent;

    relay_open(&p->b);
    put(p, 12, 0, "");
    relay_run_ms(&p->b, 10);
    sent = p->b.out->count;
    assert_int_equal(sent, 12);
    open_a(p, 0, 100);
    assert_detached(p, 1);
    (void)fake_settle_all(p->b.out, 0);
    relay_run_ms(&p->b, 2000);
    assert_has(p->b.log, "took destination cloud over");
    assert_int_equal(status(p, "cloud").delivered, 0);
    relay_run_ms(&p->b, 5000);
    put(p, 1, 0, "");
    p->b.out->auto_settle = 1;
    relay_run_ms(&p->b, 5000);
    assert_int_equal(p->b.out->count, sent + 1);
    assert_int_equal(status(p, "cloud").delivered, 1);
    assert_int_equal(status(p, "cloud").dropped, 12);
}

static void test_detach_owner_that_keeps_up_is_left_alone(void **state)
{
    struct pair *p = *state;
    int64_t epoch;

    p->b.out->auto_settle = 1;
    relay_open(&p->b);
    relay_run_ms(&p->b, 100);
    open_a(p, 60, 100);
    epoch = p->b.e.lease.epoch;
    for (int i = 0; i < 20; i++) {
        put(p, 5, i % 4, "");
        relay_run_ms(&p->b, 5000);
        relay_run_ms(&p->a, 5000);
    }
    assert_detached(p, 0);
    assert_int_equal(sql_get(p->w.t.app,
                         "SELECT epoch FROM outbox_dest WHERE name = 'cloud'"),
        epoch);
    assert_int_equal(status(p, "cloud").delivered, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_detach_is_off_by_default),
        TEST_IN(test_detach_by_bytes_at_the_limit),
        TEST_IN(test_detach_by_age_of_a_plain_row),
        TEST_IN(test_detach_by_age_of_an_urgent_row),
        TEST_IN(test_detach_by_age_of_a_stamped_row),
        TEST_IN(test_detach_age_that_no_clock_knows_is_none),
        TEST_IN(test_detach_waits_a_minute_after_the_start),
        TEST_IN(test_detach_offline_relay_blames_nobody),
        TEST_IN(test_detach_is_not_a_standbys),
        TEST_IN(test_detach_leaves_what_we_have_not_settled),
        TEST_IN(test_detach_records_exact_ranges_of_each_lane),
        TEST_IN(test_detach_passes_rows_of_others_without_a_loss),
        TEST_IN(test_detach_of_much_is_one_entry_and_one_line),
        TEST_IN(test_detach_lets_the_purge_with_keep_s_go_on),
        TEST_IN(test_detach_makes_room_below_the_limit),
        TEST_IN(test_detach_with_a_failing_table_changes_nothing),
        TEST_IN(test_detach_of_one_that_is_removed_meanwhile_ends),
        TEST_IN(test_detach_fences_an_owner_with_rows_in_flight),
        TEST_IN(test_detach_owner_that_keeps_up_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
