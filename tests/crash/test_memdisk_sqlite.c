/* SPDX-License-Identifier: MIT */
/* SQLite on the disk in memory: several connections of several processes, as on
 * a real disk, also when some of them die. */
#include "memdisk.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "tempdb.h"
#include "unit.h"

struct bench {
    struct memdisk *disk;
    sqlite3 *open[6];
    int count;
    int64_t now_ms, slept_us;
};

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->disk = memdisk_new(1);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;

    for (int i = 0; i < b->count; i++)
        assert_int_equal(sqlite3_close(b->open[i]), SQLITE_OK);
    memdisk_free(b->disk);
    memdisk_clock(NULL, NULL, NULL);
    free(b);
    return 0;
}

/* A connection of that process. */
static sqlite3 *join(struct bench *b, unsigned process)
{
    sqlite3 *db;

    memdisk_process(b->disk, process);
    assert_int_equal(
        sqlite3_open(memdisk_path(b->disk, "a.db"), &db), SQLITE_OK);
    assert_true((size_t)b->count < COUNT(b->open));
    b->open[b->count++] = db;
    return db;
}

static sqlite3 *join_wal(struct bench *b, unsigned process)
{
    sqlite3 *db = join(b, process);

    sql_run(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                "PRAGMA wal_autocheckpoint=0;"
                "CREATE TABLE IF NOT EXISTS t(n)");
    return db;
}

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int64_t rows(sqlite3 *db)
{
    return sql_get(db, "SELECT count(*) FROM t");
}

/* ---- locks ------------------------------------------------------------- */

static void test_memdisk_locks_exclude_with_a_journal(void **state)
{
    struct bench *b = *state;
    sqlite3 *one = join(b, 1);
    sqlite3 *two = join(b, 2);
    sqlite3 *three = join(b, 3);

    sql_run(one, "CREATE TABLE t(n); BEGIN IMMEDIATE; INSERT INTO t VALUES(1)");
    assert_int_equal(run(two, "BEGIN IMMEDIATE"), SQLITE_BUSY);
    assert_int_equal(rows(two), 0);
    sql_run(two, "BEGIN; SELECT * FROM t"); /* reads on */
    assert_int_equal(run(one, "COMMIT"), SQLITE_BUSY);
    /* the writer waits, so no new reader comes in */
    assert_int_equal(run(three, "SELECT * FROM t"), SQLITE_BUSY);
    sql_run(two, "COMMIT");
    sql_run(one, "COMMIT");
    assert_int_equal(rows(two), 1);
    assert_int_equal(rows(three), 1);
}

static void test_memdisk_wal_is_seen_by_all_connections(void **state)
{
    struct bench *b = *state;
    sqlite3 *one = join_wal(b, 1);
    sqlite3 *two = join_wal(b, 2);

    sql_run(two, "BEGIN; SELECT * FROM t");
    sql_run(one, "INSERT INTO t VALUES (1)");
    assert_int_equal(rows(one), 1);
    assert_int_equal(rows(two), 0); /* its snapshot */
    sql_run(two, "COMMIT");
    assert_int_equal(rows(two), 1);
    sql_run(one, "BEGIN IMMEDIATE; INSERT INTO t VALUES (2)");
    assert_int_equal(run(two, "BEGIN IMMEDIATE"), SQLITE_BUSY);
    sql_run(one, "COMMIT");
    sql_run(two, "INSERT INTO t VALUES (3)");
    assert_int_equal(rows(one), 3);
}

static void test_memdisk_checkpoint_waits_for_readers(void **state)
{
    struct bench *b = *state;
    sqlite3 *one = join_wal(b, 1);
    sqlite3 *two = join_wal(b, 2);

    sql_run(one, "INSERT INTO t VALUES (1)");
    sql_run(two, "BEGIN; SELECT * FROM t");
    sql_run(one, "INSERT INTO t VALUES (2)");
    assert_string_equal(
        sql_text(one, "PRAGMA wal_checkpoint(TRUNCATE)"), "1|4|3");
    sql_run(two, "COMMIT");
    assert_string_equal(
        sql_text(one, "PRAGMA wal_checkpoint(TRUNCATE)"), "0|0|0");
    assert_int_equal(rows(two), 2);
}

/* More frames than the first region of the index has room for. */
static void test_memdisk_wal_may_be_long(void **state)
{
    struct bench *b = *state;
    sqlite3 *one = join_wal(b, 1);
    sqlite3 *two = join_wal(b, 2);

    sql_run(one, "INSERT INTO t WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
                 " SELECT i + 1 FROM n WHERE i < 10000)"
                 " SELECT zeroblob(4000) FROM n");
    assert_int_equal(rows(two), 10000);
    assert_string_equal(sql_text(two, "PRAGMA integrity_check"), "ok");
}

