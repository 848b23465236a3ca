/* SPDX-License-Identifier: MIT */
/* What may wait, and that plain SQL meets the limit. */
#include "limit_store.h"

#include <sqlite3.h>

#include "schema.h"
#include "tempdb.h"
#include "unit.h"

static int set_up(void **state)
{
    static struct tempdb t;

    tempdb_make_outbox(&t);
    *state = &t;
    return 0;
}

static int tear_down(void **state)
{
    tempdb_remove(*state);
    return 0;
}

static void set(struct tempdb *t, uint32_t max_rows, uint32_t max_bytes)
{
    const struct limits l = {.max_rows = max_rows, .max_bytes = max_bytes};
    struct db db;

    assert_ok(postbag__db_open(&db, t->path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__limits_set(&db, &l));
    postbag__db_close(&db);
}

/* Messages of a topic and payload of 10 bytes together. */
static void put_some(struct tempdb *t, int priority, int count)
{
    sql_run(t->app,
        "INSERT INTO outbox(topic, payload, priority)"
        " WITH RECURSIVE n(i) AS"
        "  (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
        " SELECT 't', iif(i %% 2, zeroblob(9), '123456789'), %d FROM n",
        count, priority);
}

/* Urgent ones: they may take all of a limit. */
static void put(struct tempdb *t, int count)
{
    put_some(t, 1, count);
}

static void expect_full(struct tempdb *t, const char *verb, const char *text)
{
    sql_fails(t->app, text,
        "%s INTO outbox(topic, payload, priority) VALUES ('t', '', 1)", verb);
}

/* What a relay writes when it has settled messages as put() makes them. */
static void settle(struct tempdb *t, const char *dest, int lane, int count)
{
    sql_run(t->app,
        "UPDATE outbox_cursor SET settled_rows = settled_rows + %d,"
        " settled_bytes = settled_bytes + %d WHERE dest = '%s' AND lane = %d",
        count, 10 * count, dest, lane);
}

static void test_limit_store_rows_that_wait_are_counted(void **state)
{
    static const char full[] =
        "postbag: outbox is full: max_rows (300) messages wait";
    struct tempdb *t = *state;

    set(t, 300, 0);
    put(t, 300);
    expect_full(t, "INSERT", full);
    expect_full(t, "INSERT OR IGNORE", full);
    expect_full(t, "INSERT OR REPLACE", full);
    /* in every lane what is settled makes room, and no more than that */
    settle(t, "main", 0, 1);
    put(t, 1);
    expect_full(t, "INSERT", full);
    settle(t, "main", 3, 2);
    put(t, 2);
    expect_full(t, "INSERT", full);
    /* nobody puts half of a statement */
    settle(t, "main", 0, 5);
    sql_fails(t->app, full,
        "INSERT INTO outbox(topic, payload, priority)"
        " SELECT 't', '', 1 FROM outbox LIMIT 6");
    put(t, 5);
}

static void test_limit_store_bytes_that_wait_are_counted(void **state)
{
    static const char full[] =
        "postbag: outbox is full: max_bytes (2991) bytes wait";
    struct tempdb *t = *state;

    /* more rows than one running total, and some */
    set(t, 0, 2991);
    put(t, 300);
    expect_full(t, "INSERT", full);
    settle(t, "main", 0, 1);
    put(t, 1);
    expect_full(t, "INSERT", full);
    settle(t, "main", 2, 300);
    /* a message larger than the limit gets in as long as there is room */
    sql_run(t->app, "INSERT INTO outbox(topic, payload, priority)"
                    " VALUES ('t', zeroblob(9999), 1)");
    expect_full(t, "INSERT", full);
}

static void test_limit_store_both_limits_hold(void **state)
{
    struct tempdb *t = *state;

    set(t, 3, 20);
    put(t, 2);
    expect_full(t, "INSERT", "max_bytes (20)");
    set(t, 2, 40);
    expect_full(t, "INSERT", "max_rows (2)");
    set(t, 3, 40);
    put(t, 1);
}

static void expect_bulk_full(struct tempdb *t, const char *text)
{
    sql_fails(
        t->app, text, "INSERT INTO outbox(topic, payload) VALUES ('t', '')");
}

/* An eighth, rounded down, and at least one. */
static void test_limit_store_bulk_leaves_an_eighth_to_urgent_rows(void **state)
{
    static const struct {
        int limit, bulk;
    } all[] = {{1, 1}, {2, 1}, {5, 4}, {8, 7}, {15, 14}, {16, 14}, {300, 263}};
    struct tempdb *t = *state;
    char full[80];

    for (size_t i = 0; i < COUNT(all); i++) {
        set(t, (uint32_t)all[i].limit, 0);
        put_some(t, 0, all[i].bulk);
        (void)snprintf(full, sizeof(full),
            "outbox is full: max_rows (%d) messages wait, less an eighth",
            all[i].limit);
        expect_bulk_full(t, full);
        if (all[i].limit != all[i].bulk)
            put(t, all[i].limit - all[i].bulk);
        expect_bulk_full(t, full);
        expect_full(t, "INSERT", "wait");
        settle(t, "main", 0, all[i].limit);
    }
}

static void test_limit_store_bulk_leaves_an_eighth_of_the_bytes(void **state)
{
    struct tempdb *t = *state;

    set(t, 0, 80);
    put_some(t, 0, 7);
    expect_bulk_full(t, "max_bytes (80) bytes wait, less an eighth");
    put_some(t, 3, 1);
    expect_full(t, "INSERT", "max_bytes (80) bytes wait");
}

static void test_limit_store_slowest_destination_counts(void **state)
{
    struct tempdb *t = *state;
    struct db db;

    assert_ok(postbag__db_borrow(&db, t->app));
    assert_ok(postbag__schema_add_dest(&db, "cloud"));
    put(t, 4);
    set(t, 4, 0);
    settle(t, "main", 0, 4);
    expect_full(t, "INSERT", "max_rows");
    settle(t, "cloud", 0, 1);
    put(t, 1);
    set(t, 0, 41);
    put(t, 1);
    expect_full(t, "INSERT", "max_bytes");
}

/* A new destination does not wait for what was there before it, or its outbox
 * would be full for ever. */
static void test_limit_store_later_destination_waits_for_stored_rows(
    void **state)
{
    struct tempdb *t = *state;
    struct db db;

    put(t, 600);
    /* an urgent row may go before older bulk */
    sql_run(t->app, "DELETE FROM outbox WHERE seq < 500 OR seq IN (505, 550)");
    assert_ok(postbag__db_borrow(&db, t->app));
    assert_ok(postbag__schema_add_dest(&db, "cloud"));
    settle(t, "main", 0, 600);
    set(t, 100, 0);
    put(t, 1);
    expect_full(t, "INSERT", "max_rows");
    set(t, 0, 1011);
    put(t, 1);
    sql_run(t->app,
        "INSERT INTO outbox(topic, payload, priority) VALUES ('t', '', 1)");
    expect_full(t, "INSERT", "max_bytes");
}

static void test_limit_store_held_and_dead_messages_do_not_count(void **state)
{
    struct tempdb *t = *state;

    set(t, 2, 0);
    put(t, 2);
    sql_run(t->app,
        "INSERT INTO outbox_held(dest, seq, state, id, topic, payload,"
        "  priority, retain, created_ms)"
        " SELECT 'main', seq, iif(seq = 1, 'dead', 'retry'), id, topic,"
        "  payload, 0, 0, 1 FROM outbox");
    settle(t, "main", 0, 2);
    put(t, 2);
    expect_full(t, "INSERT", "max_rows");
}

static void test_limit_store_state_change_of_the_caller_stays(void **state)
{
    struct tempdb *t = *state;

    set(t, 1, 0);
    put(t, 1);
    sql_run(t->app, "CREATE TABLE mine(x); BEGIN IMMEDIATE;"
                    "INSERT INTO mine VALUES (7)");
    expect_full(t, "INSERT", "max_rows");
    sql_run(t->app, "COMMIT");
    assert_int_equal(sql_get(t->app, "SELECT x FROM mine"), 7);
    assert_int_equal(sql_get(t->app, "SELECT count(*) FROM outbox"), 1);
}

static void test_limit_store_full_outbox_is_purged(void **state)
{
    struct tempdb *t = *state;

    set(t, 2, 1);
    put(t, 1);
    expect_full(t, "INSERT", "max_bytes");
    set(t, 2, 0);
    put(t, 1);
    expect_full(t, "INSERT", "max_rows");
    sql_run(t->app, "DELETE FROM outbox WHERE seq = 1;"
                    "UPDATE outbox_dest SET lease_until = 9");
    expect_full(t, "INSERT", "max_rows");
}

static void test_limit_store_set_again_writes_nothing(void **state)
{
    struct tempdb *t = *state;
    int64_t before;

    set(t, 5, 50);
    before = sql_get(t->app, "PRAGMA data_version");
    set(t, 5, 50);
    assert_int_equal(sql_get(t->app, "PRAGMA data_version"), before);
    assert_string_equal(
        sql_text(t->app, "SELECT value FROM outbox_meta"
                         " WHERE key IN ('max_rows', 'max_bytes')"
                         " ORDER BY key DESC"),
        "5 50");
    set(t, 0, 0);
    assert_int_equal(sql_get(t->app, "SELECT count(*) FROM sqlite_schema"
                                     " WHERE name LIKE 'outbox_limit%%'"),
        0);
    put(t, 10);
}

/* As an older library may have left it. */
static void test_limit_store_other_trigger_is_replaced(void **state)
{
    struct tempdb *t = *state;

    set(t, 1, 0);
    sql_run(t->app, "DROP TRIGGER outbox_limit_rows;"
                    "CREATE TRIGGER outbox_limit_rows BEFORE INSERT ON outbox"
                    " BEGIN SELECT 1; END");
    put(t, 1);
    set(t, 1, 0);
    expect_full(t, "INSERT", "max_rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_limit_store_rows_that_wait_are_counted),
        TEST_IN(test_limit_store_bytes_that_wait_are_counted),
        TEST_IN(test_limit_store_both_limits_hold),
        TEST_IN(test_limit_store_bulk_leaves_an_eighth_to_urgent_rows),
        TEST_IN(test_limit_store_bulk_leaves_an_eighth_of_the_bytes),
        TEST_IN(test_limit_store_slowest_destination_counts),
        TEST_IN(test_limit_store_later_destination_waits_for_stored_rows),
        TEST_IN(test_limit_store_held_and_dead_messages_do_not_count),
        TEST_IN(test_limit_store_state_change_of_the_caller_stays),
        TEST_IN(test_limit_store_full_outbox_is_purged),
        TEST_IN(test_limit_store_set_again_writes_nothing),
        TEST_IN(test_limit_store_other_trigger_is_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
