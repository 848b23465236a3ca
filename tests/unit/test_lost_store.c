/* SPDX-License-Identifier: MIT */
/* What was dropped is recorded, in few entries, and found by a seek. */
#include "lost_store.h"

#include "tempdb.h"
#include "unit.h"

struct world {
    struct tempdb t;
    struct db db;
    struct lost_store l;
};

static int set_up(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    tempdb_make_outbox(&w.t);
    assert_ok(postbag__db_open(&w.db, w.t.path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__lost_open(&w.l, &w.db, "main"));
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    postbag__lost_close(&w->l);
    postbag__db_close(&w->db);
    tempdb_remove(&w->t);
    return 0;
}

/* All rows of the range, 10 bytes each. */
static void note(struct world *w, int64_t lo, int64_t hi, const char *reason)
{
    const struct lost lost = {
        .lo = lo, .hi = hi, .n = hi - lo + 1, .bytes = 10 * (hi - lo + 1)};

    assert_ok(postbag__lost_note(&w->l, &lost, reason, hi));
}

static const char *entries(struct world *w)
{
    return sql_text(w->t.app, "SELECT dest, lo, hi, n, bytes, reason, at_ms"
                              " FROM outbox_lost ORDER BY dest, lo");
}

static void test_lost_rows_that_follow_are_one_entry(void **state)
{
    struct world *w = *state;

    note(w, 3, 3, "ttl");
    note(w, 4, 6, "ttl");
    note(w, 7, 7, "ttl");
    assert_string_equal(entries(w), "main|3|7|5|50|ttl|7");
}

static void test_lost_entry_grows_though_others_came_between(void **state)
{
    struct world *w = *state;

    note(w, 3, 3, "ttl");
    note(w, 9, 9, "ttl");
    note(w, 4, 4, "ttl");
    assert_string_equal(entries(w), "main|3|4|2|20|ttl|4 main|9|9|1|10|ttl|9");
}

static void test_lost_rows_apart_or_for_another_reason_are_their_own(
    void **state)
{
    struct world *w = *state;
    struct lost_store cloud;
    const struct lost lost = {.lo = 5, .hi = 5, .n = 1, .bytes = 1};

    note(w, 1, 1, "ttl");
    note(w, 3, 3, "ttl");
    note(w, 4, 4, "discarded");
    assert_ok(postbag__lost_open(&cloud, &w->db, "cloud"));
    assert_ok(postbag__lost_note(&cloud, &lost, "discarded", 8));
    postbag__lost_close(&cloud);
    assert_string_equal(entries(w),
        "cloud|5|5|1|1|discarded|8 main|1|1|1|10|ttl|1 main|3|3|1|10|ttl|3"
        " main|4|4|1|10|discarded|4");
}

/* As two lanes that skip the same stretch of the log. */
static void test_lost_range_that_comes_again_adds_to_its_entry(void **state)
{
    struct world *w = *state;

    note(w, 3, 6, "detached");
    note(w, 3, 6, "detached");
    assert_string_equal(entries(w), "main|3|6|8|80|detached|6");
}

/* Others were delivered in between, and must not be taken for dropped. */
static void test_lost_rows_with_others_between_them_are_summed_up(void **state)
{
    struct world *w = *state;
    const struct lost apart = {.lo = 2, .hi = 6, .n = 3, .bytes = 30};

    note(w, 1, 1, "coalesced");
    assert_ok(postbag__lost_note(&w->l, &apart, "coalesced", 6));
    note(w, 7, 7, "coalesced");
    note(w, 8, 8, "coalesced");
    assert_ok(postbag__lost_note(&w->l, &apart, "coalesced", 5));
    assert_string_equal(
        sql_text(w->t.app, "SELECT lo, hi, n, bytes, at_ms, exact"
                           " FROM outbox_lost ORDER BY lo"),
        "1|1|1|10|1|1 2|6|6|60|6|0 7|8|2|20|8|1");
}

/* ---- no more than so many ---- */

static const char *exact(struct world *w)
{
    return sql_text(w->t.app,
        "SELECT count(*), min(lo), max(hi), sum(n), (SELECT losses"
        "  FROM outbox_cursor WHERE dest = 'main' AND lane = 0)"
        " FROM outbox_lost WHERE dest = 'main' AND exact");
}

static const char *sums(struct world *w)
{
    return sql_text(w->t.app, "SELECT lo, hi, n, bytes, reason, at_ms"
                              " FROM outbox_lost WHERE NOT exact ORDER BY lo");
}

static void test_lost_beyond_the_most_the_oldest_are_summed_up(void **state)
{
    struct world *w = *state;

    for (int64_t i = 1; i <= POSTBAG__LOST_MOST; i++)
        note(w, 2 * i, 2 * i, i % 10 == 0 ? "ttl" : "dead_overflow");
    assert_string_equal(exact(w), "1000|2|2000|1000|1000");
    assert_string_equal(sums(w), "");
    for (int64_t i = POSTBAG__LOST_MOST + 1; i <= 3000; i++)
        note(w, 2 * i, 2 * i, i % 10 == 0 ? "ttl" : "dead_overflow");
    assert_string_equal(exact(w), "1000|4002|6000|1000|1000");
    assert_string_equal(sums(w),
        "2|3998|1800|18000|dead_overflow|3998 20|4000|200|2000|ttl|"
        "4000");
    assert_int_equal(
        sql_get(w->t.app, "SELECT sum(bytes) FROM outbox_lost"), 30000);
}

/* By their place in the log, which is what tells whether one is stored. */
static void test_lost_old_row_given_up_late_is_summed_up_first(void **state)
{
    struct world *w = *state;

    for (int64_t i = 1; i <= POSTBAG__LOST_MOST; i++)
        note(w, 100 + 2 * i, 100 + 2 * i, "ttl");
    note(w, 7, 7, "discarded");
    assert_string_equal(exact(w), "1000|102|2100|1000|1000");
    assert_string_equal(sums(w), "7|7|1|10|discarded|7");
}

static void test_lost_one_destination_leaves_the_others_alone(void **state)
{
    struct world *w = *state;
    struct lost_store cloud;
    const struct lost lost = {.lo = 1, .hi = 1, .n = 1, .bytes = 1};

    sql_run(w->t.app, "INSERT INTO outbox_dest(name) VALUES ('cloud');"
                      "INSERT INTO outbox_cursor(dest, lane) SELECT 'cloud',"
                      " lane FROM outbox_cursor WHERE dest = 'main'");
    assert_ok(postbag__lost_open(&cloud, &w->db, "cloud"));
    assert_ok(postbag__lost_note(&cloud, &lost, "ttl", 1));
    postbag__lost_close(&cloud);
    for (int64_t i = 1; i <= POSTBAG__LOST_MOST + 1; i++)
        note(w, 2 * i, 2 * i, "ttl");
    assert_string_equal(
        sql_text(w->t.app, "SELECT dest, count(*), sum(exact) FROM outbox_lost"
                           " GROUP BY dest"),
        "cloud|1|1 main|1001|1000");
    assert_string_equal(
        sql_text(w->t.app, "SELECT dest, losses FROM outbox_cursor"
                           " WHERE losses <> 0 ORDER BY dest"),
        "cloud|1 main|1000");
}

/* As where an application's INSERT OR ... makes a trigger of a limit record
 * what it drops: its policy holds for all that follows. */
static void test_lost_is_bounded_under_any_conflict_policy(void **state)
{
    static const char *const policies[] = {"IGNORE", "REPLACE", "FAIL"};
    struct world *w = *state;

    for (int64_t i = 1; i <= POSTBAG__LOST_MOST; i++)
        note(w, 2 * i, 2 * i, "limit");
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++)
            sql_run(w->t.app,
                "INSERT OR %s INTO outbox_lost VALUES"
                " ('main', %d, %d, 1, 10, 'limit', 1, 1)",
                policies[i], 3000 + 4 * i + 2 * k, 3000 + 4 * i + 2 * k);
    assert_string_equal(exact(w), "1000|14|3010|1000|1000");
    assert_string_equal(sums(w), "2|12|6|60|limit|12");
}

