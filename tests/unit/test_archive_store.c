/* SPDX-License-Identifier: MIT */
/* Which rows an archive takes, and where the next one begins. */
#include "archive_store.h"

#include "tempdb.h"
#include "unit.h"

struct world {
    struct tempdb t;
    struct db db;
    struct archive_batch batch;
    char told[400];
};

/* Rows 1 to 9: 2 is dead, 3 is for another destination, 4 was dropped, 7 is
 * urgent and waits; bulk is settled up to 8. */
static int set_up(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    tempdb_make_outbox(&w.t);
    assert_ok(postbag__db_borrow(&w.db, w.t.app));
    sql_run(w.t.app,
        "INSERT INTO outbox_dest(name) VALUES ('moon');"
        "INSERT INTO outbox(topic, payload, priority, dest)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < 9)"
        " SELECT 't', 'x', iif(i = 7, 1, 0), iif(i = 3, 'moon', NULL) FROM n;"
        "INSERT INTO outbox_held(dest, seq, state, error, held_ms, dead_ms, id,"
        "  topic, payload, priority, retain, created_ms)"
        " SELECT 'main', seq, 'dead', 'why', 1, 2, id, topic, payload,"
        "  priority, retain, created_ms FROM outbox WHERE seq = 2;"
        "INSERT INTO outbox_lost VALUES ('main', 4, 4, 1, 2, 'ttl', 1, 1),"
        /* the one entry for all coalesced rows names none that is stored */
        " ('main', 1, 9, 2, 4, 'coalesced', 0, 1);"
        "UPDATE outbox_cursor SET acked = 8, sent_hi = 9 WHERE lane = 0");
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    tempdb_remove(&w->t);
    return 0;
}

static int note(void *ctx, const struct postbag_row *row)
{
    struct world *w = ctx;
    size_t used = strlen(w->told);

    assert_int_equal(row->payload_len, 1);
    (void)snprintf(w->told + used, sizeof(w->told) - used, "%d %s|",
        (int)row->seq, postbag_row_state_name(row->state));
    return row->seq == 99 ? 5 : 0;
}

/* What is handed out, and marked. */
static const char *next(struct world *w, int64_t most)
{
    w->told[0] = '\0';
    assert_ok(postbag__archive_next(&w->db, "main", most, note, w, &w->batch));
    assert_ok(postbag__archive_mark(&w->db, "main", w->batch.upto));
    return w->told;
}

static void test_archive_takes_settled_rows_up_to_the_first_that_waits(
    void **state)
{
    struct world *w = *state;

    assert_string_equal(
        next(w, 100), "1 published|2 dead|5 published|6 published|");
    assert_int_equal(w->batch.rows, 4);
    assert_int_equal(w->batch.upto, 6);
    assert_string_equal(next(w, 100), "");
    sql_run(w->t.app, "UPDATE outbox_cursor SET acked = 7, sent_hi = 7"
                      " WHERE lane = 1");
    assert_string_equal(next(w, 100), "7 published|8 published|");
    assert_string_equal(next(w, 100), "");
    /* what comes last may be nobody's */
    sql_run(w->t.app, "UPDATE outbox_cursor SET acked = 9 WHERE lane = 0;"
                      "INSERT INTO outbox_lost"
                      " VALUES ('main', 9, 9, 1, 2, 'ttl', 1, 1)");
    assert_string_equal(next(w, 100), "");
    assert_int_equal(w->batch.upto, 9);
}

static void test_archive_goes_on_after_each_batch(void **state)
{
    struct world *w = *state;

    assert_string_equal(next(w, 2), "1 published|2 dead|");
    assert_string_equal(next(w, 2), "5 published|6 published|");
    assert_string_equal(next(w, 2), "");
}

static void test_archive_that_fails_says_so(void **state)
{
    struct world *w = *state;

    assert_int_equal(
        postbag__archive_next(&w->db, "mars", 9, note, w, &w->batch),
        POSTBAG_ENOTFOUND);
    sql_run(w->t.app,
        "DROP TRIGGER outbox_check; DROP TRIGGER outbox_frozen;"
        "INSERT INTO outbox(seq, topic, payload) VALUES (99, 't', 'x');"
        "UPDATE outbox_cursor SET acked = 99");
    assert_int_equal(
        postbag__archive_next(&w->db, "main", 9, note, w, &w->batch), 5);
}

static void test_archive_tells_of_rows_that_are_gone(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app, "DELETE FROM outbox WHERE seq <= 2");
    assert_string_equal(next(w, 100), "5 published|6 published|");
    assert_int_equal(w->batch.gone, 2);
    assert_string_equal(next(w, 100), "");
    assert_int_equal(w->batch.gone, 0);
}

static void test_archive_begins_with_the_first_of_the_destination(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app, "UPDATE outbox_dest SET first_seq = 6");
    assert_string_equal(next(w, 100), "6 published|");
    assert_int_equal(w->batch.gone, 0);
}

static void test_archive_mark_never_goes_back(void **state)
{
    struct world *w = *state;

    assert_ok(postbag__archive_mark(&w->db, "main", 6));
    assert_ok(postbag__archive_mark(&w->db, "main", 5));
    assert_int_equal(
        sql_get(w->t.app, "SELECT max(archived) FROM outbox_dest"), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_archive_takes_settled_rows_up_to_the_first_that_waits),
        TEST_IN(test_archive_goes_on_after_each_batch),
        TEST_IN(test_archive_that_fails_says_so),
        TEST_IN(test_archive_tells_of_rows_that_are_gone),
        TEST_IN(test_archive_begins_with_the_first_of_the_destination),
        TEST_IN(test_archive_mark_never_goes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
