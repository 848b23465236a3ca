/* SPDX-License-Identifier: MIT */
/* The disk itself: what a power cut leaves of a file, and what it cannot. */
#include "crash_disk.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tempdb.h"
#include "unit.h"

enum { BLOCK = 4096, SECTORS = BLOCK / 512, DRAWS = 100 };

/* The file of a database that SQLite never reads; what is left of it. */
struct bench {
    struct tempdb t;
    sqlite3_file *file;
    char left[160];
    unsigned char bytes[2 * BLOCK];
    long len; /* -1: there is none */
};

static int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    tempdb_make(&b->t);
    (void)snprintf(b->left, sizeof(b->left), "%s/left.db", b->t.folder);
    crash_disk_record(b->t.path);
    assert_int_equal(sqlite3_open(b->t.path, &b->t.app), SQLITE_OK);
    assert_int_equal(sqlite3_file_control(
                         b->t.app, "main", SQLITE_FCNTL_FILE_POINTER, &b->file),
        SQLITE_OK);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;

    crash_disk_lie(0);
    tempdb_remove(&b->t);
    free(b);
    return 0;
}

static void fill(struct bench *b, int block, char with)
{
    char bytes[BLOCK];

    memset(bytes, with, sizeof(bytes));
    assert_int_equal(b->file->pMethods->xWrite(b->file, bytes, sizeof(bytes),
                         (sqlite3_int64)block * BLOCK),
        SQLITE_OK);
}

static void sync_all(struct bench *b)
{
    assert_int_equal(
        b->file->pMethods->xSync(b->file, SQLITE_SYNC_NORMAL), SQLITE_OK);
}

static void cut(struct bench *b, enum crash_left left, unsigned draw)
{
    const struct crash_cut c = {
        .events = crash_disk_events(), .left = left, .draw = draw, .seed = 1};
    FILE *f;

    crash_cut_make(&c, b->left);
    b->len = -1;
    f = fopen(b->left, "rb");
    if (f == NULL)
        return;
    b->len = (long)fread(b->bytes, 1, sizeof(b->bytes), f);
    assert_int_equal(fclose(f), 0);
}

/* Sectors of the block that begin so. */
static int sectors(const struct bench *b, int block, char with)
{
    int count = 0;

    for (int i = 0; i < SECTORS; i++)
        count += b->bytes[block * BLOCK + i * 512] == (unsigned char)with;
    return count;
}

static void test_crash_disk_file_that_was_never_synced_may_be_gone(void **state)
{
    struct bench *b = *state;

    fill(b, 0, 'a');
    cut(b, CRASH_NOTHING, 0);
    assert_int_equal(b->len, -1);
    cut(b, CRASH_ALL, 0);
    assert_int_equal(b->len, BLOCK);
}

static void test_crash_disk_what_was_synced_stays(void **state)
{
    struct bench *b = *state;

    fill(b, 0, 'a');
    sync_all(b);
    fill(b, 1, 'b');
    cut(b, CRASH_NOTHING, 0);
    assert_int_equal(b->len, BLOCK);
    assert_int_equal(sectors(b, 0, 'a'), SECTORS);
    cut(b, CRASH_ALL, 0);
    assert_int_equal(b->len, 2 * BLOCK);
    assert_int_equal(sectors(b, 1, 'b'), SECTORS);
}

static void test_crash_disk_last_write_is_torn_by_sectors(void **state)
{
    struct bench *b = *state;
    int torn = 0;

    fill(b, 0, 'a');
    sync_all(b);
    fill(b, 1, 'b');
    fill(b, 0, 'c');
    for (unsigned draw = 0; draw < DRAWS; draw++) {
        int first;

        cut(b, CRASH_TORN, draw);
        first = sectors(b, 0, 'c');
        assert_int_equal(sectors(b, 0, 'a'), SECTORS - first);
        assert_int_equal(sectors(b, 1, 'b'), SECTORS);
        torn += first > 0 && first < SECTORS;
    }
    assert_true(torn > DRAWS / 2);
}

