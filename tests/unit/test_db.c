/* SPDX-License-Identifier: MIT */
/* Statements whose first error sticks, and transactions that end. */
#include "db.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "tempdb.h"
#include "unit.h"

struct desk {
    struct tempdb t;
    struct db db;
    struct stmt s;
};

static int set_up(void **state)
{
    struct desk *d = calloc(1, sizeof(*d));

    assert_non_null(d);
    tempdb_make(&d->t);
    d->t.app = tempdb_connect(&d->t);
    sql_run(d->t.app, "CREATE TABLE x(a, b)");
    assert_ok(postbag__db_open(&d->db, d->t.path, DB_WRITE, DB_NORMAL, 0));
    *state = d;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *d = *state;

    postbag__finalize(&d->s);
    postbag__db_close(&d->db);
    tempdb_remove(&d->t);
    free(d);
    return 0;
}

static struct stmt *prepare(struct desk *d, const char *sql)
{
    postbag__finalize(&d->s);
    assert_ok(postbag__prepare(&d->db, &d->s, sql));
    return &d->s;
}

/* ---- statements ---- */

static void test_db_binds_keep_type_and_bytes(void **state)
{
    struct desk *d = *state;
    struct stmt *s = prepare(d,
        "SELECT ?1, typeof(?1), ?2, typeof(?2), typeof(?3), typeof(?4),"
        " hex(?5), typeof(?5), typeof(?6), length(?6), typeof(?7)");
    size_t len;

    postbag__bind_i64(s, 1, INT64_MIN);
    postbag__bind_text(s, 2, "007");
    postbag__bind_text(s, 3, NULL);
    postbag__bind_null(s, 4);
    postbag__bind_blob(s, 5, "a\0b", 3);
    postbag__bind_blob(s, 6, NULL, 0);
    postbag__bind_text_n(s, 7, NULL, 0);
    assert_int_equal(postbag__row(s), 1);
    assert_true(postbag__col_i64(s, 0) == INT64_MIN);
    assert_string_equal(postbag__col_text(s, 1), "integer");
    assert_string_equal(postbag__col_text(s, 2), "007");
    assert_string_equal(postbag__col_text(s, 3), "text");
    assert_string_equal(postbag__col_text(s, 4), "null");
    assert_string_equal(postbag__col_text(s, 5), "null");
    assert_string_equal(postbag__col_text(s, 6), "610062");
    assert_string_equal(postbag__col_text(s, 7), "blob");
    assert_string_equal(postbag__col_text(s, 8), "blob");
    assert_int_equal(postbag__col_i64(s, 9), 0);
    assert_string_equal(postbag__col_text(s, 10), "text");
    assert_memory_equal(postbag__col_bytes(s, 2, &len), "007", 3);
    assert_int_equal(len, 3);
    assert_int_equal(postbag__row(s), 0);
}

static void test_db_null_column_is_told_from_empty(void **state)
{
    struct desk *d = *state;
    struct stmt *s = prepare(d, "SELECT NULL, '', x''");
    size_t len = 9;

    assert_int_equal(postbag__row(s), 1);
    assert_int_equal(postbag__col_is_null(s, 0), 1);
    assert_null(postbag__col_text(s, 0));
    assert_null(postbag__col_bytes(s, 0, &len));
    assert_int_equal(len, 0);
    assert_int_equal(postbag__col_is_null(s, 1), 0);
    assert_int_equal(postbag__col_is_text(s, 1), 1);
    assert_int_equal(postbag__col_is_text(s, 2), 0);
    assert_int_equal(postbag__col_is_null(s, 2), 0);
}

static void test_db_first_bind_error_sticks_until_the_statement_runs(
    void **state)
{
    struct desk *d = *state;
    struct stmt *s = prepare(d, "INSERT INTO x VALUES (?1, ?2)");

    postbag__bind_i64(s, 9, 1);
    postbag__bind_i64(s, 1, 1);
    assert_int_equal(postbag__run(s), POSTBAG_EINVAL);
    assert_int_equal(sql_get(d->t.app, "SELECT count(*) FROM x"), 0);
    postbag__bind_i64(s, 1, 1);
    assert_ok(postbag__run(s));
    assert_int_equal(postbag__changes(&d->db), 1);
    assert_int_equal(postbag__last_rowid(&d->db), 1);
}

static void test_db_run_forgets_the_bindings(void **state)
{
    struct desk *d = *state;
    struct stmt *s = prepare(d, "INSERT INTO x VALUES (?1, ?2)");

    postbag__bind_i64(s, 1, 7);
    postbag__bind_i64(s, 2, 8);
    assert_ok(postbag__run(s));
    postbag__bind_i64(s, 1, 9);
    assert_ok(postbag__run(s));
    assert_string_equal(sql_text(d->t.app, "SELECT * FROM x"), "7|8 9|NULL");
}