static void test_memdisk_wal_stays_if_it_shall(void **state)
{
    struct bench *b = *state;
    sqlite3 *one = join_wal(b, 1);
    int keeps = 1;
    size_t len;

    assert_int_equal(
        sqlite3_file_control(one, "main", SQLITE_FCNTL_PERSIST_WAL, &keeps),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(b->open[--b->count]), SQLITE_OK);
    assert_non_null(memdisk_bytes(b->disk, "a.db-wal", &len));
    (void)join_wal(b, 1);
    assert_int_equal(sqlite3_close(b->open[--b->count]), SQLITE_OK);
    assert_null(memdisk_bytes(b->disk, "a.db-wal", &len));
}

/* As SQLite's own does where a chunk was set. */
static void test_memdisk_grows_in_chunks(void **state)
{
    struct bench *b = *state;
    sqlite3 *one = join(b, 1);
    int chunk = 100000;
    sqlite3_int64 hint = 150000;
    size_t len;

    sql_run(one, "CREATE TABLE t(n)");
    (void)sqlite3_file_control(one, "main", SQLITE_FCNTL_SIZE_HINT, &hint);
    (void)memdisk_bytes(b->disk, "a.db", &len);
    assert_int_equal(len, 8192);
    (void)sqlite3_file_control(one, "main", SQLITE_FCNTL_CHUNK_SIZE, &chunk);
    (void)sqlite3_file_control(one, "main", SQLITE_FCNTL_SIZE_HINT, &hint);
    (void)memdisk_bytes(b->disk, "a.db", &len);
    assert_int_equal(len, 200000);
    assert_string_equal(sql_text(one, "PRAGMA integrity_check"), "ok");
}

/* ---- death ------------------------------------------------------------- */

static void test_memdisk_dead_process_has_no_locks(void **state)
{
    struct bench *b = *state;
    sqlite3 *one = join_wal(b, 1);
    sqlite3 *two = join_wal(b, 2);

    sql_run(one, "BEGIN IMMEDIATE; INSERT INTO t VALUES (1)");
    assert_int_equal(run(two, "BEGIN IMMEDIATE"), SQLITE_BUSY);
    memdisk_kill(b->disk, 1);
    sql_run(two, "INSERT INTO t VALUES (2)");
    assert_int_equal(run(one, "COMMIT"), SQLITE_IOERR);
    assert_string_equal(sql_text(two, "SELECT n FROM t"), "2");
}

static void test_memdisk_dead_process_has_no_locks_of_a_journal(void **state)
{
    struct bench *b = *state;
    sqlite3 *one = join(b, 1);
    sqlite3 *two = join(b, 2);

    sql_run(one, "CREATE TABLE t(n); PRAGMA cache_size=1; BEGIN EXCLUSIVE;"
                 "INSERT INTO t WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
                 " SELECT i + 1 FROM n WHERE i < 100)"
                 " SELECT zeroblob(4000) FROM n");
    assert_int_equal(run(two, "SELECT * FROM t"), SQLITE_BUSY);
    memdisk_kill(b->disk, 1);
    assert_int_equal(rows(two), 0); /* the journal is played back */
    assert_int_equal(run(one, "COMMIT"), SQLITE_IOERR);
}

/* Begun, and more than the cache holds: it is in the WAL and in its index. */
static void begin_with_100_rows(sqlite3 *db)
{
    sql_run(db, "PRAGMA cache_size=1; BEGIN IMMEDIATE;"
                "INSERT INTO t WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
                " SELECT i + 1 FROM n WHERE i < 100)"
                " SELECT zeroblob(4000) FROM n");
}

/* A rollback clears the index of frames that nobody has committed, without
 * asking: by now those may be another one's. */
static void test_memdisk_dead_process_leaves_the_index_alone(void **state)
{
    struct bench *b = *state;
    sqlite3 *one = join_wal(b, 1);
    sqlite3 *two = join_wal(b, 2);

    begin_with_100_rows(one);
    memdisk_kill(b->disk, 1);
    begin_with_100_rows(two);
    (void)run(one, "ROLLBACK");
    sql_run(two, "COMMIT");
    assert_int_equal(rows(two), 100);
    assert_int_equal(rows(join(b, 3)), 100);
    assert_string_equal(sql_text(two, "PRAGMA integrity_check"), "ok");
}

/* A process may die at any call of its commit; the other one finds all of it,
 * or nothing. */
