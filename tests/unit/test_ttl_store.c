/* SPDX-License-Identifier: MIT */
/* What is asked of rows that may become too old, found by seeks. */
#include "ttl_store.h"

#include "tempdb.h"
#include "unit.h"

struct world {
    struct tempdb t;
    struct db db;
    struct ttl_store ttl;
};

static int set_up(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    tempdb_make_outbox(&w.t);
    assert_ok(postbag__db_open(&w.db, w.t.path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__ttl_open(&w.ttl, &w.db, "main"));
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    postbag__ttl_close(&w->ttl);
    postbag__db_close(&w->db);
    tempdb_remove(&w->t);
    return 0;
}

static void check_ahead(struct world *w, int lane, int64_t after, uint32_t most,
    const char *expected)
{
    char seqs[64] = "";
    struct ageing found;
    int err;

    postbag__ttl_ahead(&w->ttl, lane, after, most);
    while ((err = postbag__ttl_ahead_next(&w->ttl, lane, &found)) == 1) {
        size_t len = strlen(seqs);

        assert_int_equal(found.row.priority, lane);
        (void)snprintf(seqs + len, sizeof(seqs) - len, " %lld%s",
            (long long)found.row.seq, found.is_ours ? "" : "!");
    }
    assert_ok(err);
    assert_string_equal(seqs, expected);
}

static void test_ttl_rows_ahead_come_in_order_of_their_lane(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app,
        "INSERT INTO outbox_dest(name) VALUES ('cloud');"
        "INSERT INTO outbox(topic, payload, priority, dest) VALUES"
        " ('t', '', 0, NULL), ('t', '', 2, NULL), ('t', '', 0, 'cloud'),"
        " ('t', '', 2, 'main'), ('t', '', 0, 'main'), ('t', '', 1, NULL)");
    check_ahead(w, 0, 0, 9, " 1 3! 5");
    check_ahead(w, 0, 1, 1, " 3!");
    check_ahead(w, 2, 0, 9, " 2 4");
    check_ahead(w, 1, 0, 9, " 6");
    check_ahead(w, 3, 0, 9, "");
}

static void test_ttl_row_ahead_says_what_its_age_is_told_by(void **state)
{
    struct world *w = *state;
    struct ageing found;

    sql_run(w->t.app,
        "INSERT INTO outbox(topic, payload, ttl_ms, created_ms, boot, mono_ms)"
        " VALUES ('t', '', 7, 8, x'01020304050607080910111213141516', 9),"
        " ('t', '', NULL, 8, NULL, NULL)");
    postbag__ttl_ahead(&w->ttl, 0, 0, 2);
    assert_int_equal(postbag__ttl_ahead_next(&w->ttl, 0, &found), 1);
    assert_int_equal(found.row.ttl_ms, 7);
    assert_int_equal(found.row.created_ms, 8);
    assert_int_equal(found.row.boot[15], 0x16);
    assert_int_equal(found.row.mono_ms, 9);
    assert_int_equal(postbag__ttl_ahead_next(&w->ttl, 0, &found), 1);
    assert_int_equal(found.row.ttl_ms, 0);
    assert_int_equal(found.row.boot[15], 0);
    assert_int_equal(found.row.mono_ms, 0);
    postbag__ttl_ahead_end(&w->ttl, 0);
}

static void test_ttl_held_rows_that_wait_come_in_order(void **state)
{
    struct world *w = *state;
    struct ageing found = {0};

    sql_run(w->t.app,
        "INSERT INTO outbox_held(dest, seq, state, id, topic, payload,"
        " priority, retain, ttl_ms, created_ms) VALUES"
        " ('main', 1, 'dead', x'', 't', '', 0, 0, 5, 1),"
        " ('main', 2, 'retry', x'', 't', '', 0, 0, NULL, 1),"
        " ('main', 3, 'retry', x'', 't', '', 2, 0, 5, 1),"
        " ('other', 4, 'retry', x'', 't', '', 0, 0, 5, 1),"
        " ('main', 5, 'behind', x'', 't', '', 0, 0, 6, 1)");
    assert_int_equal(postbag__ttl_held(&w->ttl, 0, &found), 1);
    assert_int_equal(found.row.seq, 3);
    assert_int_equal(found.row.priority, 2);
    assert_int_equal(postbag__ttl_held(&w->ttl, 3, &found), 1);
    assert_int_equal(found.row.seq, 5);
    assert_int_equal(found.row.ttl_ms, 6);
    assert_int_equal(postbag__ttl_held(&w->ttl, 5, &found), 0);
}

