/* SPDX-License-Identifier: MIT */
/* The disk in memory by itself: what a power cut leaves of a file, and what it
 * cannot; which calls fail. */
#include "memdisk_bench.h"

/* ---- what is left ------------------------------------------------------ */

static void test_memdisk_file_that_was_never_synced_may_be_gone(void **state)
{
    struct bench *b = *state;

    fill(b, 0, 'a');
    cut(b, MEMDISK_NOTHING, 0);
    assert_int_equal(b->len, -1);
    cut(b, MEMDISK_ALL, 0);
    assert_int_equal(b->len, BLOCK);
}

static void test_memdisk_what_was_synced_stays(void **state)
{
    struct bench *b = *state;

    fill(b, 0, 'a');
    sync_all(b);
    fill(b, 1, 'b');
    cut(b, MEMDISK_NOTHING, 0);
    assert_int_equal(b->len, BLOCK);
    assert_int_equal(sectors(b, 0, 'a'), SECTORS);
    cut(b, MEMDISK_ALL, 0);
    assert_int_equal(b->len, 2 * BLOCK);
    assert_int_equal(sectors(b, 1, 'b'), SECTORS);
}

static void test_memdisk_undoes_writes_that_lie_over_each_other(void **state)
{
    struct bench *b = *state;

    fill(b, 0, 'a');
    fill(b, 1, 'a');
    sync_all(b);
    fill(b, 1, 'b');
    fill(b, 3, 'c'); /* a hole before it */
    fill(b, 1, 'd');
    assert_int_equal(resize(b, 10), SQLITE_OK);
    fill(b, 0, 'e');
    assert_int_equal(memdisk_pending(b->disk), 5);
    cut(b, MEMDISK_NOTHING, 0);
    assert_int_equal(b->len, 2 * BLOCK);
    assert_int_equal(sectors(b, 0, 'a'), SECTORS);
    assert_int_equal(sectors(b, 1, 'a'), SECTORS);
    cut(b, MEMDISK_ALL, 0);
    assert_int_equal(b->len, BLOCK);
    assert_int_equal(sectors(b, 0, 'e'), SECTORS);
}

static void torn_by(struct bench *b, int smallest)
{
    int torn = 0;

    for (unsigned draw = 0; draw < DRAWS; draw++) {
        int first;

        cut(b, MEMDISK_TORN, draw);
        first = sectors(b, 0, 'c');
        assert_int_equal(sectors(b, 0, 'a'), SECTORS - first);
        assert_int_equal(sectors(b, 1, 'b'), SECTORS);
        assert_int_equal(first % smallest, 0);
        torn += first > 0 && first < SECTORS;
    }
    assert_true(smallest == SECTORS || torn > DRAWS / 2);
}

static void test_memdisk_last_write_is_torn_by_sectors(void **state)
{
    struct bench *b = *state;

    fill(b, 0, 'a');
    sync_all(b);
    fill(b, 1, 'b');
    fill(b, 0, 'c');
    torn_by(b, 1);
    memdisk_sector(b->disk, 4096);
    torn_by(b, SECTORS);
}

/* Also the later one without the earlier one. */
static void test_memdisk_unsynced_writes_are_left_in_any_order(void **state)
{
    struct bench *b = *state;
    int seen[2][2] = {{0}};

    fill(b, 0, 'a');
    fill(b, 1, 'a');
    sync_all(b);
    fill(b, 0, 'b');
    fill(b, 1, 'b');
    for (unsigned draw = 0; draw < DRAWS; draw++) {
        cut(b, MEMDISK_SOME, draw);
        assert_int_equal(b->len, 2 * BLOCK);
        if (sectors(b, 0, 'b') % SECTORS == 0 &&
            sectors(b, 1, 'b') % SECTORS == 0)
            seen[sectors(b, 0, 'b') / SECTORS][sectors(b, 1, 'b') / SECTORS]++;
    }
    for (int i = 0; i < 4; i++)
        assert_true(seen[i / 2][i % 2] > 0);
}

static void test_memdisk_cut_is_the_same_again(void **state)
{
    struct bench *b = *state;
    uint64_t first;

    fill(b, 0, 'a');
    fill(b, 1, 'b');
    fill(b, 0, 'c');
    cut(b, MEMDISK_SOME, 7);
    first = memdisk_print(b->left);
    cut(b, MEMDISK_ALL, 0);
    assert_true(memdisk_print(b->left) != first);
    assert_true(memdisk_print(b->left) == memdisk_print(b->disk));
    cut(b, MEMDISK_SOME, 7);
    assert_true(memdisk_print(b->left) == first);
    memdisk_cut(b->disk, MEMDISK_SOME, 7);
    assert_true(memdisk_print(b->disk) == first);
}