static void test_memdisk_process_dies_at_each_call_of_a_commit(void **state)
{
    struct bench *b = *state;
    sqlite3 *two = join_wal(b, 0);
    uint64_t nth = 1;
    int done = 0;

    for (; !done; nth++) {
        sqlite3 *one = join_wal(b, 1);
        int64_t before = rows(one);

        memdisk_die_at(b->disk, 1, MEMDISK_ANY, nth, NULL, NULL);
        (void)run(one, "BEGIN IMMEDIATE");
        (void)run(one, "INSERT INTO t VALUES (1)");
        (void)run(one, "INSERT INTO t VALUES (1)");
        done = run(one, "COMMIT") == SQLITE_OK && !memdisk_is_dead(b->disk, 1);
        assert_true(rows(two) == before + 2 || (!done && rows(two) == before));
        sql_run(two, "INSERT INTO t VALUES (0)");
        assert_int_equal(sqlite3_close(b->open[--b->count]), SQLITE_OK);
        memdisk_revive(b->disk, 1);
    }
    memdisk_die_at(b->disk, 1, MEMDISK_ANY, 0, NULL, NULL);
    assert_true(nth > 8);
    assert_string_equal(sql_text(two, "PRAGMA integrity_check"), "ok");
}

/* What was committed with synchronous=FULL is there, and the -shm is not. */
static void test_memdisk_power_cut_keeps_full_commits(void **state)
{
    struct bench *b = *state;
    sqlite3 *one = join_wal(b, 1);

    sql_run(one, "INSERT INTO t VALUES (1)");
    sql_run(one, "PRAGMA synchronous=NORMAL");
    sql_run(one, "INSERT INTO t VALUES (2)");
    memdisk_cut(b->disk, MEMDISK_NOTHING, 1);
    assert_true(memdisk_is_dead(b->disk, 1));
    assert_int_equal(run(one, "SELECT * FROM t"), SQLITE_IOERR);
    assert_string_equal(sql_text(join(b, 9), "SELECT n FROM t"), "1");
}

/* ---- the same again ---------------------------------------------------- */

static uint64_t play(uint64_t seed)
{
    struct memdisk *d = memdisk_new(seed);
    uint64_t print;
    sqlite3 *db;

    assert_int_equal(sqlite3_open(memdisk_path(d, "a.db"), &db), SQLITE_OK);
    sql_run(db, "PRAGMA journal_mode=WAL; CREATE TABLE t(n);"
                "INSERT INTO t VALUES (randomblob(100)), (datetime('now'))");
    print = memdisk_print(d);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    memdisk_free(d);
    return print;
}

static void test_memdisk_same_seed_gives_the_same_bytes(void **state)
{
    (void)state;
    assert_true(play(1) == play(1));
    assert_true(play(1) != play(2));
}

static int64_t now_ms(void *ctx)
{
    return ((struct bench *)ctx)->now_ms;
}

static void slept(void *ctx, int us)
{
    ((struct bench *)ctx)->slept_us += us;
}

static void test_memdisk_clock_is_the_tests(void **state)
{
    struct bench *b = *state;
    sqlite3 *one = join(b, 1);
    sqlite3 *two = join(b, 2);

    assert_string_equal(
        sql_text(one, "SELECT datetime('now')"), "2027-01-15 08:00:00");
    memdisk_clock(now_ms, slept, b);
    b->now_ms = 1000;
    assert_string_equal(
        sql_text(one, "SELECT datetime('now')"), "1970-01-01 00:00:01");
    sql_run(one, "CREATE TABLE t(n); BEGIN EXCLUSIVE");
    assert_int_equal(sqlite3_busy_timeout(two, 1000), SQLITE_OK);
    assert_int_equal(run(two, "SELECT * FROM t"), SQLITE_BUSY);
    assert_int_equal(b->slept_us, 1000000);
}

static void test_memdisk_paths_of_others_are_theirs(void **state)
{
    struct tempdb t;

    (void)state;
    tempdb_make(&t);
    t.app = tempdb_connect(&t);
    sql_run(t.app, "CREATE TABLE t(n); INSERT INTO t VALUES (1)");
    assert_int_equal(rows(t.app), 1);
    tempdb_remove(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_memdisk_locks_exclude_with_a_journal),
        TEST_IN(test_memdisk_wal_is_seen_by_all_connections),
        TEST_IN(test_memdisk_checkpoint_waits_for_readers),
        TEST_IN(test_memdisk_wal_may_be_long),
        TEST_IN(test_memdisk_wal_stays_if_it_shall),
        TEST_IN(test_memdisk_grows_in_chunks),
        TEST_IN(test_memdisk_dead_process_has_no_locks),
        TEST_IN(test_memdisk_dead_process_has_no_locks_of_a_journal),
        TEST_IN(test_memdisk_dead_process_leaves_the_index_alone),
        TEST_IN(test_memdisk_process_dies_at_each_call_of_a_commit),
        TEST_IN(test_memdisk_power_cut_keeps_full_commits),
        TEST_IN(test_memdisk_same_seed_gives_the_same_bytes),
        TEST_IN(test_memdisk_clock_is_the_tests),
        TEST_IN(test_memdisk_paths_of_others_are_theirs),
    };

    memdisk_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
