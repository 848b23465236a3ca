/* SPDX-License-Identifier: MIT */
/* A connection that stays the application's. */
#include <sqlite3.h>

#include "db.h"
#include "tempdb.h"
#include "unit.h"

static int set_up(void **state)
{
    static struct tempdb t;

    tempdb_make(&t);
    *state = &t;
    return 0;
}

static int tear_down(void **state)
{
    tempdb_remove(*state);
    return 0;
}

static void test_borrow_leaves_the_connection_as_it_was(void **state)
{
    static const char pragmas[] =
        "SELECT * FROM pragma_synchronous, pragma_cache_size,"
        " pragma_busy_timeout, pragma_trusted_schema, pragma_secure_delete";
    struct tempdb *t = *state;
    char before[64];
    struct db db;

    t->app = tempdb_connect(t);
    (void)snprintf(before, sizeof(before), "%s", sql_text(t->app, pragmas));
    assert_ok(postbag__db_borrow(&db, t->app));
    postbag__db_close(&db);
    assert_string_equal(sql_text(t->app, pragmas), before);
    assert_int_equal(sql_get(t->app, "PRAGMA wal_autocheckpoint"), 1000);
}

static void test_borrow_begin_does_not_set_how_durable_a_commit_is(void **state)
{
    struct tempdb *t = *state;
    struct db db;

    t->app = tempdb_connect(t);
    sql_run(t->app, "PRAGMA synchronous = FULL");
    assert_ok(postbag__db_borrow(&db, t->app));
    assert_ok(postbag__begin(&db, DB_NORMAL));
    postbag__rollback(&db);
    assert_int_equal(sql_get(t->app, "PRAGMA synchronous"), DB_FULL);
}

static void test_borrow_in_memory_is_refused(void **state)
{
    sqlite3 *memory;
    struct db db;

    (void)state;
    assert_int_equal(sqlite3_open(":memory:", &memory), SQLITE_OK);
    assert_int_equal(postbag__db_borrow(&db, memory), POSTBAG_ESTORAGE);
    assert_has(db.fault.text, "WAL");
    assert_int_equal(sqlite3_close(memory), SQLITE_OK);
}

/* A VFS that our list does not have is what another library's looks like. */
static void test_borrow_from_another_sqlite_is_refused(void **state)
{
    struct tempdb *t = *state;
    sqlite3_vfs theirs = *sqlite3_vfs_find(NULL);
    struct db db;

    theirs.zName = "theirs";
    assert_int_equal(sqlite3_vfs_register(&theirs, 0), SQLITE_OK);
    assert_int_equal(sqlite3_open_v2(t->path, &t->app,
                         SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "theirs"),
        SQLITE_OK);
    sql_run(t->app, "PRAGMA journal_mode = WAL");
    assert_int_equal(sqlite3_vfs_unregister(&theirs), SQLITE_OK);
    assert_int_equal(postbag__db_borrow(&db, t->app), POSTBAG_ESQLITE);
    assert_has(db.fault.text, "another copy");
    assert_int_equal(sqlite3_close(t->app), SQLITE_OK);
    t->app = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_borrow_leaves_the_connection_as_it_was),
        TEST_IN(test_borrow_begin_does_not_set_how_durable_a_commit_is),
        TEST_IN(test_borrow_in_memory_is_refused),
        TEST_IN(test_borrow_from_another_sqlite_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