static void test_db_bad_sql_is_a_matter_of_the_schema(void **state)
{
    struct desk *d = *state;
    struct stmt s;

    assert_int_equal(
        postbag__prepare(&d->db, &s, "SELECT * FROM nowhere"), POSTBAG_ESCHEMA);
    assert_has(d->db.fault.text, "nowhere");
    postbag__finalize(&s);
}

static void test_db_query_tells_no_row_from_a_number(void **state)
{
    struct desk *d = *state;
    int64_t n = 5;

    assert_ok(postbag__query_i64(&d->db, "SELECT 7", &n));
    assert_int_equal(n, 7);
    assert_int_equal(
        postbag__query_i64(&d->db, "SELECT a FROM x", &n), POSTBAG_ENOTFOUND);
    assert_int_equal(
        postbag__query_i64(&d->db, "SELECT c FROM x", &n), POSTBAG_ESCHEMA);
}

struct two {
    struct stmt a, b;
};

static void test_db_plan_prepares_all_and_frees_what_there_is(void **state)
{
    struct desk *d = *state;
    const struct stmt_plan good[] = {
        {offsetof(struct two, a), "SELECT 1"},
        {offsetof(struct two, b), "SELECT 2"},
    };
    const struct stmt_plan bad[] = {
        {offsetof(struct two, a), "SELECT 1"},
        {offsetof(struct two, b), "SELECT"},
    };
    struct two two;

    memset(&two, 0, sizeof(two));
    assert_ok(postbag__prepare_all(&d->db, &two, good, 2));
    assert_int_equal(postbag__row(&two.b), 1);
    assert_int_equal(postbag__col_i64(&two.b, 0), 2);
    postbag__finalize_all(&two, good, 2);
    assert_null(two.b.handle);
    assert_int_equal(
        postbag__prepare_all(&d->db, &two, bad, 2), POSTBAG_ESCHEMA);
    postbag__finalize_all(&two, bad, 2);
    assert_ptr_equal(sqlite3_next_stmt(d->db.handle, NULL), d->db.rollback);
    assert_null(sqlite3_next_stmt(d->db.handle, d->db.rollback));
}

/* ---- transactions ---- */

static void test_db_transaction_takes_the_write_lock_at_once(void **state)
{
    struct desk *d = *state;

    (void)sqlite3_busy_timeout(d->t.app, 0);
    assert_ok(postbag__begin(&d->db, DB_NORMAL));
    assert_int_equal(postbag__in_transaction(&d->db), 1);
    sql_fails(d->t.app, "locked", "INSERT INTO x VALUES (1, 1)");
    postbag__rollback(&d->db);
    assert_int_equal(postbag__in_transaction(&d->db), 0);
    sql_run(d->t.app, "BEGIN IMMEDIATE");
    assert_int_equal(postbag__begin(&d->db, DB_NORMAL), POSTBAG_EBUSY);
    assert_int_equal(postbag__in_transaction(&d->db), 0);
    sql_run(d->t.app, "ROLLBACK");
}

static void test_db_begin_sets_how_durable_the_commit_is(void **state)
{
    struct desk *d = *state;
    int64_t level = 0;

    assert_ok(postbag__begin(&d->db, DB_FULL));
    assert_ok(postbag__db_pragma(&d->db, "synchronous", &level));
    assert_int_equal(level, 2);
    assert_ok(postbag__commit(&d->db));
    assert_ok(postbag__begin(&d->db, DB_NORMAL));
    assert_ok(postbag__db_pragma(&d->db, "synchronous", &level));
    assert_int_equal(level, 1);
    assert_ok(postbag__commit(&d->db));
    assert_int_equal(d->db.commits, 2);
}

static void test_db_begin_leaves_a_borrowed_connections_level_alone(
    void **state)
{
    struct desk *d = *state;
    struct db borrowed;
    int64_t level = 0;

    sql_run(d->t.app, "PRAGMA synchronous=OFF");
    assert_ok(postbag__db_borrow(&borrowed, d->t.app));
    assert_ok(postbag__begin(&borrowed, DB_FULL));
    assert_ok(postbag__db_pragma(&borrowed, "synchronous", &level));
    assert_int_equal(level, 0);
    postbag__rollback(&borrowed);
}

