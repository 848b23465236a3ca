/* SPDX-License-Identifier: MIT */
/* Our tables fit each other again, whatever of them is missing. */
#include "salvage_world.h"

static void spoil(struct world *w, const char *sql)
{
    sql_run(w->t.app,
        "DROP TRIGGER outbox_frozen; DROP TRIGGER outbox_newest;"
        "DROP TRIGGER outbox_held_in; DROP TRIGGER outbox_held_out;"
        "DROP TRIGGER outbox_held_turn; PRAGMA ignore_check_constraints=ON");
    sql_run(w->t.app, "%s", sql);
    settle_file(w);
    assert_ok(salvage(w));
    assert_saved_is_sound(w);
}

static void settle_upto(struct world *w, int seq)
{
    sql_run(w->t.app,
        "UPDATE outbox_cursor SET acked = %d, sent_hi = %d,"
        " settled_rows = %d, delivered = %d WHERE lane = 0",
        seq, seq, seq, seq);
}

#define HOLD(dest, seq, state, key) \
    "INSERT INTO outbox_held(dest, seq, state, attempts, dead_ms, id, topic," \
    " payload, key, priority, retain, created_ms) SELECT '" dest "', " seq \
    ", '" state "', 1, iif('" state "' = 'dead', 1, NULL), id, topic," \
    " payload, " key ", priority, retain, created_ms FROM outbox" \
    " WHERE seq = " seq ";"

static void test_salvage_ledger_what_was_delivered_is_not_sent_again(
    void **state)
{
    struct world *w = *state;

    put_messages(w, 30);
    settle_upto(w, 20);
    spoil(w, "SELECT 1");
    assert_int_equal(w->s.messages, 10);
    assert_int_equal(sql_get(w->out, "SELECT min(seq) FROM outbox"), 21);
    assert_int_equal(
        sql_get(w->out, "SELECT passed FROM outbox_cursor WHERE lane = 0"), 20);
}

static void test_salvage_ledger_without_a_cursor_sends_all_again(void **state)
{
    struct world *w = *state;

    put_messages(w, 30);
    settle_upto(w, 20);
    spoil(w, "DELETE FROM outbox_cursor WHERE lane = 0");
    assert_int_equal(w->s.messages, 30);
}

static void test_salvage_ledger_cursor_beyond_the_end_loses_no_put(void **state)
{
    struct world *w = *state;

    put_messages(w, 30);
    settle_upto(w, 30);
    spoil(w, "DELETE FROM outbox WHERE seq > 25");
    sql_run(w->out, "INSERT INTO outbox(topic, payload) VALUES ('new', 'x')");
    assert_int_equal(
        sql_get(w->out, "SELECT seq > (SELECT acked FROM outbox_cursor"
                        " WHERE lane = 0) FROM outbox WHERE topic = 'new'"),
        1);
}

static void test_salvage_ledger_keeps_what_is_held_and_dead(void **state)
{
    struct world *w = *state;

    put_messages(w, 30);
    settle_upto(w, 20);
    spoil(w, HOLD("main", "5", "retry", "'k'") HOLD("main", "6", "behind",
                 "'k'") HOLD("main", "7", "dead", "'z'"));
    assert_int_equal(w->s.held, 3);
    assert_string_equal(sql_text(w->out, "SELECT seq, state FROM outbox_held"),
        "5|retry 6|behind 7|dead");
}

static void test_salvage_ledger_behind_a_lost_row_is_tried(void **state)
{
    struct world *w = *state;

    put_messages(w, 30);
    settle_upto(w, 20);
    spoil(w,
        HOLD("main", "6", "behind", "'k'") HOLD("main", "8", "retry", "'k'"));
    assert_string_equal(sql_text(w->out, "SELECT seq, state FROM outbox_held"),
        "6|retry 8|behind");
}

/* It is in no cursor's way, but waits to be sent. */
static void test_salvage_ledger_held_row_comes_back_to_the_log(void **state)
{
    struct world *w = *state;

    put_messages(w, 30);
    settle_upto(w, 20);
    spoil(w, HOLD("main", "25", "retry", "'k1'") HOLD("main", "30", "retry",
                 "'k0'") "DELETE FROM outbox WHERE seq IN (25, 30)");
    assert_int_equal(
        sql_get(w->out, "SELECT count(*) FROM outbox WHERE seq IN (25, 30)"),
        2);
}

static void test_salvage_ledger_names_what_is_no_message(void **state)
{
    struct world *w = *state;

    put_messages(w, 30);
    spoil(w, "UPDATE outbox SET id = x'01' WHERE seq = 7;"
             "UPDATE outbox SET headers = '{' WHERE seq = 8;"
             "UPDATE outbox SET topic = '#' WHERE seq = 20");
    assert_int_equal(w->s.messages, 27);
    assert_int_equal(w->s.damaged, 3);
    assert_string_equal(
        sql_text(w->out, "SELECT lo, hi, n, reason FROM outbox_lost"),
        "7|8|2|damaged 20|20|1|damaged");
}

