/* SPDX-License-Identifier: MIT */
/* What the inbox's tables themselves guarantee, whoever writes them. */
#include "schema.h"

#include <sqlite3.h>

#include "tempdb.h"
#include "unit.h"

#define COMMAND \
    "INSERT INTO inbox(consumer, source, id, state, received_ms) VALUES "

static int set_up(void **state)
{
    static struct tempdb t;

    tempdb_make_outbox(&t);
    *state = &t;
    return 0;
}

static int tear_down(void **state)
{
    tempdb_remove(*state);
    return 0;
}

/* The constraint decides what is a duplicate, never a SELECT before. */
static void test_schema_inbox_has_an_id_once_per_consumer_and_source(
    void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, COMMAND "('a', 's', 'x', 'due', 1)");
    sql_fails(t->app, "UNIQUE constraint failed",
        COMMAND "('a', 's', 'x', 'due', 2)");
    sql_run(t->app, COMMAND "('b', 's', 'x', 'due', 3)");
    sql_run(t->app, COMMAND "('a', 'r', 'x', 'due', 4)");
    assert_int_equal(sql_get(t->app, "SELECT count(*) FROM inbox"), 3);
}

/* A text and a blob of the same bytes are two ids. */
static void test_schema_inbox_ids_keep_their_type(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, COMMAND "('a', 's', 'x', 'due', 1)");
    sql_run(t->app, COMMAND "('a', 's', x'78', 'due', 2)");
    assert_int_equal(sql_get(t->app, "SELECT count(*) FROM inbox"), 2);
}

static void test_schema_inbox_knows_five_states(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app,
        COMMAND "('a', '', 1, 'due', 1), ('a', '', 2, 'deferred', 1),"
                " ('a', '', 3, 'done', 1), ('a', '', 4, 'dead', 1),"
                " ('a', '', 6, 'claimed', 1)");
    sql_fails(
        t->app, "CHECK constraint failed", COMMAND "('a', '', 5, 'sent', 1)");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_schema_inbox_has_an_id_once_per_consumer_and_source),
        TEST(test_schema_inbox_ids_keep_their_type),
        TEST(test_schema_inbox_knows_five_states),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