static void test_db_commit_that_fails_has_rolled_back(void **state)
{
    struct desk *d = *state;

    assert_ok(postbag__exec(&d->db,
        "PRAGMA foreign_keys=ON; CREATE TABLE p(id INTEGER PRIMARY KEY);"
        "CREATE TABLE c(p REFERENCES p DEFERRABLE INITIALLY DEFERRED)"));
    assert_ok(postbag__begin(&d->db, DB_NORMAL));
    assert_ok(postbag__exec(&d->db, "INSERT INTO c VALUES (1)"));
    assert_int_equal(postbag__commit(&d->db), POSTBAG_EINVAL);
    assert_int_equal(postbag__in_transaction(&d->db), 0);
    assert_has(d->db.fault.text, "FOREIGN KEY");
    assert_int_equal(sql_get(d->t.app, "SELECT count(*) FROM c"), 0);
}

/* As much as is used now, and no more. */
static void test_db_rollback_needs_no_memory(void **state)
{
    struct desk *d = *state;

    (void)sqlite3_db_config(
        d->db.handle, SQLITE_DBCONFIG_LOOKASIDE, NULL, 0, 0);
    assert_ok(postbag__begin(&d->db, DB_NORMAL));
    (void)sqlite3_hard_heap_limit64(1);
    assert_int_equal(postbag__commit(&d->db), POSTBAG_ENOMEM);
    (void)sqlite3_hard_heap_limit64(0);
    assert_int_equal(postbag__in_transaction(&d->db), 0);
}

static void test_db_rollback_keeps_the_fault_that_led_to_it(void **state)
{
    struct desk *d = *state;

    assert_ok(postbag__begin(&d->db, DB_NORMAL));
    assert_int_equal(postbag__exec(&d->db, "INSERT INTO nowhere VALUES (1)"),
        POSTBAG_ESCHEMA);
    postbag__rollback(&d->db);
    assert_has(d->db.fault.text, "nowhere");
    postbag__rollback(&d->db); /* fine without a transaction */
}

static void test_db_denied_statements_cannot_end_the_transaction(void **state)
{
    static const char *const all[] = {"BEGIN", "COMMIT", "ROLLBACK",
        "SAVEPOINT s", "ATTACH ':memory:' AS m", "END", "PRAGMA query_only=1",
        "PRAGMA main.journal_mode=DELETE", "PRAGMA locking_mode(EXCLUSIVE)",
        "PRAGMA foreign_keys=0"};
    static const char *const fine[] = {"PRAGMA query_only",
        "PRAGMA data_version", "PRAGMA Table_Info(x)",
        "PRAGMA defer_foreign_keys=1"};
    struct desk *d = *state;
    int denied = 0;

    postbag__deny_transactions(&d->db, &denied);
    assert_ok(postbag__begin(&d->db, DB_NORMAL));
    denied = 1;
    for (size_t i = 0; i < COUNT(all); i++)
        assert_int_equal(postbag__exec(&d->db, all[i]), POSTBAG_ESTATE);
    for (size_t i = 0; i < COUNT(fine); i++)
        assert_ok(postbag__exec(&d->db, fine[i]));
    assert_ok(postbag__exec(&d->db, "INSERT INTO x VALUES (1, 1)"));
    denied = 0;
    assert_ok(postbag__commit(&d->db));
    assert_int_equal(sql_get(d->t.app, "SELECT count(*) FROM x"), 1);
    denied = 1; /* outside a transaction nothing commits by itself */
    assert_int_not_equal(
        postbag__exec(&d->db, "INSERT INTO x VALUES (2, 2)"), POSTBAG_OK);
    assert_int_equal(sql_get(d->t.app, "SELECT count(*) FROM x"), 1);
    denied = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_db_binds_keep_type_and_bytes),
        TEST_IN(test_db_null_column_is_told_from_empty),
        TEST_IN(test_db_first_bind_error_sticks_until_the_statement_runs),
        TEST_IN(test_db_run_forgets_the_bindings),
        TEST_IN(test_db_bad_sql_is_a_matter_of_the_schema),
        TEST_IN(test_db_query_tells_no_row_from_a_number),
        TEST_IN(test_db_plan_prepares_all_and_frees_what_there_is),
        TEST_IN(test_db_transaction_takes_the_write_lock_at_once),
        TEST_IN(test_db_begin_sets_how_durable_the_commit_is),
        TEST_IN(test_db_begin_leaves_a_borrowed_connections_level_alone),
        TEST_IN(test_db_commit_that_fails_has_rolled_back),
        TEST_IN(test_db_rollback_needs_no_memory),
        TEST_IN(test_db_rollback_keeps_the_fault_that_led_to_it),
        TEST_IN(test_db_denied_statements_cannot_end_the_transaction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
