/* SPDX-License-Identifier: MIT */
/*
 * A database with all that may be in one is sound; spoiled in one place, the
 * finding says which.
 */
#include "verify.h"

#include "limit_store.h"
#include "profile.h"
#include "profile_store.h"
#include "schema.h"
#include "tempdb.h"
#include "unit.h"

struct world {
    struct tempdb t;
    struct db db;
    char found[4096]; /* "check dest: text", each with a line feed */
    int count, stop_with;
};

/* Two destinations: rows in flight, refused ones, dead ones, dropped ones
 * below and above the cursors, urgent ones, and a purged low end. */
static const char sound[] =
    "INSERT INTO outbox(topic, payload, key, priority, dest)"
    " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
    "  SELECT i + 1 FROM n WHERE i < 600)"
    " SELECT 't', iif(i = 560, zeroblob(5000), 'xyz'),"
    "  iif(i BETWEEN 20 AND 23, 'k', NULL), iif(i IN (50, 550), 2, 0),"
    "  iif(i = 30, 'main', NULL) FROM n;"
    "INSERT INTO outbox_held(dest, seq, state, attempts, error, dead_ms, id,"
    "  topic, payload, key, priority, retain, created_ms)"
    " SELECT 'main', seq, iif(seq = 20, 'retry', iif(seq = 22, 'dead',"
    "  'behind')), 1, 'why', iif(seq = 22, 1, NULL), id, topic, payload, key,"
    "  priority, retain, created_ms FROM outbox WHERE seq BETWEEN 20 AND 23;"
    "UPDATE outbox_cursor SET acked = 300, sent_hi = 400, settled_rows = 301,"
    " settled_bytes = 1200, delivered = 292, dropped = 5"
    " WHERE dest = 'main' AND lane = 0;"
    "UPDATE outbox_cursor SET acked = 150, sent_hi = 200, settled_rows = 151,"
    " settled_bytes = 600, delivered = 148, dropped = 2, passed = 1"
    " WHERE dest = 'cloud' AND lane = 0;"
    "UPDATE outbox_cursor SET acked = 100, sent_hi = 100, settled_rows = 1,"
    " settled_bytes = 4, delivered = 1 WHERE lane = 2;"
    "INSERT INTO outbox_lost VALUES ('main', 10, 12, 3, 12, 'ttl', 1, 1),"
    " ('main', 500, 500, 1, 4, 'new', 1, 1), ('main', 580, 580, 1, 4, 'new', "
    "1, 1),"
    " ('cloud', 500, 500, 1, 4, 'new', 1, 1),"
    " ('cloud', 580, 580, 1, 4, 'new', 1, 1);"
    "DELETE FROM outbox WHERE seq <= 100 OR seq IN (500, 580);"
    "INSERT INTO outbox_acks(dest, lane, upto, at_ms)"
    " VALUES ('main', 0, 300, 1);"
    "INSERT INTO outbox_late VALUES ('main', 0, 299, 1, 2);"
    "INSERT INTO inbox(consumer, id, state, received_ms, processed_ms)"
    " VALUES ('c', 1, 'due', 1, NULL), ('c', 2, 'done', 1, 2),"
    "  ('c', 3, 'dead', 1, NULL), ('c', 4, 'dead', 1, 2);";

static void run(struct world *w, const char *sql)
{
    sql_run(w->t.app, "%s", sql);
}

/* Copy a row of the log to the held rows of main. */
#define HOLD(seq) \
    "INSERT INTO outbox_held(dest, seq, state, id, topic, payload, priority," \
    " retain, created_ms) SELECT 'main', seq, 'retry', id, topic, payload," \
    " priority, retain, created_ms FROM outbox WHERE seq = " seq

static int set_up(void **state)
{
    static struct world w;
    const struct limits limits = {.max_rows = 1000};

    memset(&w, 0, sizeof(w));
    tempdb_make_outbox(&w.t);
    /* the application's: what it has not committed is seen */
    assert_ok(postbag__db_borrow(&w.db, w.t.app));
    assert_ok(postbag__schema_add_dest(&w.db, "cloud"));
    assert_ok(postbag__limits_set(&w.db, &limits));
    assert_ok(postbag__profile_set(&w.db, "main", postbag_profile_find("aws")));
    run(&w, sound);
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    postbag__db_close(&w->db);
    tempdb_remove(&w->t);
    return 0;
}

