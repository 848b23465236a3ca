/* SPDX-License-Identifier: MIT */
/* Which rows a newer one replaces, and that the books stay right. */
#include "coalesce_store.h"

#include <sqlite3.h>

#include "schema.h"
#include "tempdb.h"
#include "unit.h"

static struct tempdb t;
static struct db db;
static struct coalesce_store store;

static int set_up(void **state)
{
    (void)state;
    tempdb_make_outbox(&t);
    assert_ok(postbag__db_open(&db, t.path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__schema_add_dest(&db, "cloud"));
    assert_ok(postbag__coalesce_open(&store, &db, "main"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    postbag__coalesce_close(&store);
    postbag__db_close(&db);
    tempdb_remove(&t);
    return 0;
}

/* values: coalesce, key, priority, dest */
static void put(const char *values)
{
    sql_run(t.app,
        "INSERT INTO outbox(topic, payload, coalesce, key, priority, dest)"
        " VALUES ('t', 'xyz', %s)",
        values);
}

static const char *rows(void)
{
    return sql_text(t.app,
        "SELECT group_concat(seq) FROM (SELECT seq FROM outbox"
        " ORDER BY seq)");
}

/* rows, bytes, dropped and passed of a lane, and what is recorded */
static const char *books(const char *dest, int lane)
{
    return sql_text(t.app,
        "SELECT settled_rows, settled_bytes, dropped, passed,"
        " ifnull((SELECT lo || '-' || hi || ' ' || n || ' ' || bytes || ' '"
        "  || reason FROM outbox_lost l WHERE l.dest = c.dest), '')"
        " FROM outbox_cursor c WHERE dest = '%s' AND lane = %d",
        dest, lane);
}

/* What waits must be what is there, in rows and in bytes. */
static void expect_balance(void)
{
    assert_int_equal(
        sql_get(t.app, "SELECT count(*) FROM (SELECT sum(settled_rows) AS n"
                       "  FROM outbox_cursor GROUP BY dest)"
                       " WHERE n <> (SELECT max(seq) - count(*) FROM outbox)"),
        0);
    assert_int_equal(
        sql_get(t.app,
            "SELECT count(*) FROM (SELECT sum(settled_bytes) AS n"
            "  FROM outbox_cursor GROUP BY dest) WHERE n <>"
            " (SELECT bytes FROM outbox_sum ORDER BY seq DESC LIMIT 1)"
            " - (SELECT ifnull(sum(length(topic) + length(payload)), 0)"
            "  FROM outbox WHERE seq <= (SELECT max(seq) FROM outbox_sum))"),
        0);
    assert_int_equal(
        sql_get(t.app,
            "SELECT count(*) FROM outbox_dest d WHERE"
            " (SELECT sum(dropped) FROM outbox_cursor WHERE dest = d.name)"
            " <> (SELECT ifnull(sum(n), 0) FROM outbox_lost"
            "  WHERE dest = d.name)"),
        0);
}

static void test_coalesce_newest_of_a_thousand_stays(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        put("'temp', NULL, 0, NULL");
    assert_string_equal(rows(), "1000");
    assert_int_equal(sql_get(t.app, "SELECT count(*) FROM outbox_lost"), 2);
    /* of 256 rows at a time the bytes were never put, but for the newest */
    assert_string_equal(
        books("main", 0), "999|12|999|0|1-999 999 3996 coalesced");
    assert_string_equal(books("cloud", 0), books("main", 0));
    expect_balance();
}

static void test_coalesce_rows_that_do_not_ask_stay(void **state)
{
    (void)state;
    put("NULL, NULL, 0, NULL");
    put("NULL, NULL, 0, NULL");
    put("'temp', NULL, 0, NULL");
    put("'other', NULL, 0, NULL");
    assert_string_equal(rows(), "1,2,3,4");
    assert_string_equal(books("main", 0), "0|0|0|0|");
}

static void test_coalesce_only_rows_addressed_alike_are_replaced(void **state)
{
    static const char *const others[] = {"'c', 'k', 0, NULL",
        "'c', NULL, 1, NULL", "'c', NULL, 0, NULL", "'c', NULL, 0, 'cloud'"};

    (void)state;
    for (size_t i = 0; i < COUNT(others); i++)
        put(others[i]);
    put("'c', NULL, 0, 'main'");
    assert_string_equal(rows(), "1,2,3,4,5");
    /* to all replaces to some */
    put("'c', NULL, 0, NULL");
    assert_string_equal(rows(), "1,2,6");
    assert_string_equal(books("main", 0), "3|0|2|1|3-5 2 8 coalesced");
    assert_string_equal(books("cloud", 0), "3|0|2|1|3-4 2 8 coalesced");
    put("'c', 'k', 0, NULL");
    put("'c', NULL, 1, NULL");
    assert_string_equal(rows(), "6,7,8");
    assert_string_equal(books("main", 1), "1|0|1|0|1-5 4 16 coalesced");
    expect_balance();
}

static void test_coalesce_reserved_rows_stay(void **state)
{
    (void)state;
    put("'c', NULL, 0, NULL");
    put("'c', NULL, 1, NULL");
    sql_run(t.app, "UPDATE outbox_cursor SET sent_hi = 1"
                   " WHERE lane = 0 AND dest = 'cloud'");
    put("'c', NULL, 0, NULL");
    put("'c', NULL, 1, NULL");
    assert_string_equal(rows(), "1,3,4");
    put("'c', NULL, 0, NULL");
    assert_string_equal(rows(), "1,4,5");
    expect_balance();
}

static void test_coalesce_rollback_undoes_it(void **state)
{
    (void)state;
    put("'c', NULL, 0, NULL");
    sql_run(t.app, "BEGIN IMMEDIATE");
    put("'c', NULL, 0, NULL");
    assert_string_equal(rows(), "2");
    sql_run(t.app, "ROLLBACK");
    assert_string_equal(rows(), "1");
    assert_string_equal(books("main", 0), "0|0|0|0|");
}

/* A statement's own conflict clause would overrule one in the trigger. */
static void test_coalesce_conflict_clause_of_the_statement_is_harmless(
    void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        sql_run(t.app, "INSERT OR IGNORE INTO outbox(topic, payload, coalesce)"
                       " VALUES ('t', 'xyz', 'c')");
        sql_run(t.app, "INSERT OR REPLACE INTO outbox(topic, payload, coalesce)"
                       " VALUES ('t', 'xyz', 'c')");
    }
    assert_string_equal(books("main", 0), "7|0|7|0|1-7 7 28 coalesced");
    expect_balance();
}

static void test_coalesce_one_statement_of_many_rows(void **state)
{
    (void)state;
    sql_run(t.app,
        "INSERT INTO outbox(topic, payload, coalesce)"
        " WITH RECURSIVE n(i) AS"
        "  (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i < 899)"
        " SELECT 't', iif(i %% 7, 'xyz', zeroblob(5000)), i %% 3 FROM n");
    assert_string_equal(rows(), "898,899,900");
    expect_balance();
}

/* ---- what the relay asks ---- */

static void test_coalesce_newer_row_of_the_log_is_found(void **state)
{
    (void)state;
    put("'c', NULL, 0, NULL");
    put("NULL, NULL, 0, NULL");
    assert_int_equal(postbag__coalesce_newer(&store, 1), 0);
    sql_run(t.app, "UPDATE outbox_cursor SET sent_hi = 9");
    put("'c', NULL, 1, NULL");
    put("'c', 'k', 0, NULL");
    put("'c', NULL, 0, 'cloud'");
    put("NULL, NULL, 0, NULL");
    assert_int_equal(postbag__coalesce_newer(&store, 1), 0);
    assert_int_equal(postbag__coalesce_newer(&store, 2), 0);
    put("'c', NULL, 0, 'main'");
    assert_int_equal(postbag__coalesce_newer(&store, 1), 1);
    assert_int_equal(postbag__coalesce_newer(&store, 7), 0);
    assert_int_equal(postbag__coalesce_newer(&store, 8), 0);
}

static void hold(int seq, const char *state)
{
    sql_run(t.app,
        "INSERT INTO outbox_held(dest, seq, state, id, topic, payload, key,"
        " priority, retain, created_ms, coalesce) SELECT 'main', seq, '%s',"
        " id, topic, payload, key, priority, retain, created_ms, coalesce"
        " FROM outbox WHERE seq = %d",
        state, seq);
}

static void test_coalesce_held_row_and_a_newer_one_find_each_other(void **state)
{
    int64_t seq = 0;

    (void)state;
    sql_run(t.app, "UPDATE outbox_cursor SET sent_hi = 9");
    put("'c', NULL, 0, NULL");
    put("'d', NULL, 0, NULL");
    hold(1, "retry");
    hold(2, "retry");
    assert_int_equal(postbag__coalesce_newer_than_held(&store, 1), 0);
    put("'c', NULL, 0, NULL");
    assert_int_equal(postbag__coalesce_newer_than_held(&store, 1), 1);
    assert_int_equal(postbag__coalesce_newer_than_held(&store, 2), 0);
    assert_int_equal(postbag__coalesce_older_held(&store, 3, &seq), 1);
    assert_int_equal(seq, 1);
    assert_int_equal(postbag__coalesce_older_held(&store, 2, &seq), 0);
    sql_run(t.app, "UPDATE outbox_held SET replay = 1 WHERE seq = 1");
    assert_int_equal(postbag__coalesce_older_held(&store, 3, &seq), 0);
    sql_run(t.app, "UPDATE outbox_held SET replay = 0, state = 'dead'"
                   " WHERE seq = 1");
    assert_int_equal(postbag__coalesce_older_held(&store, 3, &seq), 0);
    /* a newer one that is dead replaces nothing; one that is held does */
    hold(3, "dead");
    assert_int_equal(postbag__coalesce_newer_than_held(&store, 1), 0);
    sql_run(t.app, "UPDATE outbox_held SET state = 'behind' WHERE seq = 3");
    put("NULL, NULL, 0, NULL");
    sql_run(t.app, "DELETE FROM outbox WHERE seq = 3");
    assert_int_equal(postbag__coalesce_newer_than_held(&store, 1), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_coalesce_newest_of_a_thousand_stays),
        TEST(test_coalesce_rows_that_do_not_ask_stay),
        TEST(test_coalesce_only_rows_addressed_alike_are_replaced),
        TEST(test_coalesce_reserved_rows_stay),
        TEST(test_coalesce_rollback_undoes_it),
        TEST(test_coalesce_conflict_clause_of_the_statement_is_harmless),
        TEST(test_coalesce_one_statement_of_many_rows),
        TEST(test_coalesce_newer_row_of_the_log_is_found),
        TEST(test_coalesce_held_row_and_a_newer_one_find_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