static void test_memdisk_unsynced_truncation_may_be_undone(void **state)
{
    struct bench *b = *state;

    fill(b, 0, 'a');
    sync_all(b);
    assert_int_equal(resize(b, 512), SQLITE_OK);
    cut(b, MEMDISK_NOTHING, 0);
    assert_int_equal(b->len, BLOCK);
    assert_int_equal(sectors(b, 0, 'a'), SECTORS);
    cut(b, MEMDISK_ALL, 0);
    assert_int_equal(b->len, 512);
}

static void test_memdisk_unsynced_deletion_may_be_undone(void **state)
{
    struct bench *b = *state;
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

    fill(b, 0, 'a');
    sync_all(b);
    assert_int_equal(
        vfs->xDelete(vfs, memdisk_path(b->disk, "a.db"), 0), SQLITE_OK);
    look(b, b->disk);
    assert_int_equal(b->len, -1);
    cut(b, MEMDISK_NOTHING, 0);
    assert_int_equal(b->len, BLOCK);
    assert_int_equal(sectors(b, 0, 'a'), SECTORS);
    cut(b, MEMDISK_ALL, 0);
    assert_int_equal(b->len, -1);
}

/* Also the deletions of others: the folder is synced with it. */
static void test_memdisk_first_sync_of_a_journal_syncs_deletions(void **state)
{
    struct bench *b = *state;
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sqlite3_file *new = calloc(1, (size_t)vfs->szOsFile);

    fill(b, 0, 'a');
    sync_all(b);
    assert_int_equal(
        vfs->xDelete(vfs, memdisk_path(b->disk, "a.db"), 0), SQLITE_OK);
    assert_int_equal(vfs->xOpen(vfs, memdisk_path(b->disk, "b-journal"), new,
                         SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_READWRITE |
                             SQLITE_OPEN_CREATE,
                         NULL),
        SQLITE_OK);
    cut(b, MEMDISK_NOTHING, 0);
    assert_int_equal(b->len, BLOCK);
    assert_int_equal(new->pMethods->xSync(new, SQLITE_SYNC_NORMAL), SQLITE_OK);
    cut(b, MEMDISK_NOTHING, 0);
    assert_int_equal(b->len, -1);
    assert_int_equal(new->pMethods->xClose(new), SQLITE_OK);
    free(new);
}

static void test_memdisk_that_lies_has_synced_nothing(void **state)
{
    struct bench *b = *state;

    memdisk_lie(b->disk, 1);
    fill(b, 0, 'a');
    sync_all(b);
    cut(b, MEMDISK_NOTHING, 0);
    assert_int_equal(b->len, -1);
    memdisk_lie(b->disk, 0);
    sync_all(b);
    cut(b, MEMDISK_NOTHING, 0);
    assert_int_equal(b->len, BLOCK);
}

static void test_memdisk_copy_has_what_a_cut_may_take_back(void **state)
{
    struct bench *b = *state;
    struct memdisk *other = memdisk_new(3);

    fill(b, 0, 'a');
    sync_all(b);
    fill(b, 0, 'b');
    memdisk_copy(other, b->disk);
    assert_true(memdisk_print(other) == memdisk_print(b->disk));
    memdisk_image(other, MEMDISK_NOTHING, 0, b->left);
    look(b, b->left);
    assert_int_equal(sectors(b, 0, 'a'), SECTORS);
    memdisk_free(other);
}

/* ---- what a test does to it -------------------------------------------- */

static void note_change(void *ctx, enum memdisk_call how)
{
    struct bench *b = ctx;

    assert_true((size_t)b->seen_count < COUNT(b->seen));
    b->seen[b->seen_count] = how;
    b->pending[b->seen_count++] = memdisk_pending(b->disk);
}

