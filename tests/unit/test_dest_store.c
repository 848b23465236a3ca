/* SPDX-License-Identifier: MIT */
/* Destinations come and go, and each ledger is exact from its first moment. */
#include "dest_store.h"

#include "limit_store.h"
#include "profile_store.h"
#include "purge_store.h"
#include "schema.h"
#include "sound.h"
#include "status_store.h"
#include "store_world.h"

static int set_up(void **state)
{
    (void)world_open(state);
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    assert_sound(&w->t);
    return world_close(state);
}

/* count rows of 10 bytes: a topic of 1, a payload of 9. */
static void put(struct world *w, int count, int priority)
{
    sql_run(w->t.app,
        "INSERT INTO outbox(topic, payload, priority)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < %d)"
        " SELECT 't', '123456789', %d FROM n",
        count, priority);
}

/* Main has delivered everything, as a relay with keep_s writes it. */
static void deliver_all(struct world *w)
{
    sql_run(w->t.app,
        "UPDATE outbox_cursor SET acked = (SELECT max(seq) FROM outbox),"
        " sent_hi = (SELECT max(seq) FROM outbox),"
        " settled_rows = n, delivered = n, settled_bytes = 10 * n FROM"
        "  (SELECT lane AS l, (SELECT count(*) FROM outbox"
        "    WHERE priority = lane) AS n FROM outbox_cursor WHERE dest='main')"
        " WHERE dest = 'main' AND lane = l;"
        "INSERT INTO outbox_acks SELECT 'main', lane, acked, 1, zeroblob(16), 1"
        " FROM outbox_cursor WHERE dest = 'main'");
}

static struct postbag_status status(struct world *w, const char *dest)
{
    static const struct moment now;
    struct postbag_status s = {0};

    assert_ok(postbag__status_read(&w->db, dest, &now, &s));
    assert_int_equal(s.ledger_gap, 0);
    return s;
}

static struct postbag_pressure pressure(struct world *w)
{
    struct postbag_pressure p = {0};
    struct stmt s;

    assert_ok(postbag__pressure_prepare(&w->db, &s));
    assert_ok(postbag__pressure_read(&s, &p));
    postbag__finalize(&s);
    return p;
}

/* ---- adding ---- */

static void test_dest_from_now_gets_nothing_of_what_is_there(void **state)
{
    struct world *w = *state;
    struct postbag_status s;

    put(w, 300, 0);
    put(w, 5, 2);
    assert_ok(postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_NOW));
    s = status(w, "cloud");
    assert_int_equal(s.pending, 0);
    assert_int_equal(s.pending_bytes, 0);
    assert_int_equal(s.passed, 305);
    assert_string_equal(
        sql_text(w->t.app, "SELECT DISTINCT state FROM outbox_status"
                           " WHERE dest = 'cloud'"),
        "passed");
    put(w, 2, 3);
    s = status(w, "cloud");
    assert_int_equal(s.pending, 2);
    assert_int_equal(s.pending_bytes, 20);
}

/* The running total that is written next counts rows that are settled here. */
static void test_dest_from_now_stays_exact_over_the_next_total(void **state)
{
    struct world *w = *state;
    struct postbag_status s;

    put(w, 100, 0);
    assert_ok(postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_NOW));
    put(w, 500, 1);
    s = status(w, "cloud");
    assert_int_equal(s.pending, 500);
    assert_int_equal(s.pending_bytes, 5000);
}

static void test_dest_from_now_in_an_empty_log_gets_the_first(void **state)
{
    struct world *w = *state;

    assert_ok(postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_NOW));
    put(w, 1, 0);
    assert_int_equal(status(w, "cloud").pending, 1);
}

/* What keep_s keeps is delivered; it waits again for who asks for it. */
static void test_dest_beside_kept_rows_waits_only_as_asked(void **state)
{
    struct limits l = {.max_rows = 57}; /* 50 for bulk */
    struct world *w = *state;

    assert_ok(postbag__limits_set(&w->db, &l));
    put(w, 40, 0);
    put(w, 10, 1);
    deliver_all(w);
    assert_ok(postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_NOW));
    assert_int_equal(pressure(w).rows, 0);
    assert_int_equal(pressure(w).bytes, 0);
    put(w, 1, 0);
    assert_ok(postbag__dest_add(&w->db, "late", POSTBAG_FROM_OLDEST));
    assert_int_equal(status(w, "late").pending, 51);
    assert_int_equal(status(w, "late").pending_bytes, 510);
    assert_int_equal(pressure(w).rows, 51);
    sql_fails(w->t.app, "outbox is full",
        "INSERT INTO outbox(topic, payload) VALUES ('t', '')");
}

static int64_t purge(struct world *w, int64_t keep_ms)
{
    struct purge p = {.max_rows = 10000, .keep_ms = keep_ms};
    const struct moment now = {.mono_ms = 1000000};

    assert_ok(postbag__begin(&w->db, DB_NORMAL));
    assert_ok(postbag__purge(&w->db, &p, &now));
    assert_ok(postbag__commit(&w->db));
    return p.deleted;
}

