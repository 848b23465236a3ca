/* SPDX-License-Identifier: MIT */
/* The WAL, measured against what SQLite and the file system say of it; and
 * that a sync of it is one. */
#include <sqlite3.h>
#include <sys/stat.h>

#include "store_world.h"

static int set_up(void **state)
{
    sql_run(world_open(state)->t.app, "PRAGMA wal_autocheckpoint = 0");
    return 0;
}

static int tear_down(void **state)
{
    return world_close(state);
}

static void put(struct sqlite3 *app, int count)
{
    while (count-- > 0)
        sql_run(app, "INSERT INTO outbox(topic, payload) VALUES"
                     " ('t', zeroblob(3000))");
}

/* All that stands in the WAL goes to the file. */
static void checkpoint(struct db *db)
{
    int in_wal = -1;
    int done = -1;

    assert_ok(postbag__checkpoint(db, &in_wal, &done));
    assert_int_equal(done, in_wal);
}

static int64_t frames(struct db *db)
{
    int64_t count = -1;

    assert_ok(postbag__wal_frames(db, &count));
    return count;
}

/* By the checkpoint of SQLite, which moves them. */
static int64_t true_frames(struct sqlite3 *app)
{
    int count = -1;

    assert_int_equal(sqlite3_wal_checkpoint_v2(
                         app, "main", SQLITE_CHECKPOINT_PASSIVE, &count, NULL),
        SQLITE_OK);
    return count;
}

/* ---- frames and bytes ---- */

static void test_wal_measure_frames_are_those_that_sqlite_counts(void **state)
{
    static const int counts[] = {1, 2, 3, 7, 20, 100, 5};
    struct world *w = *state;

    for (size_t i = 0; i < COUNT(counts); i++) {
        int64_t ours;

        /* the next put begins a new round over the frames of this one */
        checkpoint(&w->db);
        put(w->t.app, counts[i]);
        ours = frames(&w->db);
        assert_true(ours >= counts[i]);
        assert_int_equal(ours, true_frames(w->t.app));
    }
}

static void test_wal_measure_frames_of_any_page_size(void **state)
{
    static const int sizes[] = {512, 1024, 4096, 65536};

    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct tempdb t;
        struct db db;

        tempdb_make(&t);
        assert_int_equal(sqlite3_open(t.path, &t.app), SQLITE_OK);
        sql_run(t.app,
            "PRAGMA page_size = %d; PRAGMA journal_mode = WAL;"
            "CREATE TABLE t(v); INSERT INTO t VALUES (zeroblob(200000))",
            sizes[i]);
        assert_ok(postbag__db_open(&db, t.path, DB_WRITE, DB_NORMAL, 0));
        assert_true(frames(&db) >= 200000 / sizes[i]);
        assert_int_equal(frames(&db), true_frames(t.app));
        postbag__db_close(&db);
        tempdb_remove(&t);
    }
}

static void test_wal_measure_without_a_wal_there_is_nothing(void **state)
{
    sqlite3 *memory;
    struct db db = {0};
    int64_t size = -1;

    (void)state;
    assert_int_equal(sqlite3_open(":memory:", &memory), SQLITE_OK);
    db.handle = memory;
    assert_int_equal(frames(&db), 0);
    assert_ok(postbag__wal_bytes(&db, &size));
    assert_int_equal(size, 0);
    assert_int_equal(sqlite3_close(memory), SQLITE_OK);
}

static void test_wal_measure_bytes_are_the_size_of_the_file(void **state)
{
    struct world *w = *state;
    char path[sizeof(w->t.path) + 4];
    struct stat file;
    int64_t size;

    put(w->t.app, 20);
    (void)snprintf(path, sizeof(path), "%s-wal", w->t.path);
    assert_int_equal(stat(path, &file), 0);
    assert_ok(postbag__wal_bytes(&w->db, &size));
    assert_int_equal(size, file.st_size);
    assert_true(size > 20 * 3000);
}

/* ---- sync ---- */

static unsigned syncs;
static int sync_rc;

static int count_sync(sqlite3_file *file, int flags)
{
    (void)file;
    (void)flags;
    syncs++;
    return sync_rc;
}

/* From now on the syncs of the connection's WAL are counted, not done. */
static void count_syncs(struct db *db, sqlite3_io_methods *methods)
{
    sqlite3_file *wal = NULL;

    assert_int_equal(sqlite3_file_control(db->handle, "main",
                         SQLITE_FCNTL_JOURNAL_POINTER, &wal),
        SQLITE_OK);
    *methods = *wal->pMethods;
    methods->xSync = count_sync;
    wal->pMethods = methods;
    syncs = 0;
    sync_rc = SQLITE_OK;
}

static void test_sync_wal_syncs_it_once(void **state)
{
    static sqlite3_io_methods methods;
    struct world *w = *state;

    count_syncs(&w->db, &methods);
    assert_ok(postbag__sync_wal(&w->db));
    assert_int_equal(syncs, 1);
}

static void test_sync_wal_that_fails_is_an_error(void **state)
{
    static sqlite3_io_methods methods;
    struct world *w = *state;

    count_syncs(&w->db, &methods);
    sync_rc = SQLITE_IOERR_FSYNC;
    assert_int_equal(postbag__sync_wal(&w->db), POSTBAG_EIO);
    assert_int_equal(w->db.fault.cause, SQLITE_IOERR_FSYNC);
}

static void test_sync_wal_without_one_has_nothing_to_do(void **state)
{
    sqlite3 *memory;
    struct db db = {0};

    (void)state;
    assert_int_equal(sqlite3_open(":memory:", &memory), SQLITE_OK);
    db.handle = memory;
    assert_ok(postbag__sync_wal(&db));
    assert_int_equal(sqlite3_close(memory), SQLITE_OK);
}

static void test_sync_full_commit_syncs_and_normal_does_not(void **state)
{
    static sqlite3_io_methods methods;
    struct world *w = *state;

    put(w->db.handle, 1); /* the round has begun: its header is synced */
    count_syncs(&w->db, &methods);
    assert_ok(postbag__begin(&w->db, DB_NORMAL));
    put(w->db.handle, 1);
    assert_ok(postbag__commit(&w->db));
    assert_int_equal(syncs, 0);
    assert_ok(postbag__begin(&w->db, DB_FULL));
    put(w->db.handle, 1);
    assert_ok(postbag__commit(&w->db));
    assert_int_equal(syncs, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_wal_measure_frames_are_those_that_sqlite_counts),
        cmocka_unit_test(test_wal_measure_frames_of_any_page_size),
        cmocka_unit_test(test_wal_measure_without_a_wal_there_is_nothing),
        TEST_IN(test_wal_measure_bytes_are_the_size_of_the_file),
        TEST_IN(test_sync_wal_syncs_it_once),
        TEST_IN(test_sync_wal_that_fails_is_an_error),
        cmocka_unit_test(test_sync_wal_without_one_has_nothing_to_do),
        TEST_IN(test_sync_full_commit_syncs_and_normal_does_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
