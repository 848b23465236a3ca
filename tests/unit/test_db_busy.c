/* SPDX-License-Identifier: MIT */
/*
 * How long a connection of ours waits for another's lock.  A VFS of our own
 * counts the sleeps, so that nobody really sleeps.
 */
#include <sqlite3.h>

#include "db.h"
#include "tempdb.h"
#include "unit.h"

static struct {
    sqlite3_vfs vfs;
    sqlite3 *holder; /* lets go after so many sleeps; 0: never */
    unsigned lets_go_after;
    unsigned sleeps;
    int64_t slept_us;
} sleeper;

static int count_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    assert_in_range(us, 200, 1000);
    sleeper.slept_us += us;
    if (++sleeper.sleeps == sleeper.lets_go_after)
        sql_run(sleeper.holder, "COMMIT");
    return us;
}

static int set_up(void **state)
{
    static struct tempdb t;

    memset(&sleeper, 0, sizeof(sleeper));
    sleeper.vfs = *sqlite3_vfs_find(NULL);
    sleeper.vfs.zName = "sleeper";
    sleeper.vfs.xSleep = count_sleep;
    tempdb_make(&t);
    *state = &t;
    return sqlite3_vfs_register(&sleeper.vfs, 1);
}

static int tear_down(void **state)
{
    tempdb_remove(*state);
    return sqlite3_vfs_unregister(&sleeper.vfs);
}

/* Begin, while the application holds the lock. */
static int begin_beside(
    struct tempdb *t, uint32_t busy_ms, unsigned lets_go_after)
{
    struct db db;
    int err;

    assert_ok(postbag__db_open(&db, t->path, DB_CREATE, DB_NORMAL, busy_ms));
    t->app = tempdb_connect(t);
    sql_run(t->app, "BEGIN IMMEDIATE");
    sleeper.sleeps = 0;
    sleeper.slept_us = 0;
    sleeper.holder = t->app;
    sleeper.lets_go_after = lets_go_after;
    err = postbag__begin(&db, DB_NORMAL);
    postbag__rollback(&db);
    postbag__db_close(&db);
    if (lets_go_after == 0)
        sql_run(t->app, "COMMIT");
    return err;
}

static void test_busy_wait_gives_up_after_about_its_time(void **state)
{
    assert_int_equal(begin_beside(*state, 1000, 0), POSTBAG_EBUSY);
    assert_in_range(sleeper.slept_us, 900 * 1000, 1100 * 1000);
}

static void test_busy_wait_of_zero_does_not_wait(void **state)
{
    assert_int_equal(begin_beside(*state, 0, 0), POSTBAG_EBUSY);
    assert_int_equal(sleeper.sleeps, 0);
}

static void test_busy_wait_ends_when_the_lock_is_free(void **state)
{
    assert_ok(begin_beside(*state, 1000, 5));
    assert_int_equal(sleeper.sleeps, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_busy_wait_gives_up_after_about_its_time),
        TEST_IN(test_busy_wait_of_zero_does_not_wait),
        TEST_IN(test_busy_wait_ends_when_the_lock_is_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
