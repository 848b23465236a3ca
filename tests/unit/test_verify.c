/* SPDX-License-Identifier: MIT */
/* What the tables say of each other. */
#include "verify.h"

#include "verify_world.h"

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

static void test_verify_destinations_and_archives(void **state)
{
    static const struct spoiling all[] = {
        {"DELETE FROM outbox_dest", "dest: there is none\n", 13},
        {"UPDATE outbox_dest SET archived = 301 WHERE name = 'main'",
            "dest main: row 301 of lane 0 is in an archive, but not settled\n",
            1},
        {"UPDATE outbox_dest SET archived = 550 WHERE name = 'main'",
            "dest main: row 550 of lane 2 is in an archive, but not settled\n",
            2},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_rows_of_nobody(void **state)
{
    static const struct spoiling all[] = {
        {"UPDATE outbox_acks SET dest = 'moon'",
            "acks moon: 1 rows are of lane 0, which has no cursor\n", 1},
        {"UPDATE outbox_acks SET lane = 4",
            "acks main: 1 rows are of lane 4, which has no cursor\n", 1},
        {"UPDATE outbox_late SET dest = 'moon'",
            "late moon: 1 rows are of lane 0, which has no cursor\n", 1},
        {"INSERT INTO outbox_lost VALUES ('moon', 1, 1, 1, 1, 'ttl', 1, 1),"
         " ('moon', 2, 2, 1, 1, 'ttl', 1, 1)",
            "lost moon: 2 rows are of no destination\n", 1},
        {"UPDATE outbox_seen SET dest = 'moon'",
            "seen moon: 1 rows are of no destination\n", 1},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_missing_options(void **state)
{
    static const char *const keys[] = {"stream", "machine", "file",
        "max_payload", "max_bytes", "overflow", "min_free_bytes"};
    char sql[100];
    char finding[100];
    struct world *w = *state;

    for (size_t i = 0; i < COUNT(keys); i++) {
        const struct spoiling s = {sql, finding, 1};

        (void)snprintf(sql, sizeof(sql),
            "DELETE FROM outbox_meta WHERE key = '%s'", keys[i]);
        (void)snprintf(
            finding, sizeof(finding), "meta: there is no %s\n", keys[i]);
        check_all(w, &s, 1);
    }
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
        {"INSERT INTO outbox_lost VALUES ('main', 1, 1, 0, 0, 'ttl', 1, 1)",
            "lost main: rows 1 to 1, reason ttl: 0 messages", 1},
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
        {"DELETE FROM outbox_sum", "total: there is none\n", 4},
    };

    CHECK_ALL(*state, all);
}

static void test_verify_held(void **state)
{
    static const struct spoiling all[] = {
        {"UPDATE outbox_held SET priority = 5 WHERE seq = 22",
            "held main: row 22 of lane 5 has no cursor\n", 4},
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

static void test_verify_acks_and_inbox(void **state)
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
            "inbox: command 2 is done, and processed_ms is NULL\n", 1},
        {"UPDATE inbox SET state = 'claimed' WHERE state = 'done'",
            "inbox: command 2 is claimed, and processed_ms is 2\n", 1},
        {"UPDATE inbox SET processed_ms = 7 WHERE state = 'due'",
            "inbox: command 1 is due", 1},
        {"UPDATE inbox_sum SET open_rows = 7",
            "inbox: 7 open commands of 0 bytes and 1 done ones are counted;"
            " there are 1 of 0 and 1\n",
            1},
        {"UPDATE inbox_sum SET open_bytes = 7", "inbox: 1 open commands of 7",
            1},
        {"UPDATE inbox_sum SET done_rows = 7", "7 done ones are counted", 1},
        {"DELETE FROM inbox_sum", "inbox: nothing counts the commands\n", 1},
    };

    CHECK_ALL(*state, all);
}

/* Command 1 is the last one of its key. */
#define KEYED(spoil) \
    "UPDATE inbox SET key = 'k', key_version = 5 WHERE arrival = 1;" \
    "INSERT INTO inbox_key VALUES ('c', 'k', 5, 1);" spoil
#define NOT_LAST(version, key, consumer, arrival) \
    "inbox: version " version " is the last one of key '" key \
    "' and consumer '" consumer "', but command " arrival " does not say so\n"

static void test_verify_last_versions_of_keys(void **state)
{
    static const struct spoiling all[] = {
        {KEYED("UPDATE inbox_key SET last_version = 6"),
            NOT_LAST("6", "k", "c", "1"), 1},
        {KEYED("UPDATE inbox_key SET key = 'l'"), NOT_LAST("5", "l", "c", "1"),
            1},
        {KEYED("UPDATE inbox_key SET consumer = 'd'"),
            NOT_LAST("5", "k", "d", "1"), 1},
        {KEYED("UPDATE inbox_key SET arrival = 9"),
            NOT_LAST("5", "k", "c", "9"), 1},
        {KEYED("UPDATE inbox SET state = 'deferred' WHERE arrival = 1"),
            NOT_LAST("5", "k", "c", "1"), 1},
    };

    CHECK_ALL(*state, all);
    run(*state, KEYED(""));
    assert_sound(*state);
    /* it is gone, and another one waits */
    run(*state, "UPDATE inbox SET state = 'deferred' WHERE arrival = 1;"
                "UPDATE inbox_key SET arrival = 9");
    assert_sound(*state);
}

static void test_verify_page_contents(void **state)
{
    static const struct spoiling all[] = {
        {"PRAGMA ignore_check_constraints = 1;"
         "UPDATE inbox SET state = 'odd' WHERE id = '3';"
         "PRAGMA ignore_check_constraints = 0",
            "file: CHECK constraint failed in inbox\n", 1},
    };

    CHECK_ALL(*state, all);
}

/* As long as the index leaves out what it should have, rows come in. */
#define REWRITE_INDEX(from, to) \
    "PRAGMA writable_schema = 1;" \
    "UPDATE sqlite_schema SET sql = replace(sql, '" from "', '" to "')" \
    " WHERE name = 'outbox_coalesce'; PRAGMA writable_schema = RESET;"

static void test_verify_rows_that_an_index_misses(void **state)
{
    static const struct spoiling all[] = {
        {REWRITE_INDEX("IS NOT NULL",
             "IN (0)") "INSERT INTO outbox(topic, payload, coalesce) VALUES "
                       "('t', 'x', 'c');" REWRITE_INDEX(
                           "IN (0)", "IS NOT NULL"),
            " missing from index outbox_coalesce\n", 2},
    };

    CHECK_ALL(*state, all);
}

/* As a copy has it that no engine has opened. */
static void test_verify_other_journal_mode_is_sound(void **state)
{
    struct world *w = *state;

    postbag__db_close(&w->db);
    run(w, "PRAGMA journal_mode = DELETE");
    assert_ok(postbag__db_open(&w->db, w->t.path, DB_READ, DB_NORMAL, 0));
    assert_sound(w);
}

/* ---- telling ---- */

static void test_verify_tells_ten_of_a_kind(void **state)
{
    struct world *w = *state;

    run(w, "INSERT INTO inbox(consumer, id, received_ms, seen, content_hash)"
           " WITH RECURSIVE n(i) AS (VALUES(9) UNION ALL"
           "  SELECT i + 1 FROM n WHERE i < 30) SELECT 'c', '' || i, 1, 0, "
           "zeroblob(32) FROM n");
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
        TEST_IN(test_verify_destinations_and_archives),
        TEST_IN(test_verify_rows_of_nobody),
        TEST_IN(test_verify_missing_options),
        TEST_IN(test_verify_ledger),
        TEST_IN(test_verify_lost),
        TEST_IN(test_verify_totals),
        TEST_IN(test_verify_held),
        TEST_IN(test_verify_replays),
        TEST_IN(test_verify_acks_and_inbox),
        TEST_IN(test_verify_last_versions_of_keys),
        TEST_IN(test_verify_page_contents),
        TEST_IN(test_verify_rows_that_an_index_misses),
        TEST_IN(test_verify_other_journal_mode_is_sound),
        TEST_IN(test_verify_tells_ten_of_a_kind),
        TEST_IN(test_verify_ends_when_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