static int note(
    void *ctx, const char *check, const char *dest, const char *text)
{
    struct world *w = ctx;
    size_t used = strlen(w->found);

    (void)snprintf(w->found + used, sizeof(w->found) - used, "%s%s%s: %s\n",
        check, dest == NULL ? "" : " ", dest == NULL ? "" : dest, text);
    w->count++;
    return w->stop_with;
}

static int verify(struct world *w)
{
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .ctx = w, .finding = note};

    w->found[0] = '\0';
    w->count = 0;
    return postbag__verify(&w->db, &v);
}

static void assert_sound(struct world *w)
{
    assert_ok(verify(w));
    assert_string_equal(w->found, "");
}

/* What spoils it, a finding, and how many there are. */
struct spoiling {
    const char *sql, *finding;
    int count;
};

static void assert_found(struct world *w, const struct spoiling *s)
{
    assert_ok(verify(w));
    if (strstr(w->found, s->finding) == NULL || w->count != s->count)
        fail_msg("%s:\n%s", s->sql, w->found);
}

#define CHECK_ALL(w, list) check_all(w, list, COUNT(list))

/* Each is rolled back. */
static void check_all(struct world *w, const struct spoiling *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        run(w, "BEGIN");
        run(w, all[i].sql);
        assert_found(w, &all[i]);
        run(w, "ROLLBACK");
    }
    assert_sound(w);
}

/* ---- what may be ---- */

static void test_verify_new_database_is_sound(void **state)
{
    struct world *w = *state;
    struct tempdb empty;

    tempdb_make_outbox(&empty);
    postbag__db_close(&w->db);
    assert_ok(postbag__db_borrow(&w->db, empty.app));
    assert_sound(w);
    tempdb_remove(&empty);
}

static void test_verify_used_database_is_sound(void **state)
{
    assert_sound(*state);
}

/* A crash came between holding a row and saving the cursor behind it. */
static void test_verify_held_row_above_the_cursor_is_sound(void **state)
{
    struct world *w = *state;

    run(w, HOLD("350"));
    assert_sound(w);
}

static void test_verify_destination_that_starts_now_is_sound(void **state)
{
    struct world *w = *state;

    assert_ok(postbag__schema_add_dest(&w->db, "late"));
    assert_sound(w);
}

/* ---- what may not ---- */