/* Also the later one without the earlier one. */
static void test_crash_disk_unsynced_writes_are_left_in_any_order(void **state)
{
    struct bench *b = *state;
    int seen[2][2] = {{0}};

    fill(b, 0, 'a');
    fill(b, 1, 'a');
    sync_all(b);
    fill(b, 0, 'b');
    fill(b, 1, 'b');
    for (unsigned draw = 0; draw < DRAWS; draw++) {
        cut(b, CRASH_SOME, draw);
        assert_int_equal(b->len, 2 * BLOCK);
        if (sectors(b, 0, 'b') % SECTORS == 0 &&
            sectors(b, 1, 'b') % SECTORS == 0)
            seen[sectors(b, 0, 'b') / SECTORS][sectors(b, 1, 'b') / SECTORS]++;
    }
    for (int i = 0; i < 4; i++)
        assert_true(seen[i / 2][i % 2] > 0);
}

static void test_crash_disk_cut_is_the_same_again(void **state)
{
    struct bench *b = *state;
    unsigned char first[2 * BLOCK];

    fill(b, 0, 'a');
    fill(b, 1, 'b');
    fill(b, 0, 'c');
    cut(b, CRASH_SOME, 7);
    memcpy(first, b->bytes, sizeof(first));
    cut(b, CRASH_ALL, 0);
    cut(b, CRASH_SOME, 7);
    assert_memory_equal(b->bytes, first, sizeof(first));
}

/* What was promised without a sync is found to be missing. */
static void test_crash_disk_is_cut_with_nothing_left_before_each_sync(
    void **state)
{
    struct bench *b = *state;
    struct crash_cut c = {.seed = 1};
    size_t expected[2];
    int found = 0;

    fill(b, 0, 'a');
    expected[0] = crash_disk_events();
    sync_all(b);
    fill(b, 1, 'b');
    expected[1] = crash_disk_events();
    while (crash_cut_next(&c, 3))
        if (c.left == CRASH_NOTHING) {
            assert_true(found < 2);
            assert_int_equal(c.events, expected[found++]);
        }
    assert_int_equal(found, 2);
}

static void test_crash_disk_unsynced_truncation_may_be_undone(void **state)
{
    struct bench *b = *state;

    fill(b, 0, 'a');
    sync_all(b);
    assert_int_equal(b->file->pMethods->xTruncate(b->file, 512), SQLITE_OK);
    cut(b, CRASH_NOTHING, 0);
    assert_int_equal(b->len, BLOCK);
    cut(b, CRASH_ALL, 0);
    assert_int_equal(b->len, 512);
}

static void test_crash_disk_that_lies_has_synced_nothing(void **state)
{
    struct bench *b = *state;

    crash_disk_lie(1);
    fill(b, 0, 'a');
    sync_all(b);
    cut(b, CRASH_NOTHING, 0);
    assert_int_equal(b->len, -1);
}

static void test_crash_disk_keeps_what_a_killed_process_wrote(void **state)
{
    struct bench *b = *state;
    pid_t child = fork();
    int status;

    if (child == 0) {
        fill(b, 0, 'a');
        crash_disk_kill_in_sync(1);
        sync_all(b);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    cut(b, CRASH_NOTHING, 0);
    assert_int_equal(b->len, -1);
    cut(b, CRASH_ALL, 0);
    assert_int_equal(b->len, BLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_crash_disk_file_that_was_never_synced_may_be_gone),
        TEST_IN(test_crash_disk_what_was_synced_stays),
        TEST_IN(test_crash_disk_last_write_is_torn_by_sectors),
        TEST_IN(test_crash_disk_unsynced_writes_are_left_in_any_order),
        TEST_IN(test_crash_disk_cut_is_the_same_again),
        TEST_IN(test_crash_disk_is_cut_with_nothing_left_before_each_sync),
        TEST_IN(test_crash_disk_unsynced_truncation_may_be_undone),
        TEST_IN(test_crash_disk_that_lies_has_synced_nothing),
        TEST_IN(test_crash_disk_keeps_what_a_killed_process_wrote),
    };

    crash_disk_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
