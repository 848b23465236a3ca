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
        TEST_IN(test_lost_is_found_by_a_seek),
        TEST_IN(test_lost_without_the_table_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
