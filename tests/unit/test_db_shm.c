/* SPDX-License-Identifier: MIT */
/* The -shm file has its blocks before SQLite writes to it. */
#include <dirent.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "db.h"
#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"

enum { REGION = 32768 };

struct world {
    struct tempdb t;
    struct sim_port sim;
    struct db db;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    sim_port_init(&w->sim);
    tempdb_make_outbox(&w->t);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    postbag__db_close(&w->db);
    tempdb_remove(&w->t);
    free(w);
    return 0;
}

static int open_backed(struct world *w, enum db_open_mode mode)
{
    return postbag__db_open_backed(
        &w->db, &w->sim.port, w->t.path, mode, DB_NORMAL, 0);
}

static void close_app(struct world *w)
{
    assert_int_equal(sqlite3_close(w->t.app), SQLITE_OK);
    w->t.app = NULL;
}

static int64_t shm_blocks(const struct world *w)
{
    char path[160];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s-shm", w->t.path);
    return stat(path, &st) == 0 ? (int64_t)st.st_blocks * 512 : -1;
}

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}

static void test_shm_has_its_blocks_after_open(void **state)
{
    struct world *w = *state;

    close_app(w);
    assert_ok(open_backed(w, DB_WRITE));
    assert_int_equal(w->sim.calls[SIM_RESERVE_PAGES], 1);
    assert_true(shm_blocks(w) >= REGION);
}

static void test_shm_without_room_is_no_space_and_leaves_nothing_open(
    void **state)
{
    struct world *w = *state;
    int before;

    close_app(w);
    before = open_files();
    w->sim.fails[SIM_RESERVE_PAGES] = POSTBAG_ENOSPC;
    assert_int_equal(open_backed(w, DB_WRITE), POSTBAG_ENOSPC);
    assert_non_null(strstr(w->db.fault.text, "storage is full"));
    assert_int_equal(open_backed(w, DB_READ), POSTBAG_ENOSPC);
    assert_int_equal(open_files(), before);
    w->sim.fails[SIM_RESERVE_PAGES] = POSTBAG_OK;
    assert_ok(open_backed(w, DB_WRITE));
}

/* A database that is yet to become one with a WAL. */
static void test_shm_without_room_leaves_the_journal_mode(void **state)
{
    struct world *w = *state;

    (void)sql_text(w->t.app, "PRAGMA journal_mode=DELETE");
    close_app(w);
    w->sim.fails[SIM_RESERVE_PAGES] = POSTBAG_ENOSPC;
    assert_int_equal(open_backed(w, DB_CREATE), POSTBAG_ENOSPC);
    w->sim.fails[SIM_RESERVE_PAGES] = POSTBAG_OK;
    assert_ok(sqlite3_open(w->t.path, &w->t.app));
    assert_string_equal(sql_text(w->t.app, "PRAGMA journal_mode"), "delete");
    close_app(w);
    assert_ok(open_backed(w, DB_CREATE));
    assert_int_equal(w->sim.calls[SIM_RESERVE_PAGES], 2);
}

static void test_shm_grows_with_the_wal(void **state)
{
    struct world *w = *state;

    assert_ok(open_backed(w, DB_WRITE));
    assert_ok(postbag__shm_back(&w->db, &w->sim.port, 4061));
    assert_int_equal(w->sim.calls[SIM_RESERVE_PAGES], 2);
    assert_ok(postbag__shm_back(&w->db, &w->sim.port, 9000));
    assert_int_equal(w->sim.calls[SIM_RESERVE_PAGES], 2 + 3);
    assert_true(shm_blocks(w) >= 3 * REGION);
    w->sim.fails[SIM_RESERVE_PAGES] = POSTBAG_ENOSPC;
    assert_int_equal(
        postbag__shm_back(&w->db, &w->sim.port, 9000), POSTBAG_ENOSPC);
    /* what is there is kept: the database works */
    assert_ok(postbag__exec(&w->db, "DELETE FROM outbox_lost"));
    assert_string_equal(sql_text(w->t.app, "PRAGMA integrity_check"), "ok");
}

static void test_shm_port_of_before_is_not_asked(void **state)
{
    struct world *w = *state;

    w->sim.port.struct_size = offsetof(struct postbag_port, reserve_pages);
    assert_ok(open_backed(w, DB_WRITE));
    assert_int_equal(w->sim.calls[SIM_RESERVE_PAGES], 0);
    w->sim.port.struct_size = sizeof(w->sim.port);
    w->sim.port.reserve_pages = NULL;
    assert_ok(postbag__shm_back(&w->db, &w->sim.port, 0));
}

static void test_shm_other_troubles_are_left_to_sqlite(void **state)
{
    struct world *w = *state;

    w->sim.fails[SIM_RESERVE_PAGES] = POSTBAG_EIO;
    assert_ok(open_backed(w, DB_WRITE));
}

static void test_open_without_inodes_says_so(void **state)
{
    struct world *w = *state;
    struct db db;

    w->sim.room.free_files = 0;
    (void)snprintf(w->db.fault.text, sizeof(w->db.fault.text), "%s/none/x.db",
        w->t.folder);
    assert_int_equal(postbag__db_open_backed(&db, &w->sim.port,
                         w->db.fault.text, DB_CREATE, DB_NORMAL, 0),
        POSTBAG_ENOSPC);
    assert_non_null(strstr(db.fault.text, "inode"));
    w->sim.room.free_files = -1;
    assert_int_equal(postbag__db_open_backed(&db, &w->sim.port,
                         w->db.fault.text, DB_CREATE, DB_NORMAL, 0),
        POSTBAG_EIO);
}

#define WORLD(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD(test_shm_has_its_blocks_after_open),
        WORLD(test_shm_without_room_is_no_space_and_leaves_nothing_open),
        WORLD(test_shm_without_room_leaves_the_journal_mode),
        WORLD(test_shm_grows_with_the_wal),
        WORLD(test_shm_port_of_before_is_not_asked),
        WORLD(test_shm_other_troubles_are_left_to_sqlite),
        WORLD(test_open_without_inodes_says_so),
    };

    return cmocka_run_group_tests_name("db_shm", tests, NULL, NULL);
}
