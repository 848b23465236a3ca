/* SPDX-License-Identifier: MIT */
/* Which done commands are forgotten, and when. */
#include "temp_db.h"

#include "inbox_purge.h"

#define NOW INT64_C(1800000000000)
#define HOUR INT64_C(3600000)

struct world {
    struct temp_db t;
    int64_t done_max_rows;
    struct inbox_sweep sweep;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    temp_db_open(&w->t);
    w->done_max_rows = INT64_MAX;
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    temp_db_close(&w->t);
    free(w);
    return 0;
}

static void put(struct world *w, int n, const char *rows_state, int64_t at)
{
    char sql[400];

    (void)snprintf(sql, sizeof(sql),
        "INSERT INTO inbox(consumer, id, state, received_ms, processed_ms)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < %d)"
        " SELECT 'c', randomblob(8), '%s', %lld, %lld FROM n",
        n, rows_state, (long long)at, (long long)at);
    temp_db_run(&w->t, sql);
}

/* Sweep to the end, at what the clocks say; returns how many rows went. */
static int64_t purge_at(struct world *w, struct moment now, int64_t rows)
{
    const struct inbox_purge p = {.now = now,
        .keep_ms = HOUR,
        .done_max_rows = w->done_max_rows,
        .rows = rows};
    int64_t sum = 0;
    int more = 1;

    while (more) {
        int64_t deleted;

        assert_int_equal(
            postbag__inbox_purge(&w->t.db, &w->sweep, &p, &deleted, &more),
            POSTBAG_OK);
        assert_true(deleted <= rows);
        sum += deleted;
    }
    return sum;
}

static int64_t purge(struct world *w, int64_t now, int64_t rows)
{
    const struct moment at = {.wall_ms = now, .mono_ms = 1, .boot = {1}};

    return purge_at(w, at, rows);
}

static void test_inbox_purge_old_done_rows_go(void **state)
{
    struct world *w = *state;

    put(w, 30, "done", NOW - 2 * HOUR);
    put(w, 10, "done", NOW - HOUR / 2);
    put(w, INBOX_KEEP_NEWEST, "due", NOW);
    assert_int_equal(purge(w, NOW, 7), 30);
    assert_int_equal(temp_db_get(&w->t, "SELECT min(arrival) FROM inbox"), 31);
    assert_int_equal(purge(w, NOW, 7), 0);
    assert_int_equal(purge(w, NOW + HOUR, 7), 10);
}

static void test_inbox_purge_unfinished_and_dead_rows_stay(void **state)
{
    struct world *w = *state;

    put(w, 5, "due", NOW - 2 * HOUR);
    put(w, 5, "deferred", NOW - 2 * HOUR);
    put(w, 5, "dead", NOW - 2 * HOUR);
    put(w, 5, "done", NOW - 2 * HOUR);
    put(w, INBOX_KEEP_NEWEST, "due", NOW);
    assert_int_equal(purge(w, NOW, 100), 5);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox"), 1015);
}

