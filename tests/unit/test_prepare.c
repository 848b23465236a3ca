/* SPDX-License-Identifier: MIT */
/* Files that are laid out in advance do not grow. */
#include <sqlite3.h>
#include <sys/stat.h>

#include "postbag/prepare.h"
#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"

enum { DB_BYTES = 1 << 20, WAL_BYTES = 256 * 1024 };

struct desk {
    struct tempdb t;
    struct sim_port sim;
    struct postbag_fault why;
};

static int set_up(void **state)
{
    static struct desk d;

    memset(&d, 0, sizeof(d));
    tempdb_make(&d.t);
    sim_port_init(&d.sim);
    *state = &d;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *d = *state;

    tempdb_remove(&d->t);
    return 0;
}

static int prepare(struct desk *d, int64_t db_bytes, int64_t wal_bytes)
{
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = d->t.path,
        .port = &d->sim.port,
        .busy_ms = 1};

    return postbag_prepare(&c, db_bytes, wal_bytes, &d->why);
}

static int64_t bytes(struct desk *d, const char *end)
{
    char path[160];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s%s", d->t.path, end);
    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

static void test_prepare_new_database_has_its_room(void **state)
{
    struct desk *d = *state;
    int64_t wal;

    assert_ok(prepare(d, DB_BYTES, WAL_BYTES));
    wal = bytes(d, "-wal");
    assert_true(bytes(d, "") >= DB_BYTES);
    assert_true(bytes(d, "") < DB_BYTES + 2 * WAL_BYTES);
    assert_true(wal >= WAL_BYTES && wal < 2 * WAL_BYTES);
    assert_true(bytes(d, "-shm") >= 32768);
    d->t.app = tempdb_connect(&d->t);
    assert_true(
        4096 * sql_get(d->t.app, "PRAGMA freelist_count") > DB_BYTES * 8 / 10);
    assert_int_equal(sql_get(d->t.app, "SELECT count(*) FROM sqlite_schema"
                                       " WHERE name = 'outbox_filler'"),
        0);
    assert_string_equal(sql_text(d->t.app, "PRAGMA integrity_check"), "ok");
}

static void test_prepare_files_do_not_grow_later(void **state)
{
    struct desk *d = *state;
    int64_t file;
    int64_t wal;

    assert_ok(prepare(d, DB_BYTES, WAL_BYTES));
    file = bytes(d, "");
    wal = bytes(d, "-wal");
    d->t.app = tempdb_connect(&d->t);
    for (int i = 0; i < 150; i++) { /* 600 KiB */
        sql_run(d->t.app,
            "INSERT INTO outbox(topic, payload) VALUES ('t', zeroblob(4000))");
        if (i % 10 == 9)
            (void)sql_text(d->t.app, "PRAGMA wal_checkpoint");
    }
    assert_int_equal(bytes(d, ""), file);
    assert_int_equal(bytes(d, "-wal"), wal);
}

static void test_prepare_keeps_what_is_there(void **state)
{
    struct desk *d = *state;

    assert_ok(prepare(d, 0, WAL_BYTES)); /* the WAL alone */
    assert_true(bytes(d, "-wal") >= WAL_BYTES);
    d->t.app = tempdb_connect(&d->t);
    sql_run(d->t.app, "INSERT INTO outbox(topic, payload) VALUES ('t', 'x');"
                      " CREATE TABLE outbox_filler(x)");
    assert_int_equal(prepare(d, DB_BYTES, 0), POSTBAG_EBUSY);
    assert_has(d->why.text, "open");
    assert_int_equal(sqlite3_close(d->t.app), SQLITE_OK);
    assert_ok(prepare(d, DB_BYTES, 0)); /* also the filler of a failed one */
    assert_true(bytes(d, "") >= DB_BYTES);
    d->t.app = tempdb_connect(&d->t);
    assert_string_equal(
        sql_text(d->t.app, "SELECT seq, payload FROM outbox"), "1|x");
}

static void test_prepare_errors_are_told(void **state)
{
    struct desk *d = *state;
    struct postbag_admin_config c = {.struct_size = sizeof(c)};

    assert_int_equal(prepare(d, -1, 0), POSTBAG_EINVAL);
    assert_int_equal(prepare(d, 0, -1), POSTBAG_EINVAL);
    assert_int_equal(postbag_prepare(&c, 0, 0, NULL), POSTBAG_EINVAL);
    d->sim.fails[SIM_STORAGE_CHECK] = POSTBAG_ESTORAGE;
    assert_int_equal(prepare(d, 0, 0), POSTBAG_ESTORAGE);
    d->sim.fails[SIM_STORAGE_CHECK] = POSTBAG_OK;
    d->sim.fails[SIM_RESERVE_PAGES] = POSTBAG_ENOSPC;
    assert_int_equal(prepare(d, 0, 0), POSTBAG_ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_prepare_new_database_has_its_room),
        TEST_IN(test_prepare_files_do_not_grow_later),
        TEST_IN(test_prepare_keeps_what_is_there),
        TEST_IN(test_prepare_errors_are_told),
    };

    return cmocka_run_group_tests_name("prepare", tests, NULL, NULL);
}
