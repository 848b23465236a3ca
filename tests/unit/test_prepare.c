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

/* ---- room ---- */

enum { SMALL = 1 << 18, LARGE = 20 << 20 };

static void test_prepare_more_than_is_free_lays_nothing_out(void **state)
{
    struct desk *d = *state;

    d->sim.room.free_bytes = 5 << 20;
    assert_int_equal(prepare(d, 5 << 20, WAL_BYTES), POSTBAG_ENOSPC);
    assert_has(d->why.text, "nothing is laid out: 6 MiB are needed, 5 MiB are");
    assert_int_equal(prepare(d, DB_BYTES, 5 << 20), POSTBAG_ENOSPC);
    assert_int_equal(prepare(d, INT64_MAX, 0), POSTBAG_ENOSPC);
    assert_true(bytes(d, "") < SMALL && bytes(d, "-wal") < SMALL);
    assert_ok(prepare(d, 4 << 20, WAL_BYTES));
}

static void test_prepare_what_is_laid_out_needs_no_room_again(void **state)
{
    struct desk *d = *state;
    int64_t file;

    assert_ok(prepare(d, DB_BYTES, WAL_BYTES));
    file = bytes(d, "");
    d->sim.room.free_bytes = SMALL;
    assert_ok(prepare(d, DB_BYTES, WAL_BYTES));
    assert_int_equal(bytes(d, ""), file);
}

static int shrinking_room(void *ctx, const char *path, struct postbag_room *out)
{
    static int looks;

    (void)ctx;
    (void)path;
    *out = (struct postbag_room){.free_bytes = looks++ < 2 ? LARGE : SMALL};
    return POSTBAG_OK;
}

static void test_prepare_gives_back_when_another_takes_the_room(void **state)
{
    struct desk *d = *state;

    d->sim.port.room = shrinking_room;
    assert_int_equal(prepare(d, LARGE / 2, 0), POSTBAG_ENOSPC);
    assert_has(d->why.text, "is full: 14 MiB were needed; what was laid out is"
                            " given back");
    assert_true(bytes(d, "") < SMALL && bytes(d, "-wal") < SMALL);
}

/* For each connection: 8 MiB are all there is. */
static int limit_file(sqlite3 *db, char **why, const void *api)
{
    (void)why;
    (void)api;
    return sqlite3_exec(db, "PRAGMA max_page_count = 2048", NULL, NULL, NULL);
}

static void test_prepare_gives_back_where_the_port_cannot_tell(void **state)
{
    struct desk *d = *state;
    int err;

    d->sim.port.room = NULL;
    assert_int_equal(
        sqlite3_auto_extension((void (*)(void))limit_file), SQLITE_OK);
    err = prepare(d, LARGE, 0);
    sqlite3_reset_auto_extension();
    assert_int_equal(err, POSTBAG_ENOSPC);
    assert_has(d->why.text, "what was laid out is given back");
    assert_true(bytes(d, "") < SMALL && bytes(d, "-wal") < SMALL);
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
        TEST_IN(test_prepare_more_than_is_free_lays_nothing_out),
        TEST_IN(test_prepare_what_is_laid_out_needs_no_room_again),
        TEST_IN(test_prepare_gives_back_when_another_takes_the_room),
        TEST_IN(test_prepare_gives_back_where_the_port_cannot_tell),
        TEST_IN(test_prepare_errors_are_told),
    };

    return cmocka_run_group_tests_name("prepare", tests, NULL, NULL);
}
