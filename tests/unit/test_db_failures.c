/* SPDX-License-Identifier: MIT */
/* Real failures of SQLite, and what they become. */
#include <sqlite3.h>

#include "store_world.h"

static int set_up(void **state)
{
    (void)world_open(state);
    return 0;
}

static int tear_down(void **state)
{
    return world_close(state);
}

static void fails(struct world *w, const char *sql, int err, int cause)
{
    if (postbag__exec(&w->db, sql) != err)
        fail_msg("%s: not %d but %s", sql, err, w->db.fault.text);
    assert_int_equal(w->db.fault.cause, cause);
}

static void test_failures_of_statements(void **state)
{
    static const struct {
        const char *sql;
        int err, cause;
    } all[] = {
        {"INSERT INTO outbox_meta VALUES ('stream', 1)", POSTBAG_EINVAL,
            SQLITE_CONSTRAINT_PRIMARYKEY},
        {"INSERT INTO outbox_sum VALUES (1, 'text')", POSTBAG_EINVAL,
            SQLITE_CONSTRAINT_DATATYPE},
        {"INSERT INTO outbox(topic, payload) VALUES ('+', '')", POSTBAG_EINVAL,
            SQLITE_CONSTRAINT_TRIGGER},
        {"INSERT INTO outbox(topic, payload) VALUES ('t', zeroblob(65537))",
            POSTBAG_ETOOBIG, SQLITE_CONSTRAINT_TRIGGER},
        {"SELECT zeroblob(2147483647)", POSTBAG_ETOOBIG, SQLITE_TOOBIG},
        {"SELECT nothing FROM nowhere", POSTBAG_ESCHEMA, SQLITE_ERROR},
        {"this is no SQL", POSTBAG_ESCHEMA, SQLITE_ERROR},
    };

    for (size_t i = 0; i < COUNT(all); i++)
        fails(*state, all[i].sql, all[i].err, all[i].cause);
}

static void test_failures_first_of_two_binds_is_told(void **state)
{
    struct world *w = *state;
    struct stmt s;

    assert_ok(postbag__prepare(&w->db, &s, "SELECT ?1"));
    postbag__bind_i64(&s, 7, 1);               /* there is no ?7 */
    postbag__bind_blob(&s, 1, "", 3000000000); /* too big, but later */
    assert_int_equal(postbag__run(&s), POSTBAG_EINVAL);
    assert_int_equal(w->db.fault.cause, SQLITE_RANGE);
    postbag__finalize(&s);
}

static void test_failures_lock_of_another_is_busy(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app, "BEGIN IMMEDIATE");
    fails(w, "BEGIN IMMEDIATE", POSTBAG_EBUSY, SQLITE_BUSY);
    sql_run(w->t.app, "COMMIT");
}

static void test_failures_old_snapshot_is_busy(void **state)
{
    struct world *w = *state;

    assert_ok(postbag__pin(&w->db));
    sql_run(w->t.app, "INSERT INTO outbox(topic, payload) VALUES ('t', '')");
    fails(w, "INSERT INTO outbox(topic, payload) VALUES ('t', '')",
        POSTBAG_EBUSY, SQLITE_BUSY_SNAPSHOT);
    postbag__rollback(&w->db);
}

static void test_failures_checkpoint_in_an_own_transaction_is_busy(void **state)
{
    struct world *w = *state;
    int in_wal;
    int done;

    assert_ok(postbag__begin(&w->db, DB_NORMAL));
    assert_ok(postbag__exec(&w->db, "DELETE FROM outbox_lost"));
    assert_int_equal(
        postbag__checkpoint(&w->db, &in_wal, &done), POSTBAG_EBUSY);
    postbag__rollback(&w->db);
}

static void test_failures_database_that_may_not_grow_is_no_space(void **state)
{
    struct world *w = *state;
    char sql[64];

    (void)snprintf(sql, sizeof(sql), "PRAGMA max_page_count = %d",
        (int)sql_get(w->t.app, "PRAGMA page_count"));
    assert_ok(postbag__exec(&w->db, sql));
    fails(w, "INSERT INTO outbox(topic, payload) VALUES ('t', zeroblob(60000))",
        POSTBAG_ENOSPC, SQLITE_FULL);
}

