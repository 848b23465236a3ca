/* SPDX-License-Identifier: MIT */
/* What is open is counted as it comes and goes, whoever writes it. */
#include "inbox_limit.h"

#include "limit_store.h"
#include "temp_db.h"

static int set_up(void **state)
{
    struct temp_db *t = calloc(1, sizeof(*t));

    temp_db_open(t);
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    temp_db_close(*state);
    free(*state);
    return 0;
}

static struct inbox_fill fill(struct temp_db *t)
{
    struct inbox_fill out;
    struct stmt s;

    assert_ok(postbag__inbox_fill_prepare(&t->db, &s));
    assert_ok(postbag__inbox_fill_read(&s, &out));
    postbag__finalize(&s);
    return out;
}

static void run(struct temp_db *t, const char *sql, int64_t rows, int64_t bytes,
    int64_t done)
{
    struct inbox_fill f;

    temp_db_run(t, sql);
    f = fill(t);
    assert_int_equal(f.rows, rows);
    assert_int_equal(f.bytes, bytes);
    assert_int_equal(temp_db_get(t, "SELECT done_rows FROM inbox_sum"), done);
}

#define PUT(id, state) \
    "INSERT INTO inbox(consumer, id, state, payload, headers, received_ms)" \
    " VALUES ('c', " id ", '" state "', 'xé', '{}', 1)"
#define SET(id, set) "UPDATE inbox SET " set " WHERE id = " id

static void test_inbox_limit_counts_what_comes_and_goes(void **state)
{
    struct temp_db *t = *state;

    run(t, PUT("1", "due"), 1, 5, 0);
    run(t, PUT("2", "deferred"), 2, 10, 0);
    run(t, PUT("3", "claimed"), 3, 15, 0);
    run(t, PUT("4", "dead"), 3, 15, 0);
    run(t, PUT("5", "done"), 3, 15, 1);
    run(t, SET("2", "state = 'due'"), 3, 15, 1);
    run(t, SET("1", "state = 'done', payload = NULL, headers = NULL"), 2, 10,
        2);
    run(t, SET("2", "state = 'dead'"), 1, 5, 2);
    run(t, SET("4", "state = 'due'"), 2, 10, 2);
    run(t, SET("2", "state = 'done', payload = NULL"), 2, 10, 3);
    run(t, SET("4", "seen = 2, attempts = 1, arrival = 99"), 2, 10, 3);
    run(t, "DELETE FROM inbox WHERE state = 'done'", 2, 10, 0);
    run(t, "DELETE FROM inbox", 0, 0, 0);
}

static void test_inbox_limit_duplicate_is_counted_once(void **state)
{
    struct temp_db *t = *state;

    run(t, PUT("1", "due"), 1, 5, 0);
    run(t, PUT("1", "due") " ON CONFLICT DO UPDATE SET seen = seen + 1", 1, 5,
        0);
    run(t, "BEGIN", 1, 5, 0);
    run(t, PUT("2", "due"), 2, 10, 0);
    run(t, "ROLLBACK", 1, 5, 0);
}

static void take(struct temp_db *t, uint32_t max_rows, uint32_t max_bytes)
{
    struct inbox_fill was;
    struct inbox_fill now;

    assert_ok(
        postbag__inbox_limits_take(&t->db, max_rows, max_bytes, &was, &now));
}

static void test_inbox_limit_not_given_stays(void **state)
{
    struct temp_db *t = *state;

    take(t, 5, 0);
    assert_int_equal(fill(t).max_rows, 5);
    assert_int_equal(fill(t).max_bytes, 67108864);
    take(t, 0, 7);
    assert_int_equal(fill(t).max_rows, 5);
    assert_int_equal(fill(t).max_bytes, 7);
    take(t, POSTBAG__NO_LIMIT, POSTBAG__NO_LIMIT);
    assert_int_equal(fill(t).max_rows, 0);
    assert_int_equal(fill(t).max_bytes, 0);
}

static void test_inbox_limit_that_is_so_already_writes_nothing(void **state)
{
    struct temp_db *t = *state;
    uint32_t commits = t->db.commits;

    take(t, 100000, 67108864);
    take(t, 0, 0);
    assert_int_equal(t->db.commits, commits);
}

static void test_inbox_limit_without_its_row_is_told(void **state)
{
    struct temp_db *t = *state;
    struct inbox_fill was;
    struct inbox_fill now;

    temp_db_run(t, "DELETE FROM inbox_sum");
    assert_int_equal(
        postbag__inbox_limits_take(&t->db, 1, 1, &was, &now), POSTBAG_ECORRUPT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_inbox_limit_counts_what_comes_and_goes),
        TEST(test_inbox_limit_duplicate_is_counted_once),
        TEST(test_inbox_limit_not_given_stays),
        TEST(test_inbox_limit_that_is_so_already_writes_nothing),
        TEST(test_inbox_limit_without_its_row_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
