/* SPDX-License-Identifier: MIT */
/* What of tables, indexes, triggers and the view is not ours. */
#include "verify_world.h"

static void test_verify_schema_definitions(void **state)
{
    static const struct spoiling all[] = {
        {"DROP TRIGGER outbox_newest",
            "schema: trigger outbox_newest is missing\n", 1},
        {"DROP INDEX outbox_held_due",
            "schema: index outbox_held_due is missing\n", 1},
        {"DROP VIEW outbox_status", "schema: view outbox_status is missing\n",
            1},
        {"DROP TABLE outbox_acks", "schema: table outbox_acks is missing\n", 5},
        {"DROP TABLE outbox_acks", "acks: no such table", 5},
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
static void test_verify_schema_foreign_triggers_are_left_alone(void **state)
{
    struct world *w = *state;

    run(w, "CREATE TRIGGER mine AFTER INSERT ON outbox BEGIN SELECT 1; END;"
           "CREATE INDEX my_index ON outbox(topic)");
    assert_sound(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_verify_schema_definitions),
        TEST_IN(test_verify_schema_foreign_triggers_are_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
