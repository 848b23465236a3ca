/* SPDX-License-Identifier: MIT */
/* Which files and connections are taken, and how ours are set up. */
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include "db.h"
#include "tempdb.h"
#include "unit.h"

static struct tempdb t;

static int set_up(void **state)
{
    (void)state;
    tempdb_make(&t);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tempdb_remove(&t);
    return 0;
}

static int try_open(enum db_open_mode mode, struct db *db)
{
    int err = postbag__db_open(db, t.path, mode, DB_NORMAL, 0);

    if (err != POSTBAG_OK) {
        assert_null(db->handle);
        assert_int_equal(db->fault.code, err);
    }
    return err;
}

static int open_and_close(enum db_open_mode mode)
{
    struct db db;
    int err = try_open(mode, &db);

    postbag__db_close(&db);
    return err;
}

static int64_t pragma(struct db *db, const char *name)
{
    int64_t value = -1;

    assert_ok(postbag__db_pragma(db, name, &value));
    return value;
}

static void make_file(const char *sql)
{
    assert_int_equal(sqlite3_open(t.path, &t.app), SQLITE_OK);
    sql_run(t.app, "%s", sql);
}

static void test_db_open_creates_only_when_told(void **state)
{
    (void)state;
    assert_int_equal(open_and_close(DB_READ), POSTBAG_EIO);
    assert_int_equal(open_and_close(DB_WRITE), POSTBAG_EIO);
    assert_int_equal(access(t.path, F_OK), -1);
    assert_ok(open_and_close(DB_CREATE));
    assert_ok(open_and_close(DB_WRITE));
    assert_ok(open_and_close(DB_READ));
}

static void test_db_open_puts_the_database_into_wal_mode(void **state)
{
    (void)state;
    make_file("CREATE TABLE app(v)");
    assert_ok(open_and_close(DB_CREATE));
    sql_run(t.app, "SELECT * FROM app"); /* looks at the file again */
    assert_string_equal(sql_text(t.app, "PRAGMA journal_mode"), "wal");
}

static void test_db_open_of_a_strangers_file_leaves_its_mode(void **state)
{
    (void)state;
    make_file("CREATE TABLE app(v)");
    assert_ok(open_and_close(DB_WRITE));
    sql_run(t.app, "CREATE TABLE outbox(v)");
    assert_ok(open_and_close(DB_CREATE));
    sql_run(t.app, "SELECT * FROM app");
    assert_string_equal(sql_text(t.app, "PRAGMA journal_mode"), "delete");
}

static void test_db_open_takes_no_path_for_a_uri(void **state)
{
    static const char name[] = "file:x%20y.db?mode=memory";
    char *before = getcwd(NULL, 0);
    struct db db;

    (void)state;
    assert_int_equal(chdir(t.folder), 0);
    assert_ok(postbag__db_open(&db, name, DB_CREATE, DB_NORMAL, 0));
    postbag__db_close(&db);
    assert_int_equal(access(name, F_OK), 0);
    assert_ok(postbag__db_open(&db, name, DB_WRITE, DB_NORMAL, 0));
    assert_has(postbag__db_path(&db), name);
    postbag__db_close(&db);
    assert_int_equal(chdir(before), 0);
    free(before);
}

static void test_db_open_without_wal_is_refused(void **state)
{
    struct db db;

    (void)state;
    assert_int_equal(postbag__db_open(&db, ":memory:", DB_CREATE, DB_NORMAL, 0),
        POSTBAG_ESTORAGE);
    assert_has(db.fault.text, "WAL");
    postbag__db_close(&db);
}

static void test_db_open_of_another_encoding_is_refused(void **state)
{
    struct db db;

    (void)state;
    make_file("PRAGMA encoding='UTF-16le'; CREATE TABLE app(v)");
    for (int mode = DB_READ; mode <= DB_CREATE; mode++) {
        assert_int_equal(
            try_open((enum db_open_mode)mode, &db), POSTBAG_ESTORAGE);
        assert_has(db.fault.text, "UTF-16le");
        assert_has(db.fault.text, "UTF-8");
    }
}

static void test_db_open_of_something_else_is_corrupt(void **state)
{
    static const char text[4096] = "This is no database, but a long text.";
    FILE *f = fopen(t.path, "w");

    (void)state;
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, sizeof(text), f), sizeof(text));
    assert_int_equal(fclose(f), 0);
    assert_int_equal(open_and_close(DB_WRITE), POSTBAG_ECORRUPT);
}

static void test_db_open_sets_up_for_flash_and_distrust(void **state)
{
    struct db db;

    (void)state;
    assert_ok(try_open(DB_CREATE, &db));
    assert_int_equal(pragma(&db, "trusted_schema"), 0);
    assert_int_equal(pragma(&db, "wal_autocheckpoint"), 0);
    assert_int_equal(pragma(&db, "mmap_size"), 0);
    assert_int_equal(pragma(&db, "cache_size"), -64);
    assert_int_equal(pragma(&db, "synchronous"), DB_NORMAL);
    assert_int_equal(pragma(&db, "secure_delete"), 2);
    assert_ok(postbag__exec(&db, "PRAGMA writable_schema=ON"));
    assert_int_not_equal(
        postbag__exec(&db, "DELETE FROM sqlite_schema"), POSTBAG_OK);
    assert_string_equal(postbag__db_path(&db), t.path);
    postbag__db_close(&db);
    postbag__db_close(&db); /* twice is fine */
}