static void test_ttl_newest_unstamped_row_may_not_know_its_age(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *values; /* ttl_ms, created_ms, boot, mono_ms */
        int64_t newest;
    } all[] = {
        {"NULL, 1800000000000, NULL, NULL", 0},
        {"5, 1800000000000, zeroblob(16), 1", 0},
        {"5, 1800000000000, NULL, NULL", 3},
        {"NULL, 5, zeroblob(16), 1", 3},
        {"5, 1704067199999, zeroblob(16), 1", 5},
        {"5, 1704067200000, zeroblob(16), 1", 5},
    };
    struct askers who;
    int64_t newest;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        sql_run(w->t.app,
            "INSERT INTO outbox(topic, payload, ttl_ms, created_ms, boot,"
            " mono_ms) VALUES ('t', '', %s)",
            all[i].values);
        assert_ok(postbag__ttl_unstamped(&w->ttl, &newest, &who));
        assert_int_equal(newest, all[i].newest);
        assert_int_equal(who.first_held, 0);
        assert_int_equal(who.last_held, 0);
    }
}

/* Dead ones, too. */
static void test_ttl_held_unstamped_rows_are_between_two(void **state)
{
    struct world *w = *state;
    struct askers who;
    int64_t newest;

    sql_run(w->t.app,
        "INSERT INTO outbox_held(dest, seq, state, id, topic, payload,"
        " priority, retain, ttl_ms, created_ms, mono_ms) VALUES"
        " ('main', 1, 'dead', x'', 't', '', 0, 0, NULL, 1, NULL),"
        " ('main', 2, 'dead', x'', 't', '', 0, 0, 5, 1800000000000, 1),"
        " ('main', 3, 'dead', x'', 't', '', 0, 0, 5, 1800000000000, NULL),"
        " ('main', 4, 'retry', x'', 't', '', 2, 0, 5, 1, 1),"
        " ('main', 5, 'dead', x'', 't', '', 2, 0, 5, 1, 1),"
        " ('other', 6, 'dead', x'', 't', '', 0, 0, 5, 1, NULL)");
    assert_ok(postbag__ttl_unstamped(&w->ttl, &newest, &who));
    assert_int_equal(newest, 0);
    assert_int_equal(who.first_held, 3);
    assert_int_equal(who.last_held, 5);
}

static void test_ttl_what_was_seen_is_read_as_it_was_saved(void **state)
{
    struct world *w = *state;
    static struct sightings seen, found;
    struct moment at = {.boot = {1, 2}, .mono_ms = 3, .wall_ms = 4};

    postbag__sightings_add(&seen, 10, &at);
    at.mono_ms = 5;
    postbag__sightings_add(&seen, 20, &at);
    sql_run(w->t.app, "INSERT INTO outbox_seen VALUES"
                      " ('main', 7, 1, zeroblob(16), 1, 1),"
                      " ('other', 0, 1, zeroblob(16), 1, 1)");
    assert_ok(postbag__ttl_save(&w->ttl, &seen));
    assert_ok(postbag__ttl_load(&w->ttl, &found));
    assert_int_equal(found.count, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(found.list[i].seq, seen.list[i].seq);
        assert_int_equal(found.list[i].at.mono_ms, seen.list[i].at.mono_ms);
        assert_int_equal(found.list[i].at.wall_ms, 4);
        assert_memory_equal(found.list[i].at.boot, at.boot, 16);
    }
    assert_int_equal(sql_get(w->t.app, "SELECT count(*) FROM outbox_seen"), 3);
}

static void test_ttl_queries_are_seeks(void **state)
{
    struct world *w = *state;

    assert_non_null(strstr(
        sql_text(w->t.app,
            "EXPLAIN QUERY PLAN SELECT seq FROM outbox_held WHERE dest = 'a'"
            " AND seq > 1 AND ttl_ms IS NOT NULL AND state <> 'dead'"
            " ORDER BY seq LIMIT 1"),
        "outbox_held_ttl (dest=? AND seq>?)"));
    assert_non_null(
        strstr(sql_text(w->t.app,
                   "EXPLAIN QUERY PLAN SELECT max(seq) FROM outbox"
                   " INDEXED BY outbox_unstamped WHERE ttl_ms IS NOT NULL AND "
                   "(mono_ms IS NULL OR created_ms < 1704067200000)"),
            "SEARCH outbox USING INDEX outbox_unstamped"));
    assert_non_null(
        strstr(sql_text(w->t.app,
                   "EXPLAIN QUERY PLAN SELECT min(seq) FROM outbox_held"
                   " INDEXED BY outbox_held_unstamped WHERE dest = 'a' AND"
                   " ttl_ms IS NOT NULL AND "
                   "(mono_ms IS NULL OR created_ms < 1704067200000)"),
            "outbox_held_unstamped (dest=?"));
}

#define TEST_IN(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_ttl_rows_ahead_come_in_order_of_their_lane),
        TEST_IN(test_ttl_row_ahead_says_what_its_age_is_told_by),
        TEST_IN(test_ttl_held_rows_that_wait_come_in_order),
        TEST_IN(test_ttl_newest_unstamped_row_may_not_know_its_age),
        TEST_IN(test_ttl_held_unstamped_rows_are_between_two),
        TEST_IN(test_ttl_what_was_seen_is_read_as_it_was_saved),
        TEST_IN(test_ttl_queries_are_seeks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