static void test_salvage_ledger_names_what_cannot_be_read(void **state)
{
    struct world *w = *state;
    uint32_t page;

    put_messages(w, 200);
    page = leaf_of(w, "outbox", 100);
    settle_file(w);
    overwrite_page(w, page, 0);
    assert_ok(salvage(w));
    assert_saved_is_sound(w);
    assert_int_equal(
        w->s.messages, 200 - sql_get(w->out, "SELECT n FROM outbox_lost"));
    assert_int_equal(
        sql_get(w->out, "SELECT 100 BETWEEN lo AND hi FROM outbox_lost"), 1);
}

static const char lost[] = "SELECT lo, hi, n, exact FROM outbox_lost";
static const char passed[] = "SELECT passed FROM outbox_cursor WHERE lane = 0";

/* Of a damaged page rows may be missing that no error tells of. */
static void test_salvage_ledger_names_what_is_missing(void **state)
{
    struct world *w = *state;

    put_messages(w, 30);
    settle_upto(w, 3);
    spoil(w, "UPDATE outbox SET id = x'01' WHERE seq = 20;"
             "UPDATE outbox SET priority = 9 WHERE seq = 5;"
             "DELETE FROM outbox WHERE seq IN (2, 10, 11, 21)");
    assert_string_equal(sql_text(w->out, lost), "5|5|1|1 10|11|2|1 20|21|2|1");
    assert_int_equal(sql_get(w->out, passed), 3);
}

/* With or without damage elsewhere. */
static void test_salvage_ledger_what_was_dropped_is_not_damaged(void **state)
{
    struct world *w = *state;

    put_messages(w, 30);
    spoil(w, "UPDATE outbox SET id = x'01' WHERE seq = 20;"
             "DELETE FROM outbox WHERE seq IN (10, 11);"
             "INSERT INTO outbox_lost VALUES"
             " ('main', 10, 11, 2, 9, 'ttl', 1, 1)");
    assert_string_equal(sql_text(w->out, lost), "20|20|1|1");
}

static void test_salvage_ledger_counts_what_was_held_and_is_lost(void **state)
{
    struct world *w = *state;
    uint32_t page;

    put_messages(w, 30);
    settle_upto(w, 20);
    sql_run(w->t.app,
        HOLD("main", "5", "dead", "'k'") HOLD("main", "6", "dead", "'k'"));
    page = leaf_of(w, "outbox_held", 1);
    settle_file(w);
    overwrite_page(w, page, 0);
    assert_ok(salvage(w));
    assert_saved_is_sound(w);
    assert_string_equal(sql_text(w->out, lost), "1|20|2|0");
    assert_int_equal(sql_get(w->out, passed), 18);
}

static void test_salvage_ledger_destination_is_known_by_its_cursors(
    void **state)
{
    struct world *w = *state;
    uint32_t page;

    put_messages(w, 30);
    settle_upto(w, 20);
    page = (uint32_t)sql_get(w->t.app,
        "SELECT rootpage FROM sqlite_schema WHERE name = 'outbox_dest'");
    settle_file(w);
    overwrite_page(w, page, 0);
    assert_ok(salvage(w));
    assert_saved_is_sound(w);
    assert_int_equal(w->s.messages, 10);
}

static void test_salvage_ledger_duplicates_of_commands_stay_known(void **state)
{
    struct world *w = *state;

    sql_run(w->t.app,
        "INSERT INTO inbox(consumer, id, content_hash, state, received_ms,"
        " processed_ms) VALUES ('c', 'a', zeroblob(32), 'done', 1, 2),"
        " ('c', 'b', zeroblob(32), 'due', 1, NULL)");
    spoil(w, "UPDATE inbox_sum SET open_rows = 9, max_rows = 77");
    assert_string_equal(
        sql_text(w->out, "SELECT id, state FROM inbox"), "a|done b|due");
    assert_string_equal(sql_text(w->out, "SELECT open_rows, done_rows, max_rows"
                                         " FROM inbox_sum"),
        "1|1|77");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_salvage_ledger_what_was_delivered_is_not_sent_again),
        TEST_IN(test_salvage_ledger_without_a_cursor_sends_all_again),
        TEST_IN(test_salvage_ledger_cursor_beyond_the_end_loses_no_put),
        TEST_IN(test_salvage_ledger_keeps_what_is_held_and_dead),
        TEST_IN(test_salvage_ledger_behind_a_lost_row_is_tried),
        TEST_IN(test_salvage_ledger_held_row_comes_back_to_the_log),
        TEST_IN(test_salvage_ledger_names_what_is_no_message),
        TEST_IN(test_salvage_ledger_names_what_cannot_be_read),
        TEST_IN(test_salvage_ledger_names_what_is_missing),
        TEST_IN(test_salvage_ledger_what_was_dropped_is_not_damaged),
        TEST_IN(test_salvage_ledger_counts_what_was_held_and_is_lost),
        TEST_IN(test_salvage_ledger_destination_is_known_by_its_cursors),
        TEST_IN(test_salvage_ledger_duplicates_of_commands_stay_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
