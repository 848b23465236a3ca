/* SPDX-License-Identifier: MIT */
/* The write-ahead log: how long it is, and what a checkpoint does to it. */
#include <sqlite3.h>
#include <stdlib.h>

#include "db.h"
#include "tempdb.h"
#include "unit.h"

struct desk {
    struct tempdb t;
    struct db db;
};

static int set_up(void **state)
{
    struct desk *d = calloc(1, sizeof(*d));

    assert_non_null(d);
    tempdb_make_outbox(&d->t);
    (void)sql_text(d->t.app, "PRAGMA wal_autocheckpoint=0");
    assert_ok(postbag__db_open(&d->db, d->t.path, DB_WRITE, DB_NORMAL, 0));
    *state = d;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *d = *state;

    postbag__db_close(&d->db);
    tempdb_remove(&d->t);
    free(d);
    return 0;
}

static void commit(struct desk *d, int times)
{
    for (int i = 0; i < times; i++)
        sql_run(d->t.app, "UPDATE outbox_dest SET epoch = epoch + 1");
}

/* Read something, so that the connection sees the WAL. */
static void look(struct desk *d)
{
    int64_t epoch;

    assert_ok(
        postbag__query_i64(&d->db, "SELECT epoch FROM outbox_dest", &epoch));
}

static int64_t frames(struct desk *d)
{
    int64_t n = -1;

    look(d);
    assert_ok(postbag__wal_frames(&d->db, &n));
    return n;
}

static void checkpoint_all(struct desk *d)
{
    int total = 0;
    int done = 0;

    assert_ok(postbag__checkpoint(&d->db, &total, &done));
    assert_int_equal(total, done);
}

static void test_wal_frames_count_what_was_written(void **state)
{
    struct desk *d = *state;
    int64_t before = frames(d);

    commit(d, 10);
    assert_int_equal(frames(d), before + 10);
}

/* A WAL that is used again keeps the frames of its last round behind. */
static void test_wal_frames_are_of_this_round(void **state)
{
    struct desk *d = *state;
    int64_t bytes, again;

    commit(d, 50);
    checkpoint_all(d);
    assert_ok(postbag__wal_bytes(&d->db, &bytes));
    commit(d, 3);
    assert_int_equal(frames(d), 3);
    assert_ok(postbag__wal_bytes(&d->db, &again));
    assert_int_equal(again, bytes);
    assert_true(bytes > 50 * 4096);
}

static void test_wal_checkpoint_copies_up_to_the_oldest_reader(void **state)
{
    struct desk *d = *state;
    struct sqlite3 *reader;
    int total = 0;
    int done = 0;

    commit(d, 5);
    checkpoint_all(d);
    reader = tempdb_connect(&d->t);
    sql_run(reader, "BEGIN");
    (void)sql_get(reader, "SELECT epoch FROM outbox_dest");
    commit(d, 5);
    assert_ok(postbag__checkpoint(&d->db, &total, &done));
    assert_true(done < total);
    sql_run(reader, "COMMIT");
    (void)sqlite3_close(reader);
    checkpoint_all(d);
}

static void test_wal_pin_holds_its_snapshot(void **state)
{
    struct desk *d = *state;
    struct db other;
    int64_t before, now;
    int total, done;
    static const char epoch[] = "SELECT epoch FROM outbox_dest";

    assert_ok(postbag__db_open(&other, d->t.path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__query_i64(&d->db, epoch, &before));
    assert_ok(postbag__pin(&d->db));
    commit(d, 5);
    assert_ok(postbag__query_i64(&d->db, epoch, &now));
    assert_int_equal(now, before);
    assert_ok(postbag__checkpoint(&other, &total, &done));
    assert_true(done < total);
    postbag__rollback(&d->db);
    assert_ok(postbag__query_i64(&d->db, epoch, &now));
    assert_int_equal(now, before + 5);
    postbag__db_close(&other);
}

static void test_wal_pin_without_our_tables_leaves_nothing_open(void **state)
{
    struct desk *d = *state;

    sql_run(d->t.app, "DROP VIEW outbox_status; DROP TABLE outbox_meta");
    assert_int_equal(postbag__pin(&d->db), POSTBAG_ESCHEMA);
    assert_int_equal(postbag__in_transaction(&d->db), 0);
}

static void test_wal_data_version_moves_with_the_commits_of_others(void **state)
{
    struct desk *d = *state;
    struct stmt s;
    int64_t first, second, third;

    assert_ok(postbag__prepare(&d->db, &s, "PRAGMA data_version"));
    assert_ok(postbag__data_version(&s, &first));
    assert_ok(postbag__exec(&d->db, "UPDATE outbox_dest SET epoch = 9"));
    assert_ok(postbag__data_version(&s, &second));
    assert_int_equal(second, first);
    commit(d, 1);
    assert_ok(postbag__data_version(&s, &third));
    assert_int_not_equal(third, first);
    postbag__finalize(&s);
}

static void test_wal_sync_works_before_and_after_the_first_read(void **state)
{
    struct desk *d = *state;
    struct db fresh;

    assert_ok(postbag__db_open(&fresh, d->t.path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__sync_wal(&fresh));
    postbag__db_close(&fresh);
    commit(d, 1);
    look(d);
    assert_ok(postbag__sync_wal(&d->db));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_wal_frames_count_what_was_written),
        TEST_IN(test_wal_frames_are_of_this_round),
        TEST_IN(test_wal_checkpoint_copies_up_to_the_oldest_reader),
        TEST_IN(test_wal_pin_holds_its_snapshot),
        TEST_IN(test_wal_pin_without_our_tables_leaves_nothing_open),
        TEST_IN(test_wal_data_version_moves_with_the_commits_of_others),
        TEST_IN(test_wal_sync_works_before_and_after_the_first_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