static void test_failures_write_through_a_reader_is_storage(void **state)
{
    struct world *w = *state;

    postbag__db_close(&w->db);
    assert_ok(postbag__db_open(&w->db, w->t.path, DB_READ, DB_NORMAL, 0));
    fails(w, "DELETE FROM outbox_lost", POSTBAG_EIO, SQLITE_READONLY);
}

static int stop(void *ctx)
{
    (void)ctx;
    return 1;
}

static void test_failures_interrupted_may_be_tried_again(void **state)
{
    struct world *w = *state;

    sqlite3_progress_handler(w->db.handle, 10, stop, NULL);
    fails(w,
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n)"
        " SELECT max(i) FROM n",
        POSTBAG_EAGAIN, SQLITE_INTERRUPT);
}

/* What the connection remembers is of another call: not our text. */
static void test_failures_stale_message_is_not_told(void **state)
{
    struct world *w = *state;

    fails(w, "SELECT * FROM nowhere", POSTBAG_ESCHEMA, SQLITE_ERROR);
    assert_int_equal(
        postbag__db_fault(&w->db, SQLITE_IOERR_FSYNC), POSTBAG_EIO);
    assert_int_equal(w->db.fault.cause, SQLITE_IOERR_FSYNC);
    assert_null(strstr(w->db.fault.text, "nowhere"));
}

static void test_failures_success_leaves_the_last_fault_alone(void **state)
{
    struct world *w = *state;

    fails(w, "SELECT * FROM nowhere", POSTBAG_ESCHEMA, SQLITE_ERROR);
    assert_ok(postbag__exec(&w->db, "SELECT 1"));
    assert_int_equal(w->db.fault.code, POSTBAG_ESCHEMA);
}

/* ---- damaged files ---- */

static void write_at(const struct tempdb *t, long at, const char *bytes)
{
    FILE *f = fopen(t->path, "r+");

    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, strlen(bytes), f), strlen(bytes));
    assert_int_equal(fclose(f), 0);
}

/* Nobody has the file open any more, and all of it is in the file. */
static void close_all(struct world *w)
{
    sql_run(w->t.app, "PRAGMA wal_checkpoint(TRUNCATE)");
    postbag__db_close(&w->db);
    assert_int_equal(sqlite3_close(w->t.app), SQLITE_OK);
    w->t.app = NULL;
}

static void test_failures_file_that_is_no_database_is_corrupt(void **state)
{
    struct world *w = *state;

    close_all(w);
    write_at(&w->t, 0, "This file holds no tables at all");
    assert_int_equal(
        postbag__db_open(&w->db, w->t.path, DB_WRITE, DB_NORMAL, 0),
        POSTBAG_ECORRUPT);
    assert_int_equal(w->db.fault.cause, SQLITE_NOTADB);
}

static void test_failures_page_of_rubbish_is_corrupt(void **state)
{
    struct world *w = *state;
    long root = (long)sql_get(w->t.app,
        "SELECT rootpage FROM sqlite_schema WHERE name = 'outbox_sum'");
    long page_size = (long)sql_get(w->t.app, "PRAGMA page_size");

    close_all(w);
    write_at(&w->t, (root - 1) * page_size, "rubbish instead of a b-tree");
    assert_ok(postbag__db_open(&w->db, w->t.path, DB_WRITE, DB_NORMAL, 0));
    assert_int_equal(
        postbag__exec(&w->db, "SELECT * FROM outbox_sum"), POSTBAG_ECORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_failures_of_statements),
        TEST_IN(test_failures_first_of_two_binds_is_told),
        TEST_IN(test_failures_lock_of_another_is_busy),
        TEST_IN(test_failures_old_snapshot_is_busy),
        TEST_IN(test_failures_checkpoint_in_an_own_transaction_is_busy),
        TEST_IN(test_failures_database_that_may_not_grow_is_no_space),
        TEST_IN(test_failures_write_through_a_reader_is_storage),
        TEST_IN(test_failures_interrupted_may_be_tried_again),
        TEST_IN(test_failures_stale_message_is_not_told),
        TEST_IN(test_failures_success_leaves_the_last_fault_alone),
        TEST_IN(test_failures_file_that_is_no_database_is_corrupt),
        TEST_IN(test_failures_page_of_rubbish_is_corrupt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