static void test_inbox_purge_newest_thousand_stay(void **state)
{
    struct world *w = *state;

    put(w, INBOX_KEEP_NEWEST + 1, "done", NOW - 2 * HOUR);
    assert_int_equal(purge(w, NOW, 100), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT min(arrival) FROM inbox"), 2);
}

static void test_inbox_purge_unset_clock_deletes_nothing(void **state)
{
    struct world *w = *state;

    put(w, 10, "done", 1000);
    put(w, INBOX_KEEP_NEWEST, "due", 1000);
    assert_int_equal(purge(w, 10 * HOUR, 100), 0);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox"), 1010);
    /* nor does it stamp anything with a time that is as wrong */
    assert_int_equal(
        temp_db_get(&w->t, "SELECT max(processed_ms) FROM inbox"), 1000);
}

/* Done in 1970, so nobody knows how old they are: they age from the moment
 * at which that is seen, neither at once nor never. */
static void test_inbox_purge_rows_of_unset_clock_age_from_now(void **state)
{
    struct world *w = *state;

    put(w, 10, "done", 1000);
    put(w, INBOX_KEEP_NEWEST, "due", NOW);
    assert_int_equal(purge(w, NOW, 100), 0);
    assert_int_equal(purge(w, NOW + HOUR, 100), 0);
    assert_int_equal(purge(w, NOW + HOUR + 1, 100), 10);
}

/* Ten rows, done in boot 1, 5 ms after it began, and enough that are newer. */
static void put_of_boot(struct world *w, int64_t processed_ms)
{
    put(w, 10, "done", processed_ms);
    temp_db_run(&w->t, "UPDATE inbox SET mono_ms = 5,"
                       " boot = x'01000000000000000000000000000000'");
    put(w, INBOX_KEEP_NEWEST, "due", NOW);
}

static struct moment at(uint8_t boot, int64_t mono_ms, int64_t wall_ms)
{
    const struct moment now = {
        .wall_ms = wall_ms, .mono_ms = mono_ms, .boot = {boot}};

    return now;
}

static void test_inbox_purge_a_clock_that_jumps_moves_nothing(void **state)
{
    struct world *w = *state;

    put_of_boot(w, NOW);
    assert_int_equal(purge_at(w, at(1, 6, NOW + 1000 * HOUR), 100), 0);
    /* nor does it go without one */
    assert_int_equal(purge_at(w, at(1, 5 + HOUR, NOW - HOUR), 100), 0);
    assert_int_equal(purge_at(w, at(1, 6 + HOUR, 1000), 100), 10);
}

static void test_inbox_purge_later_boot_counts_by_the_wall_clock(void **state)
{
    struct world *w = *state;

    put_of_boot(w, NOW);
    assert_int_equal(purge_at(w, at(2, 7, NOW + HOUR), 100), 0);
    assert_int_equal(purge_at(w, at(2, 7, NOW - 9 * HOUR), 100), 0);
    assert_int_equal(purge_at(w, at(2, 7, NOW + HOUR + 1), 100), 10);
}

/* Without a clock they are at least as old as the boot that is later. */
static void test_inbox_purge_later_boot_counts_itself(void **state)
{
    struct world *w = *state;

    put_of_boot(w, 1000);
    assert_int_equal(purge_at(w, at(2, HOUR, 1000), 100), 0);
    assert_int_equal(purge_at(w, at(2, HOUR + 1, 1000), 100), 10);
}

/* The time server answers: a row that was done in 1970 is an hour old. */
static void test_inbox_purge_dates_what_was_done_before_the_clock(void **state)
{
    struct world *w = *state;

    put_of_boot(w, 1000);
    assert_int_equal(purge_at(w, at(1, 5 + HOUR, NOW), 100), 0);
    assert_int_equal(temp_db_get(&w->t, "SELECT max(processed_ms) FROM inbox"
                                        " WHERE state = 'done'"),
        NOW - HOUR);
    assert_int_equal(purge_at(w, at(1, 6 + HOUR, NOW), 100), 10);
}

static void test_inbox_purge_without_work_writes_nothing(void **state)
{
    struct world *w = *state;
    struct db other;
    int64_t before = 0;
    int64_t after = 0;

    put(w, 10, "done", NOW);
    put(w, INBOX_KEEP_NEWEST, "due", NOW);
    assert_int_equal(
        postbag__db_open(&other, w->t.path, DB_WRITE, DB_NORMAL, 0),
        POSTBAG_OK);
    assert_int_equal(
        postbag__query_i64(&other, "PRAGMA data_version", &before), POSTBAG_OK);
    assert_int_equal(purge(w, NOW, 100), 0);
    assert_int_equal(
        postbag__query_i64(&other, "PRAGMA data_version", &after), POSTBAG_OK);
    assert_true(before == after);
    postbag__db_close(&other);
}

static void test_inbox_purge_busy_database_is_told_and_kept(void **state)
{
    struct world *w = *state;
    const struct inbox_purge p = {.now = {.wall_ms = NOW},
        .keep_ms = HOUR,
        .done_max_rows = w->done_max_rows,
        .rows = 100};
    struct db other;
    int64_t deleted;
    int more;

    put(w, 10, "done", NOW - 2 * HOUR);
    put(w, INBOX_KEEP_NEWEST, "due", NOW);
    assert_int_equal(
        postbag__db_open(&other, w->t.path, DB_WRITE, DB_NORMAL, 0),
        POSTBAG_OK);
    temp_db_run(&w->t, "BEGIN IMMEDIATE");
    assert_int_equal(
        postbag__inbox_purge(&other, &w->sweep, &p, &deleted, &more),
        POSTBAG_EBUSY);
    assert_int_equal(deleted, 0);
    assert_int_equal(w->sweep.from, 0);
    temp_db_run(&w->t, "ROLLBACK");
    assert_int_equal(
        postbag__inbox_purge(&other, &w->sweep, &p, &deleted, &more),
        POSTBAG_OK);
    assert_int_equal(deleted, 10);
    postbag__db_close(&other);
}

/* ---- too many ---- */

static int64_t forgotten(struct world *w)
{
    return temp_db_get(&w->t, "SELECT forgotten FROM inbox_sum");
}

static void test_inbox_purge_of_too_many_the_oldest_go(void **state)
{
    struct world *w = *state;

    put(w, 5, "dead", NOW);
    put(w, 30, "done", NOW - HOUR / 2);
    put(w, 10, "done", NOW);
    put(w, INBOX_KEEP_NEWEST, "due", NOW);
    w->done_max_rows = 40;
    assert_int_equal(purge(w, NOW, 7), 0);
    w->done_max_rows = 28;
    assert_int_equal(purge(w, NOW, 7), 12);
    assert_int_equal(temp_db_get(&w->t, "SELECT min(arrival) FROM inbox"
                                        " WHERE state = 'done'"),
        18);
    assert_int_equal(purge(w, NOW, 7), 0);
    assert_int_equal(forgotten(w), 12);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox"), 1033);
}

/* In the midst of a sweep, which has passed the oldest. */
static void test_inbox_purge_that_comes_to_be_too_much_starts_afresh(
    void **state)
{
    struct inbox_purge p = {.now = {.wall_ms = NOW},
        .keep_ms = HOUR,
        .done_max_rows = 30,
        .rows = 10};
    struct world *w = *state;
    int64_t deleted;
    int more;

    put(w, 30, "done", NOW);
    put(w, INBOX_KEEP_NEWEST, "due", NOW);
    for (int i = 0; i < 2; i++)
        assert_ok(
            postbag__inbox_purge(&w->t.db, &w->sweep, &p, &deleted, &more));
    assert_int_equal(w->sweep.from, 20);
    p.done_max_rows = 15;
    for (int i = 0; i < 2; i++)
        assert_ok(
            postbag__inbox_purge(&w->t.db, &w->sweep, &p, &deleted, &more));
    assert_int_equal(w->sweep.excess, 0);
    assert_int_equal(temp_db_get(&w->t, "SELECT min(arrival) FROM inbox"), 16);
    assert_int_equal(forgotten(w), 15);
}

static void test_inbox_purge_what_is_old_is_not_too_many(void **state)
{
    struct world *w = *state;

    put(w, 10, "done", NOW - 2 * HOUR);
    put(w, 10, "done", NOW);
    put(w, INBOX_KEEP_NEWEST, "due", NOW);
    w->done_max_rows = 8;
    assert_int_equal(purge(w, NOW, 100), 12);
    assert_int_equal(forgotten(w), 2);
}

static void test_inbox_purge_says_how_old_the_youngest_was(void **state)
{
    const struct inbox_purge p = {.now = {.wall_ms = NOW},
        .keep_ms = HOUR,
        .done_max_rows = 1,
        .rows = 100};
    struct world *w = *state;
    int64_t deleted;
    int more;

    put(w, 1, "done", NOW - 3000);
    put(w, 1, "done", NOW - 1000);
    put(w, 1, "done", NOW - 2000);
    put(w, 1, "done", NOW);
    put(w, INBOX_KEEP_NEWEST, "due", NOW);
    assert_ok(postbag__inbox_purge(&w->t.db, &w->sweep, &p, &deleted, &more));
    assert_int_equal(w->sweep.forgotten, 3);
    assert_int_equal(w->sweep.youngest_ms, 1000);
    assert_ok(postbag__inbox_purge(&w->t.db, &w->sweep, &p, &deleted, &more));
    assert_int_equal(w->sweep.forgotten, 0);
}

static void test_inbox_purge_newest_thousand_are_never_too_many(void **state)
{
    struct world *w = *state;

    put(w, INBOX_KEEP_NEWEST + 3, "done", NOW);
    w->done_max_rows = 1;
    assert_int_equal(purge(w, NOW, 100), 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_inbox_purge_old_done_rows_go),
        TEST(test_inbox_purge_unfinished_and_dead_rows_stay),
        TEST(test_inbox_purge_newest_thousand_stay),
        TEST(test_inbox_purge_unset_clock_deletes_nothing),
        TEST(test_inbox_purge_rows_of_unset_clock_age_from_now),
        TEST(test_inbox_purge_a_clock_that_jumps_moves_nothing),
        TEST(test_inbox_purge_later_boot_counts_by_the_wall_clock),
        TEST(test_inbox_purge_later_boot_counts_itself),
        TEST(test_inbox_purge_dates_what_was_done_before_the_clock),
        TEST(test_inbox_purge_without_work_writes_nothing),
        TEST(test_inbox_purge_busy_database_is_told_and_kept),
        TEST(test_inbox_purge_of_too_many_the_oldest_go),
        TEST(test_inbox_purge_that_comes_to_be_too_much_starts_afresh),
        TEST(test_inbox_purge_what_is_old_is_not_too_many),
        TEST(test_inbox_purge_says_how_old_the_youngest_was),
        TEST(test_inbox_purge_newest_thousand_are_never_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
