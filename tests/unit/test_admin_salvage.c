/* SPDX-License-Identifier: MIT */
/* What a salvage is asked for, refuses, and never does. */
#include <unistd.h>

#include "salvage_world.h"

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void test_admin_salvage_refuses_what_is_there(void **state)
{
    struct world *w = *state;

    settle_file(w);
    write_file(w->saved, "mine");
    assert_int_equal(salvage(w), POSTBAG_EINVAL);
    assert_has(w->why.text, "there is a file");
}

static void test_admin_salvage_needs_to_know_where_to(void **state)
{
    struct world *w = *state;
    const struct postbag_salvage nowhere = {.struct_size = sizeof(nowhere)};

    assert_int_equal(salvage_with(w, &nowhere), POSTBAG_EINVAL);
    assert_int_equal(salvage_with(w, NULL), POSTBAG_EINVAL);
}

static void test_admin_salvage_of_no_database_is_corrupt(void **state)
{
    struct world *w = *state;

    settle_file(w);
    write_file(w->t.path, "this is no database, and never was, of any kind");
    assert_int_equal(salvage(w), POSTBAG_ECORRUPT);
    assert_int_equal(w->why.code, POSTBAG_ECORRUPT);
}

/* SQLite does not open a file that is shorter than it says. */
static void test_admin_salvage_of_a_short_file_has_its_beginning(void **state)
{
    struct world *w = *state;
    uint32_t pages;

    put_messages(w, 400);
    settle_file(w);
    w->t.app = tempdb_connect(&w->t);
    pages = (uint32_t)sql_get(w->t.app, "PRAGMA page_count");
    (void)sqlite3_close(w->t.app);
    w->t.app = NULL;
    assert_int_equal(truncate(w->t.path, (off_t)(pages - 2) * 4096), 0);
    assert_ok(salvage(w));
    assert_true(w->s.messages > 200);
    assert_true(w->s.messages < 400);
    assert_saved_is_sound(w);
}

static int refuse(void *ctx, const char *name, int64_t rows, int64_t damaged,
    int64_t holes, const char *why)
{
    (void)ctx;
    (void)name;
    (void)rows;
    (void)damaged;
    (void)holes;
    (void)why;
    return 42;
}

static void test_admin_salvage_ends_when_a_callback_says_so(void **state)
{
    struct world *w = *state;
    const struct postbag_salvage how = {
        .struct_size = sizeof(how), .to = w->saved, .table = refuse};

    settle_file(w);
    assert_int_equal(salvage_with(w, &how), 42);
}

static void test_admin_salvage_out_of_a_file_that_ends_its_wal(void **state)
{
    struct world *w = *state;
    char wal[160];

    put_messages(w, 20);
    settle_file(w);
    (void)snprintf(wal, sizeof(wal), "%s-wal", w->t.path);
    write_file(wal, "this is no WAL, it is longer than the header of one");
    assert_ok(salvage(w));
    assert_int_equal(w->s.messages, 20);
}

static void test_admin_salvage_names_the_library(void **state)
{
    unsigned bug = 7;

    (void)state;
    assert_string_equal(postbag_sqlite_version(&bug), sqlite3_libversion());
    assert_true(bug <= 1);
    assert_string_equal(postbag_sqlite_version(NULL), sqlite3_libversion());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_admin_salvage_refuses_what_is_there),
        TEST_IN(test_admin_salvage_needs_to_know_where_to),
        TEST_IN(test_admin_salvage_of_no_database_is_corrupt),
        TEST_IN(test_admin_salvage_of_a_short_file_has_its_beginning),
        TEST_IN(test_admin_salvage_ends_when_a_callback_says_so),
        TEST_IN(test_admin_salvage_out_of_a_file_that_ends_its_wal),
        TEST_IN(test_admin_salvage_names_the_library),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
