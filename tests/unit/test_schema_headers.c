/* SPDX-License-Identifier: MIT */
/* What the guard of the outbox takes for headers, by plain SQL. */
#include <sqlite3.h>

#include "tempdb.h"
#include "unit.h"

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

static int64_t rows(struct tempdb *t)
{
    return sql_get(t->app, "SELECT count(*) FROM outbox");
}

static const struct {
    const char *headers, *message;
} guards[] = {
    {"'{\"a\":\"b\\u0000c\"}'", "a header has a control character"},
    {"'{\"a\":\"b\\tc\"}'", "a header has a control character"},
    {"'{\"a\\n\":\"b\"}'", "a header has a control character"},
    {"'[1]'", "a JSON object"},
    {"'7'", "a JSON object"},
    {"'{\"a\":{}}'", "of plain values"},
    {"'{\"a\":[1]}'", "of plain values"},
    {"'{\"a\":'", "malformed JSON"},
    {"'{\"a\":\"\\\\\\u0000\"}'", "a header has a control character"},
    {"'{\"a\\u0000\":null}'", "a header has a control character"},
    {"'{\"a\\n\":null}'", "a header has a control character"},
    {"'{\"a\":\"1\",\"a\":\"2\"}'", "two headers have the same name"},
    {"'{\"a\":null,\"\\u0061\":\"2\"}'", "two headers have the same name"},
};

static void check_guards(struct tempdb *t, const char *verb)
{
    for (size_t i = 0; i < COUNT(guards); i++)
        sql_fails(t->app, guards[i].message,
            "%s INTO outbox(topic, payload, headers) VALUES ('t', 'p', %s)",
            verb, guards[i].headers);
    assert_int_equal(rows(t), 0);
}

static void test_schema_headers_guards_name_what_is_wrong(void **state)
{
    check_guards(*state, "INSERT");
}

static void test_schema_headers_guards_speak_in_every_mode(void **state)
{
    struct tempdb *t = *state;

    check_guards(t, "INSERT OR IGNORE");
    check_guards(t, "INSERT OR REPLACE");
    sql_run(t->app, "PRAGMA trusted_schema=OFF");
    check_guards(t, "INSERT");
}

static void test_schema_headers_of_reserved_names_are_refused(void **state)
{
    static const char *const names[] = {"specversion", "id", "source", "type",
        "sequence", "partitionkey", "keyversion", "replay", "datacontenttype",
        "data", "data_base64", "\\u0069d"};
    struct tempdb *t = *state;

    for (size_t i = 0; i < COUNT(names); i++)
        sql_fails(t->app, "no header may be named specversion, id, ",
            "INSERT INTO outbox(topic, payload, headers)"
            " VALUES ('t', 'p', '{\"x\":1,\"%s\":null}')",
            names[i]);
}

/* Names that only resemble reserved ones, and attributes that are free. */
static void test_schema_headers_of_free_names_pass(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app,
        "INSERT INTO outbox(topic, payload, headers) VALUES ('t', 'p',"
        " json_object('ID', 1, 'ids', 1, 'time', 't', 'dataschema', 's'))");
    assert_int_equal(rows(t), 1);
}

/* Line ends between the tokens of JSON, and a backslash before u0000. */
static void test_schema_headers_that_look_like_control_characters_pass(
    void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "INSERT INTO outbox(topic, payload, headers)"
                    " VALUES ('t', 'p', '\r\n\t {\n\"a\":\t\"1\"\n}\n')");
    sql_run(t->app, "INSERT INTO outbox(topic, payload, headers)"
                    " VALUES ('t', 'p', '{\"path\":\"c:\\\\u0000\"}')");
    assert_int_equal(rows(t), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_schema_headers_guards_name_what_is_wrong),
        TEST_IN(test_schema_headers_guards_speak_in_every_mode),
        TEST_IN(test_schema_headers_of_reserved_names_are_refused),
        TEST_IN(test_schema_headers_of_free_names_pass),
        TEST_IN(test_schema_headers_that_look_like_control_characters_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