static void test_lost_entry_deleted_is_not_counted(void **state)
{
    struct world *w = *state;

    note(w, 1, 1, "ttl");
    note(w, 3, 3, "ttl");
    sql_run(w->t.app, "DELETE FROM outbox_lost WHERE lo = 1");
    assert_string_equal(exact(w), "1|3|3|1|1");
}

/* Neither an append nor the view walks the table. */
static void test_lost_is_found_by_a_seek(void **state)
{
    struct world *w = *state;

    assert_has(
        sql_text(w->t.app, "EXPLAIN QUERY PLAN SELECT state, published_at"
                           " FROM outbox_status WHERE seq = 5"),
        "SEARCH l USING PRIMARY KEY (dest=? AND hi>?)");
    assert_has(sql_text(w->t.app, "EXPLAIN QUERY PLAN UPDATE outbox_lost"
                                  " SET n = 1 WHERE dest = 'main'"
                                  " AND hi = 4 AND reason = 'ttl'"),
        "USING PRIMARY KEY (dest=? AND hi=?)");
    assert_null(strstr(
        sql_text(w->t.app,
            "EXPLAIN QUERY PLAN SELECT lo FROM outbox_lost WHERE dest = 'main'"
            " AND exact ORDER BY hi, lo, reason LIMIT 1"),
        "TEMP B-TREE"));
}

static void test_lost_without_the_table_is_an_error(void **state)
{
    struct world *w = *state;
    const struct lost lost = {.lo = 5, .hi = 5, .n = 1, .bytes = 1};

    sql_run(w->t.app, "ALTER TABLE outbox_lost RENAME TO gone");
    assert_int_equal(
        postbag__lost_note(&w->l, &lost, "ttl", 1), POSTBAG_ESCHEMA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_lost_rows_that_follow_are_one_entry),
        TEST_IN(test_lost_entry_grows_though_others_came_between),
        TEST_IN(test_lost_rows_apart_or_for_another_reason_are_their_own),
        TEST_IN(test_lost_range_that_comes_again_adds_to_its_entry),
        TEST_IN(test_lost_rows_with_others_between_them_are_summed_up),
        TEST_IN(test_lost_beyond_the_most_the_oldest_are_summed_up),
        TEST_IN(test_lost_old_row_given_up_late_is_summed_up_first),
        TEST_IN(test_lost_one_destination_leaves_the_others_alone),
        TEST_IN(test_lost_is_bounded_under_any_conflict_policy),
        TEST_IN(test_lost_entry_deleted_is_not_counted),
        TEST_IN(test_lost_is_found_by_a_seek),
        TEST_IN(test_lost_without_the_table_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