/* Urgent rows may be purged before older bulk ones, which leaves a hole. */
static void test_dest_from_oldest_counts_what_is_stored(void **state)
{
    struct world *w = *state;
    struct postbag_status s;

    put(w, 100, 0);
    put(w, 100, 1);
    put(w, 100, 0);
    sql_run(w->t.app,
        "UPDATE outbox_cursor SET acked = 300, sent_hi = 300, settled_rows = "
        "100,"
        " delivered = 100, settled_bytes = 1000 WHERE lane = 1;"
        "UPDATE outbox_cursor SET acked = 10, sent_hi = 10, settled_rows = 10,"
        " delivered = 10, settled_bytes = 100 WHERE lane = 0");
    assert_int_equal(purge(w, 0), 110);
    assert_ok(postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_OLDEST));
    s = status(w, "cloud");
    assert_int_equal(s.pending, 190);
    assert_int_equal(s.pending_bytes, 1900);
    assert_int_equal(s.passed, 110);
    assert_int_equal(status(w, "main").pending, 190);
}

static void test_dest_from_now_pins_nothing_older(void **state)
{
    struct world *w = *state;

    put(w, 600, 0);
    deliver_all(w);
    assert_ok(postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_NOW));
    assert_int_equal(purge(w, 1000), 512);
}

static void test_dest_that_is_there_stays_as_it_is(void **state)
{
    struct world *w = *state;

    put(w, 3, 0);
    assert_ok(postbag__dest_add(&w->db, "main", POSTBAG_FROM_NOW));
    assert_ok(postbag__dest_add(&w->db, "main", POSTBAG_FROM_OLDEST));
    assert_int_equal(status(w, "main").pending, 3);
}

static void test_dest_name_that_fits_no_file_is_refused(void **state)
{
    static const char *const bad[] = {"", "a b", "a/b", "a'b", "\xc3\xa4",
        "12345678901234567890123456789012345678901234567890123456789012345"};
    struct world *w = *state;

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(postbag__dest_add(&w->db, bad[i], POSTBAG_FROM_NOW),
            POSTBAG_EINVAL);
        assert_has(w->db.fault.text, "name");
    }
    assert_int_equal(sql_get(w->t.app, "SELECT count(*) FROM outbox_dest"), 1);
    assert_ok(postbag__dest_add(&w->db, "A-z_0.9", POSTBAG_FROM_NOW));
}

static void test_dest_from_is_one_of_two_words(void **state)
{
    enum postbag_from from;

    (void)state;
    assert_ok(postbag__dest_from("now", &from));
    assert_int_equal(from, POSTBAG_FROM_NOW);
    assert_ok(postbag__dest_from("oldest", &from));
    assert_int_equal(from, POSTBAG_FROM_OLDEST);
    assert_int_equal(postbag__dest_from("", &from), POSTBAG_EINVAL);
    assert_int_equal(postbag__dest_from("today", &from), POSTBAG_EINVAL);
}

/* ---- removing ---- */

static void test_dest_removed_leaves_nothing_behind(void **state)
{
    struct world *w = *state;

    assert_ok(postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_NOW));
    assert_ok(
        postbag__profile_set(&w->db, "cloud", postbag_profile_find("aws")));
    sql_run(w->t.app,
        "INSERT INTO outbox(topic, payload) VALUES ('t', '');"
        "UPDATE outbox_cursor SET acked = 1, sent_hi = 1, settled_rows = 1,"
        " settled_bytes = 1, dropped = dest = 'main' WHERE lane = 0;"
        "INSERT INTO outbox_held(dest, seq, state, id, topic, payload,"
        " priority, retain, created_ms) SELECT 'cloud', seq, 'dead', id, topic,"
        " payload, 0, 0, 1 FROM outbox;"
        "INSERT INTO outbox_acks VALUES ('cloud', 0, 1, 1, NULL, NULL),"
        " ('main', 0, 1, 1, NULL, NULL);"
        "INSERT INTO outbox_late VALUES ('cloud', 0, 1, 1, 2);"
        "INSERT INTO outbox_lost VALUES ('cloud', 1, 1, 1, 1, 'ttl', 1, 1),"
        " ('main', 1, 1, 1, 1, 'ttl', 1, 1);"
        "INSERT INTO outbox_seen VALUES ('cloud', 0, 1, zeroblob(16), 1, 1),"
        " ('main', 0, 1, zeroblob(16), 1, 1)");
    assert_ok(postbag__dest_remove(&w->db, "cloud"));
    assert_int_equal(
        sql_get(w->t.app,
            "SELECT (SELECT count(*) FROM outbox_dest WHERE name <> 'main')"
            " + (SELECT count(*) FROM outbox_cursor WHERE dest <> 'main')"
            " + (SELECT count(*) FROM outbox_held)"
            " + (SELECT count(*) FROM outbox_late)"
            " + (SELECT count(*) FROM outbox_acks WHERE dest <> 'main')"
            " + (SELECT count(*) FROM outbox_lost WHERE dest <> 'main')"
            " + (SELECT count(*) FROM outbox_seen WHERE dest <> 'main')"),
        0);
    assert_string_equal(
        sql_text(w->t.app, "SELECT count(*) FROM outbox_acks"
                           " UNION ALL SELECT count(*) FROM outbox_lost"
                           " UNION ALL SELECT count(*) FROM outbox_seen"),
        "1 1 1");
    sql_run(w->t.app,
        "INSERT INTO outbox(topic, payload) VALUES ('1/2/3/4/5/6/7/8/9', '')");
    sql_fails(w->t.app, "postbag: unknown destination",
        "INSERT INTO outbox(topic, payload, dest) VALUES ('t', '', 'cloud')");
    assert_int_equal(postbag__dest_remove(&w->db, "cloud"), POSTBAG_ENOTFOUND);
}

