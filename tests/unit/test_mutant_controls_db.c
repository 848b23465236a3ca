/* SPDX-License-Identifier: MIT */
/* Guards of the database that no SQLite of this machine would trip. */
#include <sqlite3.h>

#include "relay.h"
#include "unit.h"

/* ---- a VFS that calls the test in the middle of a checkpoint ---- */

static sqlite3_vfs *real_vfs;
static sqlite3_io_methods methods;
static int (*real_shm_lock)(sqlite3_file *file, int offset, int n, int flags);
/* Once, when a checkpoint has begun and is about to copy. */
static void (*on_copy)(struct bench *b);
static struct bench *on_copy_bench;

enum { WAL_READ_LOCK_0 = 3 }; /* SQLite's file format, WAL index */

static int shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    void (*call)(struct bench * b) = on_copy;

    if (call != NULL && offset == WAL_READ_LOCK_0 &&
        flags == (SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE)) {
        on_copy = NULL;
        call(on_copy_bench);
    }
    return real_shm_lock(file, offset, n, flags);
}

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file,
    int flags, int *flags_out)
{
    int rc = real_vfs->xOpen(real_vfs, name, file, flags, flags_out);

    (void)vfs;
    if (rc != SQLITE_OK || !(flags & SQLITE_OPEN_MAIN_DB))
        return rc;
    real_shm_lock = file->pMethods->xShmLock;
    methods = *file->pMethods;
    methods.xShmLock = shm_lock;
    file->pMethods = &methods;
    return rc;
}

static void install_vfs(void)
{
    static sqlite3_vfs vfs;

    real_vfs = sqlite3_vfs_find(NULL);
    vfs = *real_vfs;
    vfs.zName = "calls-back";
    vfs.pNext = NULL;
    vfs.xOpen = open_file;
    assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

/* Another copy of SQLite in this process has VFSs of its own; here one that
 * has left the list of ours. */
static void test_db_of_another_copy_of_sqlite_is_refused(void **state)
{
    struct bench *b = *state;
    sqlite3_vfs theirs = *sqlite3_vfs_find(NULL);
    struct sqlite3 *app = NULL;
    struct db db;

    theirs.zName = "theirs";
    assert_int_equal(sqlite3_vfs_register(&theirs, 0), SQLITE_OK);
    assert_int_equal(
        sqlite3_open_v2(b->w.t.path, &app, SQLITE_OPEN_READWRITE, "theirs"),
        SQLITE_OK);
    assert_ok(postbag__db_borrow(&db, app));
    assert_int_equal(sqlite3_vfs_unregister(&theirs), SQLITE_OK);
    assert_int_equal(postbag__db_borrow(&db, app), POSTBAG_ESQLITE);
    assert_has(db.fault.text, "another copy");
    assert_int_equal(sqlite3_close(app), SQLITE_OK);
}

/* The relay as on a version with the WAL-reset bug, whatever runs here. */
static struct relay *pinning(struct bench *b)
{
    struct relay *r = &b->r;
    struct housekeeper *h = &r->e.housekeeper;

    r->options.checkpoint_frames = 16;
    relay_open(r);
    if (h->is_sound)
        assert_ok(
            postbag__db_open(&h->pins, b->w.t.path, DB_WRITE, DB_NORMAL, 0));
    h->is_sound = 0;
    relay_run_ms(r, 10);
    return r;
}

static void test_db_wal_is_pinned_where_sqlite_is_not_sound(void **state)
{
    struct bench *b = *state;

    relay_put(pinning(b), "t", 10);
    (void)sqlite3_busy_timeout(b->w.t.app, 1);
    /* busy, frames, done */
    assert_int_equal(
        sql_text(b->w.t.app, "PRAGMA wal_checkpoint(TRUNCATE)")[0], '1');
}

/* Rows as the pin sees them. */
static int64_t pinned_rows(struct bench *b)
{
    int64_t n = -1;

    assert_ok(postbag__query_i64(
        &b->r.e.housekeeper.pins, "SELECT count(*) FROM outbox", &n));
    return n;
}

static void want_a_checkpoint(struct bench *b)
{
    relay_step(&b->r);
    assert_true(b->r.e.housekeeper.frames >= 16);
    assert_int_equal(pinned_rows(b), 0);
}

/* Somebody's checkpoint that has begun may believe in a WAL that is reset
 * meanwhile: only the pin as it stands keeps it from copying. */
static void test_db_pin_stays_while_a_foreign_checkpoint_runs(void **state)
{
    struct bench *b = *state;
    struct relay *r = pinning(b);

    assert_int_equal(pinned_rows(b), 0);
    for (int i = 0; i < 30; i++)
        relay_put(r, "t", 1);
    on_copy_bench = b;
    on_copy = want_a_checkpoint;
    (void)sql_text(b->w.t.app, "PRAGMA wal_checkpoint(PASSIVE)");
    assert_null(on_copy);
    relay_run_ms(r, 1000); /* now it can be moved */
    assert_int_equal(pinned_rows(b), 30);
}

static void expect_locked(struct bench *b)
{
    sql_fails(b->w.t.app, "locked", "BEGIN IMMEDIATE");
}

/* ... and a commit beside a checkpoint of ours could reset the WAL. */
static void test_db_checkpoint_of_ours_lets_nobody_commit(void **state)
{
    struct bench *b = *state;
    struct relay *r = pinning(b);

    for (int i = 0; i < 30; i++)
        relay_put(r, "t", 1);
    (void)sqlite3_busy_timeout(b->w.t.app, 0);
    on_copy_bench = b;
    on_copy = expect_locked;
    relay_run_ms(r, 1000);
    assert_null(on_copy);
    assert_int_equal(pinned_rows(b), 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_db_of_another_copy_of_sqlite_is_refused),
        BENCH(test_db_wal_is_pinned_where_sqlite_is_not_sound),
        BENCH(test_db_pin_stays_while_a_foreign_checkpoint_runs),
        BENCH(test_db_checkpoint_of_ours_lets_nobody_commit),
    };

    install_vfs();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
