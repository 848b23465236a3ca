/* SPDX-License-Identifier: MIT */
/* SQLite's result codes, told in ours. */
#include <errno.h>
#include <sqlite3.h>

#include "db.h"
#include "tempdb.h"
#include "unit.h"

static void test_codes_of_sqlite_have_their_error(void **state)
{
    static const struct {
        int rc, err;
    } all[] = {
        {SQLITE_OK, POSTBAG_OK},
        {SQLITE_ROW, POSTBAG_OK},
        {SQLITE_DONE, POSTBAG_OK},
        {SQLITE_BUSY, POSTBAG_EBUSY},
        {SQLITE_BUSY_SNAPSHOT, POSTBAG_EBUSY},
        {SQLITE_LOCKED, POSTBAG_EBUSY},
        {SQLITE_FULL, POSTBAG_ENOSPC},
        {SQLITE_NOMEM, POSTBAG_ENOMEM},
        {SQLITE_IOERR_NOMEM, POSTBAG_ENOMEM},
        {SQLITE_IOERR, POSTBAG_EIO},
        {SQLITE_IOERR_FSYNC, POSTBAG_EIO},
        {SQLITE_IOERR_SHMSIZE, POSTBAG_ENOSPC},
        {SQLITE_CANTOPEN, POSTBAG_EIO},
        {SQLITE_READONLY, POSTBAG_EIO},
        {SQLITE_PERM, POSTBAG_EIO},
        {SQLITE_TOOBIG, POSTBAG_ETOOBIG},
        {SQLITE_CONSTRAINT, POSTBAG_EINVAL},
        {SQLITE_CORRUPT, POSTBAG_ECORRUPT},
        {SQLITE_NOTADB, POSTBAG_ECORRUPT},
        {SQLITE_INTERRUPT, POSTBAG_EAGAIN},
        {SQLITE_ABORT, POSTBAG_EAGAIN},
        {SQLITE_ERROR, POSTBAG_ESCHEMA},
        {SQLITE_SCHEMA, POSTBAG_ESCHEMA},
        {SQLITE_AUTH, POSTBAG_ESTATE},
        {SQLITE_MISUSE, POSTBAG_EINVAL},
        {SQLITE_RANGE, POSTBAG_EINVAL},
        {SQLITE_MISMATCH, POSTBAG_EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        struct db db = {.handle = NULL};

        assert_int_equal(postbag__db_fault(&db, all[i].rc), all[i].err);
        assert_int_equal(db.fault.code, all[i].err);
        if (all[i].err != POSTBAG_OK) {
            assert_int_equal(db.fault.cause, all[i].rc);
            assert_int_not_equal(db.fault.text[0], '\0');
        }
    }
}

/* What RAISE(ABORT) of our trigger says decides. */
static void test_codes_of_constraints_go_by_their_text(void **state)
{
    static const struct {
        const char *text;
        int err;
    } all[] = {
        {"postbag: outbox is full", POSTBAG_EFULL},
        {"postbag: payload is larger than max_payload", POSTBAG_ETOOBIG},
        {"postbag: profile aws: message is larger than 130048 bytes",
            POSTBAG_ETOOBIG},
        {"postbag: profile aws: topic has more than 7 slashes", POSTBAG_EINVAL},
        {"postbag: topic must be text", POSTBAG_EINVAL},
    };
    struct db db = {.handle = NULL};

    (void)state;
    assert_int_equal(sqlite3_open(":memory:", &db.handle), SQLITE_OK);
    assert_ok(postbag__exec(&db, "CREATE TABLE x(a)"));
    for (size_t i = 0; i < COUNT(all); i++) {
        char sql[200];

        (void)snprintf(sql, sizeof(sql),
            "DROP TRIGGER IF EXISTS t; CREATE TRIGGER t BEFORE INSERT ON x"
            " BEGIN SELECT RAISE(ABORT, '%s'); END",
            all[i].text);
        assert_ok(postbag__exec(&db, sql));
        assert_int_equal(
            postbag__exec(&db, "INSERT INTO x VALUES (1)"), all[i].err);
        assert_string_equal(db.fault.text, all[i].text + strlen("postbag: "));
        assert_int_equal(db.fault.cause, SQLITE_CONSTRAINT_TRIGGER);
    }
    (void)sqlite3_close(db.handle);
}

/* The number in the file: 1 to 4 since there is SQLite 3. */
static void test_codes_of_a_format_that_never_was(void **state)
{
    static const unsigned char never[] = {0, 0, 0, 9};
    struct tempdb t;
    struct db db = {.handle = NULL};
    FILE *file;

    (void)state;
    tempdb_make(&t);
    t.app = tempdb_connect(&t);
    sql_run(t.app, "PRAGMA journal_mode = DELETE; CREATE TABLE x(a)");
    file = fopen(t.path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 44, SEEK_SET), 0);
    assert_int_equal(fwrite(never, 1, sizeof(never), file), sizeof(never));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(sqlite3_open(t.path, &db.handle), SQLITE_OK);
    assert_int_equal(postbag__exec(&db, "SELECT * FROM x"), POSTBAG_ECORRUPT);
    assert_int_equal(
        postbag__exec(&db, "SELECT * FROM nowhere"), POSTBAG_ECORRUPT);
    (void)sqlite3_close(db.handle);
    tempdb_remove(&t);
}

static int quota_is_over(sqlite3_vfs *vfs, int size, char *text)
{
    (void)vfs;
    (void)size;
    (void)text;
    return EDQUOT;
}

/* SQLite says what it tried, the system why it failed. */
static void test_codes_of_files_go_by_what_the_system_says(void **state)
{
    sqlite3_vfs vfs = *sqlite3_vfs_find(NULL);
    struct db db = {.handle = NULL};

    (void)state;
    vfs.zName = "over quota";
    vfs.xGetLastError = quota_is_over;
    assert_ok(sqlite3_vfs_register(&vfs, 0));
    assert_int_equal(sqlite3_open_v2("/nowhere/x.db", &db.handle,
                         SQLITE_OPEN_READWRITE, vfs.zName),
        SQLITE_CANTOPEN);
    assert_int_equal(postbag__db_fault(&db, SQLITE_CANTOPEN), POSTBAG_ENOSPC);
    assert_non_null(strstr(db.fault.text, "quota"));
    assert_int_equal(db.fault.cause, SQLITE_CANTOPEN);
    /* what is on the disk after a failed sync, nobody knows */
    assert_int_equal(postbag__db_fault(&db, SQLITE_IOERR_FSYNC), POSTBAG_EIO);
    (void)sqlite3_close(db.handle);
    assert_ok(sqlite3_vfs_unregister(&vfs));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_of_sqlite_have_their_error),
        cmocka_unit_test(test_codes_of_constraints_go_by_their_text),
        cmocka_unit_test(test_codes_of_a_format_that_never_was),
        cmocka_unit_test(test_codes_of_files_go_by_what_the_system_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
