/* SPDX-License-Identifier: MIT */
/* What is damaged in the database: what becomes of it, and what is told. */
#include <sqlite3.h>

#include "relay.h"
#include "sound.h"
#include "unit.h"

/* As a damaged page would have it: no statement writes such a row into a STRICT
 * table, so that the table is none for a moment. */
static void spoil_row(struct bench *b, const char *table, const char *set)
{
    static const char change[] =
        "PRAGMA writable_schema=ON;"
        "UPDATE sqlite_schema SET sql = replace(sql, '%s', '%s')"
        " WHERE name = '%s'; PRAGMA writable_schema=OFF";
    struct sqlite3 *db = tempdb_connect(&b->w.t);

    sql_run(db, change, ") STRICT", ") /* */", table);
    (void)sqlite3_close(db);
    db = tempdb_connect(&b->w.t);
    sql_run(db, "PRAGMA ignore_check_constraints=ON");
    sql_run(db, "DROP TRIGGER IF EXISTS outbox_frozen");
    sql_run(db, "UPDATE %s SET %s", table, set);
    sql_run(db, change, ") /* */", ") STRICT", table);
    (void)sqlite3_close(db);
}

static const char *lost(struct bench *b)
{
    return sql_text(b->w.t.app,
        "SELECT lo, hi, n, reason, exact FROM outbox_lost ORDER BY lo");
}

static void test_engine_tell_damaged_row_is_dropped_and_named(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    r->out->auto_settle = 1;
    relay_put(r, "t", 5);
    spoil_row(b, "outbox", "topic = x'74' WHERE seq = 3");
    relay_run_ms(r, 3000);
    assert_string_equal(fake_topics(r->out, 0), "t1 t2 t4 t5");
    assert_string_equal(lost(b), "3|3|1|damaged|1");
    assert_has(r->log, "damaged in the database: 1 messages");
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0"),
        5);
}

static void test_engine_tell_damaged_row_waits_for_older_ones(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 3);
    spoil_row(b, "outbox", "id = 'a text of 16 letters' WHERE seq = 2");
    relay_run_ms(r, 1000);
    assert_string_equal(fake_topics(r->out, 0), "t1 t3");
    assert_string_equal(lost(b), "");
    fake_settle_all(r->out, 0);
    relay_run_ms(r, 3000);
    assert_string_equal(lost(b), "2|2|1|damaged|1");
}

/* Two reasons between two saves of the cursor. */
static void test_engine_tell_damage_is_told_from_age(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    sql_run(b->w.t.app,
        "INSERT INTO outbox(topic, payload, ttl_ms, boot, mono_ms) VALUES"
        " ('a', 'x', 1, CAST(replace(hex(zeroblob(8)), '00', char(1, 1))"
        "  AS BLOB), 1), ('b', 'x', NULL, NULL, NULL)");
    spoil_row(b, "outbox", "topic = x'74' WHERE seq = 2");
    relay_put(&b->r, "t", 1);
    b->w.sim.boot = 1;
    r = bench_up(b);
    r->out->auto_settle = 1;
    relay_run_ms(r, 3000);
    assert_string_equal(lost(b), "1|1|1|ttl|1 2|2|1|damaged|1");
    assert_string_equal(fake_topics(r->out, 0), "t1");
}

static void test_engine_tell_damaged_held_row_is_dropped_and_named(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    r->out->auto_settle = 1;
    r->out->refuse_topic = "t2";
    r->out->refuse_reason = 0x80;
    relay_put(r, "t", 3);
    relay_run_ms(r, 200);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"), 1);
    spoil_row(b, "outbox_held", "payload = 7.5 WHERE seq = 2");
    relay_run_ms(r, 60 * 1000);
    assert_int_equal(
        sql_get(b->w.t.app, "SELECT count(*) FROM outbox_held"), 0);
    assert_string_equal(lost(b), "2|2|1|damaged|1");
}

/* ---- what cannot be read ---- */

/* The cached page is old: a new relay reads it anew. */
static void zero_leaf_of_row(struct bench *b, int64_t n)
{
    int64_t page;
    FILE *f;
    char zeros[4096] = {0};

    sql_run(b->w.t.app, "PRAGMA wal_checkpoint(TRUNCATE)");
    page = sql_get(b->w.t.app,
        "SELECT pageno FROM (SELECT *, sum(ncell) OVER (ORDER BY path) AS upto"
        " FROM dbstat WHERE name = 'outbox' AND pagetype = 'leaf')"
        " WHERE upto - ncell < %lld AND upto >= %lld",
        (long long)n, (long long)n);
    (void)sqlite3_close(b->w.t.app);
    f = fopen(b->w.t.path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)(page - 1) * 4096, SEEK_SET), 0);
    assert_int_equal(fwrite(zeros, 1, sizeof(zeros), f), sizeof(zeros));
    assert_int_equal(fclose(f), 0);
    b->w.t.app = tempdb_connect(&b->w.t);
}

static const char *live_state(struct relay *r)
{
    static char text[2000];
    FILE *f = fopen(r->e.live.path, "r");
    size_t len;

    assert_non_null(f);
    len = fread(text, 1, sizeof(text) - 1, f);
    text[len] = '\0';
    (void)fclose(f);
    return text;
}

static void test_engine_tell_unreadable_page_stops_its_lane_only(void **state)
{
    struct bench *b = *state;
    struct relay *r;
    unsigned steps;

    b->r.options.run_dir = b->w.t.folder;
    relay_put(&b->r, "t", 600);
    sql_run(b->w.t.app, "INSERT INTO outbox(topic, payload, priority)"
                        " VALUES ('alarm', 'x', 2)");
    zero_leaf_of_row(b, 500);
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    relay_run_ms(r, 5000);
    assert_int_equal(fake_count(r->out, "alarm"), 1);
    assert_in_range(r->out->count, 300, 510);
    assert_has(live_state(r), "stalled=corrupt\n");
    r->errors = 0;
    steps = r->steps;
    relay_idle_ms(r, 300 * 1000);
    assert_in_range(r->errors, 1, 6); /* once a minute */
    assert_in_range(r->steps - steps, 10, 400);
    assert_has(live_state(r), "stalled=corrupt\n");
}

/* Two ways to one page: to delete what it has would free it for others. */
static void test_engine_tell_nothing_is_purged_of_a_damaged_file(void **state)
{
    struct bench *b = *state;
    struct relay *r;

    relay_put(&b->r, "t", 900);
    zero_leaf_of_row(b, 330);
    b->r.out->auto_settle = 1;
    r = bench_up(b);
    relay_run_ms(r, 60 * 1000);
    assert_true(r->out->count > 256);
    assert_true(r->e.housekeeper.is_damaged);
    assert_int_equal(sql_get(b->w.t.app, "SELECT min(seq) FROM outbox"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_engine_tell_damaged_row_is_dropped_and_named),
        BENCH(test_engine_tell_damaged_row_waits_for_older_ones),
        BENCH(test_engine_tell_damage_is_told_from_age),
        BENCH(test_engine_tell_damaged_held_row_is_dropped_and_named),
        BENCH(test_engine_tell_unreadable_page_stops_its_lane_only),
        BENCH(test_engine_tell_nothing_is_purged_of_a_damaged_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
