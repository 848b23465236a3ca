/* SPDX-License-Identifier: MIT */
/* The table of held rows: counted by its triggers, read by its indexes. */
#include "schema_held.h"

#include "held_shelf.h"

static const char *counted(struct shelf *s)
{
    return sql_text(s->t.app,
        "SELECT held_rows, held_bytes, dead_rows, dead_bytes FROM outbox_cursor"
        " WHERE lane < 2 ORDER BY lane");
}

/* Beside the cursor, whoever changes what is held. */
static void test_schema_held_rows_and_bytes_are_counted_by_lane(void **state)
{
    struct shelf *s = *state;

    sql_run(s->t.app, "INSERT INTO outbox(topic, payload, priority)"
                      " VALUES ('\u00e9', '\u00e9\u00e9', 1)");
    hold(s, 1, "retry", 500);
    hold(s, 7, "behind", 0);
    hold(s, 7, "behind", 0);
    assert_string_equal(counted(s), "1|3|0|0 1|6|0|0");
    sql_run(s->t.app, "UPDATE outbox_held SET state = 'dead' WHERE seq = 7");
    assert_string_equal(counted(s), "1|3|0|0 0|0|1|6");
    sql_run(s->t.app, "UPDATE outbox_held SET state = 'suspect' WHERE seq = 1");
    sql_run(s->t.app, "UPDATE outbox_held SET state = 'retry' WHERE seq = 7");
    assert_string_equal(counted(s), "1|3|0|0 1|6|0|0");
    sql_run(s->t.app, "DELETE FROM outbox_held");
    assert_string_equal(counted(s), "0|0|0|0 0|0|0|0");
}

/* In whatever order they are held; row 3 has another key, 4 another lane, 5
 * none. */
static void test_schema_held_only_the_oldest_of_a_key_is_tried(void **state)
{
    static const int64_t orders[][3] = {
        {1, 2, 6}, {1, 6, 2}, {2, 1, 6}, {2, 6, 1}, {6, 1, 2}, {6, 2, 1}};
    struct shelf *s = *state;

    for (size_t i = 0; i < COUNT(orders); i++) {
        sql_run(s->t.app, "DELETE FROM outbox_held");
        for (int64_t seq = 3; seq <= 5; seq++)
            hold(s, seq, "retry", 500);
        for (size_t k = 0; k < COUNT(orders[i]); k++)
            hold(s, orders[i][k], "retry", 500);
        assert_string_equal(
            sql_text(s->t.app,
                "SELECT seq, state, due_ms FROM outbox_held ORDER BY seq"),
            "1|retry|500 2|behind|NULL 3|retry|500 4|retry|500 5|retry|500"
            " 6|behind|NULL");
    }
}

static void test_schema_held_dead_one_holds_nobody_back(void **state)
{
    struct shelf *s = *state;

    hold(s, 1, "dead", 0);
    hold(s, 6, "retry", 500);
    hold(s, 2, "dead", 0);
    assert_string_equal(states(s), "1|dead|1 2|dead|1 6|retry|1");
}

/* However much is held. */
static void test_schema_held_is_found_by_seeks(void **state)
{
    static const struct {
        const char *sql, *plan;
    } all[] = {
        {"SELECT min(due_ms) FROM outbox_held WHERE dest = 'main'"
         " AND state = 'retry' AND priority = 0 AND due_boot = x'00'",
            "outbox_held_due (dest=? AND priority=? AND due_boot=?)"},
        {"SELECT count(*) FROM outbox_held WHERE dest = 'main' AND key = 'k'"
         " AND key IS NOT NULL AND priority = 0 AND state <> 'dead'",
            "COVERING INDEX outbox_held_key (dest=? AND key=? AND priority=?)"},
        {"SELECT seq FROM outbox_held WHERE dest = 'main' AND state = 'dead'"
         " ORDER BY seq",
            "outbox_held_dead (dest=?)"},
    };
    struct shelf *s = *state;

    for (size_t i = 0; i < COUNT(all); i++)
        assert_has(sql_text(s->t.app, "EXPLAIN QUERY PLAN %s", all[i].sql),
            all[i].plan);
}

/* EXPLAIN shows no plans of triggers. */
static void test_schema_held_who_steps_back_is_found_by_seeks(void **state)
{
    struct shelf *s = *state;
    char update[1000];

    (void)snprintf(update, sizeof(update), "%s",
        sql_text(s->t.app,
            "SELECT replace(replace(replace(replace(replace("
            "substr(sql, instr(sql, 'UPDATE outbox_held')), 'NEW.dest', '?1'),"
            " 'NEW.key', '?2'), 'NEW.priority', '?3'), 'NEW.seq', '?4'), '; "
            "END',"
            " '')"
            " FROM sqlite_schema WHERE name = 'outbox_held_line'"));
    assert_has(sql_text(s->t.app, "EXPLAIN QUERY PLAN %s", update),
        "autoindex_outbox_held_1 (dest=? AND seq=?)");
}

static void test_schema_held_is_not_made_twice(void **state)
{
    struct shelf *s = *state;

    assert_int_not_equal(postbag__schema_create_held(&s->db), POSTBAG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_schema_held_rows_and_bytes_are_counted_by_lane),
        TEST_IN(test_schema_held_only_the_oldest_of_a_key_is_tried),
        TEST_IN(test_schema_held_dead_one_holds_nobody_back),
        TEST_IN(test_schema_held_is_found_by_seeks),
        TEST_IN(test_schema_held_who_steps_back_is_found_by_seeks),
        TEST_IN(test_schema_held_is_not_made_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