static void test_dest_removed_gives_its_room_back(void **state)
{
    struct limits l = {.max_rows = 6}; /* 5 for bulk */
    struct world *w = *state;

    assert_ok(postbag__limits_set(&w->db, &l));
    assert_ok(postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_NOW));
    put(w, 5, 0);
    deliver_all(w);
    assert_int_equal(purge(w, 0), 0);
    assert_ok(postbag__dest_remove(&w->db, "cloud"));
    put(w, 5, 0);
    assert_int_equal(status(w, "main").pending, 5);
}

static void test_dest_removed_and_added_anew_begins_anew(void **state)
{
    struct world *w = *state;

    put(w, 4, 0);
    assert_ok(postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_OLDEST));
    assert_ok(postbag__dest_remove(&w->db, "main"));
    assert_ok(postbag__dest_add(&w->db, "main", POSTBAG_FROM_OLDEST));
    assert_int_equal(status(w, "main").pending, 4);
}

static void test_dest_the_last_one_stays(void **state)
{
    struct world *w = *state;

    assert_int_equal(postbag__dest_remove(&w->db, "main"), POSTBAG_ESTATE);
    assert_has(w->db.fault.text, "last destination");
    assert_ok(postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_NOW));
    assert_ok(postbag__dest_remove(&w->db, "main"));
    assert_int_equal(postbag__dest_remove(&w->db, "cloud"), POSTBAG_ESTATE);
    put(w, 1, 0);
    assert_int_equal(status(w, "cloud").pending, 1);
}

static void test_dest_failing_changes_nothing(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app, "CREATE TRIGGER a BEFORE INSERT ON outbox_cursor BEGIN"
                      " SELECT RAISE(ABORT, 'no'); END;"
                      "CREATE TRIGGER b BEFORE DELETE ON outbox_held BEGIN"
                      " SELECT RAISE(ABORT, 'no'); END");
    assert_int_equal(
        postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_NOW), POSTBAG_EINVAL);
    assert_int_equal(sql_get(w->t.app, "SELECT count(*) FROM outbox_dest"), 1);
    sql_run(w->t.app, "DROP TRIGGER a");
    assert_ok(postbag__dest_add(&w->db, "cloud", POSTBAG_FROM_NOW));
    put(w, 1, 0);
    sql_run(w->t.app,
        "UPDATE outbox_cursor SET acked = 1, sent_hi = 1, settled_rows = 1,"
        " settled_bytes = 10 WHERE dest = 'cloud' AND lane = 0;"
        "INSERT INTO outbox_held(dest, seq, state, id, topic, payload,"
        " priority, retain, created_ms) SELECT 'cloud', seq, 'retry', id, "
        "topic,"
        " payload, 0, 0, 1 FROM outbox");
    assert_int_equal(postbag__dest_remove(&w->db, "cloud"), POSTBAG_EINVAL);
    assert_int_equal(
        sql_get(w->t.app, "SELECT count(*) FROM outbox_cursor"), 8);
    sql_run(w->t.app, "DROP TRIGGER b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_dest_from_now_gets_nothing_of_what_is_there),
        TEST_IN(test_dest_from_now_stays_exact_over_the_next_total),
        TEST_IN(test_dest_from_now_in_an_empty_log_gets_the_first),
        TEST_IN(test_dest_beside_kept_rows_waits_only_as_asked),
        TEST_IN(test_dest_from_oldest_counts_what_is_stored),
        TEST_IN(test_dest_from_now_pins_nothing_older),
        TEST_IN(test_dest_that_is_there_stays_as_it_is),
        TEST_IN(test_dest_name_that_fits_no_file_is_refused),
        TEST_IN(test_dest_from_is_one_of_two_words),
        TEST_IN(test_dest_removed_leaves_nothing_behind),
        TEST_IN(test_dest_removed_gives_its_room_back),
        TEST_IN(test_dest_removed_and_added_anew_begins_anew),
        TEST_IN(test_dest_the_last_one_stays),
        TEST_IN(test_dest_failing_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