/* What was promised without a sync is found to be missing. */
static void test_memdisk_is_looked_at_before_each_change(void **state)
{
    struct bench *b = *state;

    memdisk_watch(b->disk, note_change, b);
    fill(b, 0, 'a');
    sync_all(b);
    assert_int_equal(resize(b, 512), SQLITE_OK);
    memdisk_watch(b->disk, NULL, NULL);
    fill(b, 0, 'b');
    assert_int_equal(b->seen_count, 3);
    assert_int_equal(b->seen[0], MEMDISK_WRITE);
    assert_int_equal(b->pending[0], 1); /* it was made */
    assert_int_equal(b->seen[1], MEMDISK_SYNC);
    assert_int_equal(b->pending[1], 2);
    assert_int_equal(b->seen[2], MEMDISK_SIZE);
    assert_int_equal(b->pending[2], 0);
    assert_int_equal(memdisk_changes(b->disk), 5);
}

static void test_memdisk_fails_once_or_for_good(void **state)
{
    struct bench *b = *state;

    memdisk_fail(b->disk, MEMDISK_WRITE, 2, SQLITE_IOERR_WRITE, 0, 0);
    assert_int_equal(fill_block(b, 0, 'a'), SQLITE_OK);
    assert_int_equal(sync_file(b), SQLITE_OK);
    assert_int_equal(fill_block(b, 0, 'b'), SQLITE_IOERR_WRITE);
    look(b, b->disk);
    assert_int_equal(sectors(b, 0, 'a'), SECTORS);
    assert_int_equal(fill_block(b, 0, 'b'), SQLITE_OK);
    memdisk_fail(b->disk, MEMDISK_ANY, 1, SQLITE_IOERR_FSYNC, 1, 0);
    assert_int_equal(sync_file(b), SQLITE_IOERR_FSYNC);
    assert_int_equal(sync_file(b), SQLITE_IOERR_FSYNC);
    memdisk_fail(b->disk, MEMDISK_ANY, 0, 0, 0, 0);
    assert_int_equal(memdisk_pending(b->disk), 1);
    assert_int_equal(sync_file(b), SQLITE_OK);
    assert_int_equal(memdisk_calls(b->disk, MEMDISK_WRITE), 3);
    assert_int_equal(memdisk_calls(b->disk, MEMDISK_SYNC), 4);
}

static void test_memdisk_write_that_fails_may_be_half_done(void **state)
{
    struct bench *b = *state;

    fill(b, 0, 'a');
    memdisk_fail(b->disk, MEMDISK_WRITE, 1, SQLITE_FULL, 0, 1);
    assert_int_equal(fill_block(b, 0, 'b'), SQLITE_FULL);
    look(b, b->disk);
    assert_int_equal(sectors(b, 0, 'a'), SECTORS / 2);
    assert_int_equal(sectors(b, 0, 'b'), SECTORS / 2);
}

static void test_memdisk_has_room_for_so_much(void **state)
{
    struct bench *b = *state;

    memdisk_put(b->disk, "other", "0123456789", 10);
    memdisk_room(b->disk, 10 + BLOCK + 512);
    fill(b, 0, 'a');
    assert_int_equal(fill_block(b, 1, 'b'), SQLITE_FULL);
    look(b, b->disk);
    assert_int_equal(b->len, BLOCK + 512);
    fill(b, 0, 'c');
    assert_int_equal(resize(b, 2 * BLOCK), SQLITE_IOERR_TRUNCATE);
    memdisk_put(b->disk, "other", NULL, 0);
    assert_int_equal(resize(b, BLOCK + 522), SQLITE_OK);
    memdisk_room(b->disk, 0);
    fill(b, 1, 'b');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_memdisk_file_that_was_never_synced_may_be_gone),
        TEST_IN(test_memdisk_what_was_synced_stays),
        TEST_IN(test_memdisk_undoes_writes_that_lie_over_each_other),
        TEST_IN(test_memdisk_last_write_is_torn_by_sectors),
        TEST_IN(test_memdisk_unsynced_writes_are_left_in_any_order),
        TEST_IN(test_memdisk_cut_is_the_same_again),
        TEST_IN(test_memdisk_unsynced_truncation_may_be_undone),
        TEST_IN(test_memdisk_unsynced_deletion_may_be_undone),
        TEST_IN(test_memdisk_first_sync_of_a_journal_syncs_deletions),
        TEST_IN(test_memdisk_that_lies_has_synced_nothing),
        TEST_IN(test_memdisk_copy_has_what_a_cut_may_take_back),
        TEST_IN(test_memdisk_is_looked_at_before_each_change),
        TEST_IN(test_memdisk_fails_once_or_for_good),
        TEST_IN(test_memdisk_write_that_fails_may_be_half_done),
        TEST_IN(test_memdisk_has_room_for_so_much),
    };

    memdisk_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