static void test_db_open_path_is_that_of_the_real_file(void **state)
{
    char link[sizeof(t.folder) + 8];
    char real[PATH_MAX];
    struct db db;

    (void)state;
    (void)snprintf(link, sizeof(link), "%s/link", t.folder);
    assert_ok(open_and_close(DB_CREATE));
    assert_int_equal(symlink(t.path, link), 0);
    assert_ok(postbag__db_open(&db, link, DB_WRITE, DB_NORMAL, 0));
    assert_non_null(realpath(t.path, real));
    assert_string_equal(postbag__db_path(&db), real);
    postbag__db_close(&db);
}

static void test_db_open_with_full_syncs_each_commit(void **state)
{
    struct db db;

    (void)state;
    assert_ok(postbag__db_open(&db, t.path, DB_CREATE, DB_FULL, 0));
    assert_int_equal(pragma(&db, "synchronous"), DB_FULL);
    postbag__db_close(&db);
}

/* Laying it out anew would cost flash. */
static void test_db_open_keeps_the_wal_file(void **state)
{
    char wal[200];
    struct db db;

    (void)state;
    (void)snprintf(wal, sizeof(wal), "%s-wal", t.path);
    assert_ok(try_open(DB_CREATE, &db));
    assert_ok(postbag__exec(&db, "CREATE TABLE x(a)"));
    postbag__db_close(&db);
    assert_int_equal(access(wal, F_OK), 0);
}

static void test_db_open_gives_up_on_a_lock_in_time(void **state)
{
    struct db db;

    (void)state;
    make_file("PRAGMA journal_mode=WAL; CREATE TABLE x(a)");
    assert_ok(postbag__db_open(&db, t.path, DB_WRITE, DB_NORMAL, 10));
    sql_run(t.app, "BEGIN IMMEDIATE");
    assert_int_equal(postbag__begin(&db, DB_NORMAL), POSTBAG_EBUSY);
    sql_run(t.app, "ROLLBACK");
    assert_ok(postbag__begin(&db, DB_NORMAL));
    postbag__rollback(&db);
    postbag__db_close(&db);
}

static void test_db_borrow_takes_wal_and_utf8_only(void **state)
{
    static const struct {
        const char *sql, *part;
        int err;
    } all[] = {
        {"CREATE TABLE x(a)", "not in WAL mode", POSTBAG_ESTORAGE},
        {"PRAGMA encoding='UTF-16be'; PRAGMA journal_mode=WAL", "UTF-16be",
            POSTBAG_ESTORAGE},
        {"PRAGMA journal_mode=WAL", "", POSTBAG_OK},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        struct tempdb other;
        struct db db;

        tempdb_make(&other);
        assert_int_equal(sqlite3_open(other.path, &other.app), SQLITE_OK);
        sql_run(other.app, "%s", all[i].sql);
        assert_int_equal(postbag__db_borrow(&db, other.app), all[i].err);
        assert_has(db.fault.text, all[i].part);
        postbag__db_close(&db); /* not ours: stays open */
        sql_run(other.app, "SELECT 1");
        tempdb_remove(&other);
    }
}

static void test_db_sound_checkpoints_go_by_the_version(void **state)
{
    static const struct {
        int version, is_sound;
    } all[] = {
        {3037000, 0},
        {3040001, 0},
        {3044005, 0},
        {3044006, 1},
        {3044099, 1},
        {3045000, 0},
        {3050006, 0},
        {3050007, 1},
        {3051000, 0},
        {3051002, 0},
        {3051003, 1},
        {3052000, 0},
        {3052001, 1},
        {3053000, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        assert_int_equal(
            postbag__db_checkpoint_is_sound(all[i].version), all[i].is_sound);
}

static void test_db_library_is_the_one_that_runs(void **state)
{
    (void)state;
    assert_ok(postbag__db_library_check(NULL));
    assert_int_equal(
        postbag__db_library_version(), sqlite3_libversion_number());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_db_open_creates_only_when_told),
        TEST_IN(test_db_open_puts_the_database_into_wal_mode),
        TEST_IN(test_db_open_of_a_strangers_file_leaves_its_mode),
        TEST_IN(test_db_open_takes_no_path_for_a_uri),
        TEST_IN(test_db_open_without_wal_is_refused),
        TEST_IN(test_db_open_of_another_encoding_is_refused),
        TEST_IN(test_db_open_of_something_else_is_corrupt),
        TEST_IN(test_db_open_sets_up_for_flash_and_distrust),
        TEST_IN(test_db_open_path_is_that_of_the_real_file),
        TEST_IN(test_db_open_with_full_syncs_each_commit),
        TEST_IN(test_db_open_keeps_the_wal_file),
        TEST_IN(test_db_open_gives_up_on_a_lock_in_time),
        TEST_IN(test_db_borrow_takes_wal_and_utf8_only),
        TEST_IN(test_db_sound_checkpoints_go_by_the_version),
        TEST_IN(test_db_library_is_the_one_that_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