static void test_verify_cursors(void **state)
{
    static const struct spoiling all[] = {
        {"DELETE FROM outbox_cursor WHERE dest = 'cloud' AND lane = 3",
            "cursor cloud: has 3 cursors, not 4\n", 1},
        {"INSERT INTO outbox_cursor(dest, lane) VALUES ('main', 4)",
            "cursor main: the cursor of lane 4 belongs to nothing\n", 1},
        {"INSERT INTO outbox_cursor(dest, lane) VALUES ('moon', 0)",
            "cursor moon: the cursor of lane 0 belongs to nothing\n", 3},
        {"UPDATE outbox_cursor SET acked = 700, sent_hi = 700"
         " WHERE dest = 'main' AND lane = 3",
            "cursor main: lane 3 is settled up to 700, but the newest row is"
            " 600\n",
            1},
        {"UPDATE outbox_cursor SET acked = 5 WHERE dest = 'main' AND lane = 3",
            "cursor main: lane 3 is settled up to 5, but only 0 was"
            " reserved\n",
            1},
        {"UPDATE outbox_dest SET first_seq = 101 WHERE name = 'cloud'",
            "cursor cloud: lane 1 is settled up to 0, but the first row of the"
            " destination is 101\n",
            2},
        {"UPDATE outbox_cursor SET passed = -1, delivered = 1"
         " WHERE dest = 'main' AND lane = 3",
            "cursor main: a counter of lane 3 is below 0\n", 1},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_ledger(void **state)
{
    static const struct spoiling all[] = {
        {"UPDATE outbox_cursor SET delivered = delivered - 1"
         " WHERE dest = 'main' AND lane = 0",
            "ledger main: 302 rows are settled and 0 replayed, but 292"
            " delivered + 4 held or dead + 5 dropped + 0 passed make 301\n",
            1},
        {"DELETE FROM outbox_held WHERE seq = 22",
            "ledger main: 302 rows are settled and 0 replayed, but 293"
            " delivered + 3 held",
            1},
        {"DELETE FROM outbox WHERE seq = 450",
            "ledger cloud: of 600 rows put 152 are settled, which leaves 448,"
            " but 447 stand above the cursors\n",
            4},
        {"DELETE FROM outbox WHERE seq = 570",
            "ledger main: of 600 rows put 302 are settled, which leaves 298,"
            " but 297 stand above the cursors\n",
            2},
        {"DELETE FROM outbox WHERE seq = 550",
            "ledger main: of 600 rows put 302 are settled, which leaves 298,"
            " but 297 stand above the cursors\n",
            4},
        {"UPDATE outbox_cursor SET settled_bytes = settled_bytes + 1"
         " WHERE dest = 'main' AND lane = 0",
            "ledger main: of 7393 bytes put 1205 are settled, which leaves"
            " 6188, but 6189 stand above the cursors\n",
            1},
        {"DELETE FROM outbox_lost WHERE lo = 10",
            "ledger main: 5 rows are counted as dropped, outbox_lost tells of"
            " 2\n",
            1},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_lost(void **state)
{
    static const struct spoiling all[] = {
        {"UPDATE outbox_lost SET hi = 9 WHERE lo = 10",
            "lost main: rows 10 to 9, reason ttl: 3 messages and 12 bytes"
            " cannot be\n",
            1},
        {"UPDATE outbox_lost SET n = 4 WHERE lo = 10", "lost main: rows 10", 2},
        {"UPDATE outbox_lost SET lo = 0 WHERE lo = 10", "lost main: rows 0", 1},
        {"UPDATE outbox_lost SET hi = 601 WHERE lo = 580 AND dest = 'main'",
            "lost main: rows 580 to 601", 1},
        {"UPDATE outbox_lost SET bytes = -1 WHERE lo = 10", "-1 bytes", 1},
        {"INSERT INTO outbox_lost VALUES ('main', 1, 1, 0, 0, 'new', 1, 1)",
            "lost main: rows 1 to 1, reason new: 0 messages", 1},
        {"UPDATE outbox_cursor SET losses = 1 WHERE lane = 2", "counts 1", 2},
        /* what is summed up may have been sent and dropped once more */
        {"UPDATE outbox_lost SET exact = 0, n = 4 WHERE lo = 10;"
         "UPDATE outbox_cursor SET losses = 2, dropped = 6, delivered = 291"
         " WHERE settled_rows = 301",
            "", 0},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_totals(void **state)
{
    static const struct spoiling all[] = {
        {"UPDATE outbox_sum SET bytes = bytes - 8 WHERE seq >= 512",
            "total: rows 257 to 512 have 1020 bytes, the totals differ by"
            " 1016\n",
            3},
        {"UPDATE outbox_sum SET bytes = bytes + 1 WHERE seq = 560",
            "total: rows 513 to 560 have 5189 bytes, the totals differ by"
            " 5190\n",
            3},
        {"DELETE FROM outbox_sum WHERE seq = 256",
            "total: of the totals at each 256th row from 0 to 600 there are 1,"
            " not 2\n",
            1},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_held(void **state)
{
    static const struct spoiling all[] = {
        {"UPDATE outbox_held SET priority = 5 WHERE seq = 22",
            "held main: row 22 of lane 5 has no cursor\n", 3},
        {"UPDATE outbox_cursor SET held_bytes = 13 WHERE held_rows > 0",
            "held main: lane 0 counts 3 held rows of 13 bytes and 1 dead of 4;"
            " there are 3 of 12 and 1 of 4\n",
            1},
        {HOLD("450"), "held main: row 450 is held, but only 400 was reserved\n",
            1},
        {HOLD("350") "; UPDATE outbox_held SET seq = 500 WHERE seq = 350;"
                     "UPDATE outbox_cursor SET sent_hi = 500",
            "held main: row 500 is above the cursor at 300, and not in the"
            " log\n",
            1},
        {HOLD("350") "; UPDATE outbox_held SET id = zeroblob(16)"
                     " WHERE seq = 350",
            "held main: row 350 is another message than in the log\n", 1},
        {"UPDATE outbox_held SET state = 'dead', dead_ms = 1 WHERE seq = 20",
            "held main: row 21 waits behind a row of its key, but there is"
            " none\n",
            1},
        {"UPDATE outbox_held SET state = 'retry' WHERE seq = 23",
            "held main: row 23 is tried while an older row of its key"
            " waits\n",
            1},
        {"UPDATE outbox_held SET dead_ms = NULL WHERE seq = 22",
            "held main: row 22 is dead, and dead_ms says otherwise\n", 1},
        {"UPDATE outbox_held SET dead_ms = 1 WHERE seq = 20",
            "held main: row 20 is retry, and dead_ms says otherwise\n", 1},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_replays(void **state)
{
    static const struct spoiling all[] = {
        {HOLD("200") "; UPDATE outbox_cursor SET replayed = 2"
                     " WHERE dest = 'main' AND lane = 0",
            "ledger main: 302 rows are settled and 2 replayed, but 293"
            " delivered + 5 held or dead + 5 dropped + 0 passed make 303\n",
            1},
        {HOLD("350") "; UPDATE outbox_held SET replay = 1 WHERE seq = 350",
            "held main: row 350 is replayed, but was never settled\n", 1},
    };
    struct world *w = *state;

    CHECK_ALL(w, all);
    run(w, HOLD("200") "; UPDATE outbox_held SET replay = 1 WHERE seq = 200;"
                       "UPDATE outbox_cursor SET replayed = 1"
                       " WHERE dest = 'main' AND lane = 0");
    assert_sound(w);
}

static void test_verify_acks_inbox_and_stream(void **state)
{
    static const struct spoiling all[] = {
        {"UPDATE outbox_acks SET upto = 301",
            "acks main: row 301 of lane 0 was acknowledged, but the cursor is"
            " at 300\n",
            1},
        {"INSERT INTO outbox_acks VALUES ('main', 0, 50, 1, zeroblob(16), 9),"
         " ('main', 0, 60, 1, zeroblob(16), 8)",
            "acks main: rows 50 and 60 of lane 0 were acknowledged in one boot"
            " at 9 ms and, later, at 8 ms\n",
            1},
        {"UPDATE outbox_late SET seq = 302", "late main: row 302 of lane 0", 1},
        {"UPDATE inbox SET processed_ms = NULL WHERE state = 'done'",
            "inbox: command 2 is done, seen 1 times after 0 attempts,"
            " processed_ms NULL\n",
            1},
        {"UPDATE inbox SET processed_ms = 7 WHERE state = 'due'",
            "inbox: command 1 is due", 1},
        {"UPDATE inbox SET seen = 0 WHERE id = 3", "dead, seen 0 times", 1},
        {"UPDATE inbox SET attempts = -1 WHERE id = 4", "after -1 attempts", 1},
        {"UPDATE outbox_meta SET value = zeroblob(15) WHERE key = 'stream'",
            "meta: stream is not 16 bytes\n", 1},
        {"DELETE FROM outbox_meta WHERE key = 'stream'",
            "meta: stream is not 16 bytes\n", 1},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_definitions(void **state)
{
    static const struct spoiling all[] = {
        {"DROP TRIGGER outbox_newest",
            "schema: trigger outbox_newest is missing\n", 1},
        {"DROP INDEX outbox_held_due",
            "schema: index outbox_held_due is missing\n", 1},
        {"DROP VIEW outbox_status", "schema: view outbox_status is missing\n",
            1},
        {"DROP TABLE outbox_acks", "schema: table outbox_acks is missing\n", 3},
        {"DROP TABLE outbox_acks", "acks: no such table", 3},
        {"DROP TRIGGER outbox_frozen; CREATE TRIGGER outbox_frozen"
         " BEFORE UPDATE ON outbox BEGIN SELECT 1; END",
            "schema: trigger outbox_frozen is not as this library writes it\n",
            1},
        {"UPDATE outbox_meta SET value = 999 WHERE key = 'max_rows'",
            "schema: trigger outbox_limit_rows is not as this library writes "
            "it\n",
            1},
        {"UPDATE outbox_meta SET value = 0 WHERE key = 'max_rows'",
            "schema: trigger outbox_limit_rows ought to be gone\n", 1},
        {"UPDATE outbox_meta SET value = 9 WHERE key = 'max_payload'",
            "schema: trigger outbox_check is not as this library writes it\n",
            1},
        {"UPDATE outbox_dest SET profile = 'aws' WHERE name = 'cloud'",
            "schema: trigger outbox_profile_636C6F7564 is missing\n", 1},
        {"UPDATE outbox_dest SET profile = 'moon' WHERE name = 'cloud'",
            "schema cloud: there is no profile moon", 1},
    };

    CHECK_ALL(*state, all);
}

/* The application's own are none of our business. */
static void test_verify_foreign_triggers_are_left_alone(void **state)
{
    struct world *w = *state;

    run(w, "CREATE TRIGGER mine AFTER INSERT ON outbox BEGIN SELECT 1; END;"
           "CREATE INDEX my_index ON outbox(topic)");
    assert_sound(w);
}

static void test_verify_page_contents(void **state)
{
    static const struct spoiling all[] = {
        {"PRAGMA ignore_check_constraints = 1;"
         "UPDATE inbox SET state = 'odd' WHERE id = 3;"
         "PRAGMA ignore_check_constraints = 0",
            "file: CHECK constraint failed in inbox\n", 1},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_mode_of_the_file(void **state)
{
    struct world *w = *state;

    postbag__db_close(&w->db);
    run(w, "PRAGMA journal_mode = DELETE");
    assert_ok(postbag__db_open(&w->db, w->t.path, DB_READ, DB_NORMAL, 0));
    assert_ok(verify(w));
    assert_string_equal(
        w->found, "file: the database is not in WAL mode, but in delete\n");
}

/* ---- telling ---- */

static void test_verify_tells_ten_of_a_kind(void **state)
{
    struct world *w = *state;

    run(w, "INSERT INTO inbox(consumer, id, received_ms, seen)"
           " WITH RECURSIVE n(i) AS (VALUES(9) UNION ALL"
           "  SELECT i + 1 FROM n WHERE i < 30) SELECT 'c', i, 1, 0 FROM n");
    assert_ok(verify(w));
    assert_int_equal(w->count, VERIFY_MOST);
}

static void test_verify_ends_when_told(void **state)
{
    struct world *w = *state;

    run(w, "DROP TRIGGER outbox_newest; DROP TRIGGER outbox_frozen;"
           "DELETE FROM outbox_meta WHERE key = 'stream'");
    w->stop_with = 7;
    assert_int_equal(verify(w), 7);
    assert_int_equal(w->count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_verify_new_database_is_sound),
        TEST_IN(test_verify_used_database_is_sound),
        TEST_IN(test_verify_held_row_above_the_cursor_is_sound),
        TEST_IN(test_verify_destination_that_starts_now_is_sound),
        TEST_IN(test_verify_cursors),
        TEST_IN(test_verify_ledger),
        TEST_IN(test_verify_lost),
        TEST_IN(test_verify_totals),
        TEST_IN(test_verify_held),
        TEST_IN(test_verify_replays),
        TEST_IN(test_verify_acks_inbox_and_stream),
        TEST_IN(test_verify_definitions),
        TEST_IN(test_verify_foreign_triggers_are_left_alone),
        TEST_IN(test_verify_page_contents),
        TEST_IN(test_verify_mode_of_the_file),
        TEST_IN(test_verify_tells_ten_of_a_kind),
        TEST_IN(test_verify_ends_when_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
