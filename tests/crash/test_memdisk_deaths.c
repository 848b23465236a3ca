/* SPDX-License-Identifier: MIT */
/* Who dies on the disk in memory, and of what. */
#include "memdisk_bench.h"

static void test_memdisk_dead_process_changes_nothing(void **state)
{
    struct bench *b = *state;
    sqlite3_int64 size;
    char byte;

    fill(b, 0, 'a');
    memdisk_kill(b->disk, 0);
    assert_true(memdisk_is_dead(b->disk, 0));
    assert_int_equal(fill_block(b, 0, 'b'), SQLITE_IOERR);
    assert_int_equal(sync_file(b), SQLITE_IOERR);
    assert_int_equal(resize(b, 1), SQLITE_IOERR);
    assert_int_equal(
        b->file->pMethods->xRead(b->file, &byte, 1, 0), SQLITE_IOERR);
    assert_int_equal(
        b->file->pMethods->xFileSize(b->file, &size), SQLITE_IOERR);
    look(b, b->disk);
    assert_int_equal(sectors(b, 0, 'a'), SECTORS);
    assert_int_equal(memdisk_pending(b->disk), 2);
}

static int can_open(struct bench *b)
{
    sqlite3 *db;
    int rc = sqlite3_open(memdisk_path(b->disk, "b.db"), &db);

    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return rc == SQLITE_OK;
}

static void test_memdisk_dead_process_opens_nothing_until_it_is_another(
    void **state)
{
    struct bench *b = *state;

    memdisk_kill(b->disk, 0);
    assert_int_equal(can_open(b), 0);
    memdisk_process(b->disk, 1);
    assert_int_equal(can_open(b), 1);
    memdisk_process(b->disk, 0);
    assert_int_equal(can_open(b), 0);
    memdisk_revive(b->disk, 0);
    assert_int_equal(can_open(b), 1);
    assert_int_equal(sync_file(b), SQLITE_IOERR); /* opened by the old one */
}

static void count_death(void *ctx)
{
    (*(int *)ctx)++;
}

static void test_memdisk_process_dies_before_what_it_asks_for(void **state)
{
    struct bench *b = *state;
    int deaths = 0;

    memdisk_die_at(b->disk, 1, MEMDISK_WRITE, 1, count_death, &deaths);
    fill(b, 0, 'a');
    assert_int_equal(deaths, 0);
    memdisk_die_at(b->disk, 0, MEMDISK_WRITE, 2, count_death, &deaths);
    fill(b, 0, 'b');
    sync_all(b);
    assert_int_equal(deaths, 0);
    assert_int_equal(fill_block(b, 0, 'c'), SQLITE_IOERR);
    assert_int_equal(deaths, 1);
    assert_int_equal(fill_block(b, 0, 'd'), SQLITE_IOERR);
    assert_int_equal(deaths, 1);
    look(b, b->disk);
    assert_int_equal(sectors(b, 0, 'b'), SECTORS);
}

static void cut_off(void *ctx)
{
    memdisk_cut(ctx, MEMDISK_NOTHING, 0);
}

static void test_memdisk_power_is_cut_within_a_call(void **state)
{
    struct bench *b = *state;

    fill(b, 0, 'a');
    sync_all(b);
    memdisk_die_at(b->disk, -1, MEMDISK_SYNC, 1, cut_off, b->disk);
    fill(b, 0, 'b');
    fill(b, 1, 'b');
    assert_int_equal(sync_file(b), SQLITE_IOERR);
    look(b, b->disk);
    assert_int_equal(b->len, BLOCK);
    assert_int_equal(sectors(b, 0, 'a'), SECTORS);
}

static void test_memdisk_keeps_what_a_killed_process_wrote(void **state)
{
    struct bench *b = *state;

    memdisk_die_at(b->disk, 0, MEMDISK_SYNC, 1, NULL, NULL);
    fill(b, 0, 'a');
    assert_int_equal(sync_file(b), SQLITE_IOERR);
    cut(b, MEMDISK_NOTHING, 0);
    assert_int_equal(b->len, -1);
    cut(b, MEMDISK_ALL, 0);
    assert_int_equal(b->len, BLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_memdisk_dead_process_changes_nothing),
        TEST_IN(test_memdisk_dead_process_opens_nothing_until_it_is_another),
        TEST_IN(test_memdisk_process_dies_before_what_it_asks_for),
        TEST_IN(test_memdisk_power_is_cut_within_a_call),
        TEST_IN(test_memdisk_keeps_what_a_killed_process_wrote),
    };

    memdisk_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
