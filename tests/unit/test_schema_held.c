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

static void test_schema_held_is_not_made_twice(void **state)
{
    struct shelf *s = *state;

    assert_int_not_equal(postbag__schema_create_held(&s->db), POSTBAG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_schema_held_rows_and_bytes_are_counted_by_lane),
        TEST_IN(test_schema_held_is_found_by_seeks),
        TEST_IN(test_schema_held_is_not_made_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
