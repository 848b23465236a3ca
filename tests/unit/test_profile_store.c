/* SPDX-License-Identifier: MIT */
/* A destination's profile binds every writer, in plain SQL too. */
#include "profile_store.h"

#include <sqlite3.h>

#include "schema.h"
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

static int set(struct tempdb *t, const char *dest, const char *name, char *text)
{
    const struct postbag_profile *p;
    struct db db;
    int err = postbag__db_open(&db, t->path, DB_CREATE, DB_NORMAL, 0);

    assert_ok(err);
    err = postbag__profile_named(name, &p, &db.fault);
    if (err == POSTBAG_OK)
        err = postbag__profile_set(&db, dest, p);
    if (text != NULL)
        (void)strcpy(text, db.fault.text);
    postbag__db_close(&db);
    return err;
}

static int read_name(struct tempdb *t, const char *dest, char name[32])
{
    const struct postbag_profile *p = NULL;
    struct db db;
    int err;

    assert_ok(postbag__db_open(&db, t->path, DB_WRITE, DB_NORMAL, 0));
    err = postbag__profile_read(&db, dest, &p);
    (void)snprintf(name, 32, "%s", p == NULL ? "" : p->name);
    postbag__db_close(&db);
    return err;
}

static int64_t triggers(struct tempdb *t)
{
    return sql_get(t->app, "SELECT count(*) FROM sqlite_schema"
                           " WHERE name GLOB 'outbox_profile_*'");
}

/* ---- the rules, by plain SQL ---- */

/* topic, payload, further columns; rule: NULL if it is taken */
static const struct {
    const char *profile, *topic, *payload, *retain, *rule;
} rows[] = {
    {"aws", "'a/b/c/d/e/f/g/h'", "''", "0", NULL},
    {"aws", "'a/b/c/d/e/f/g/h/'", "''", "0",
        "profile aws: topic has more than 7 slashes"},
    {"aws", "hex(zeroblob(128))", "''", "0", NULL},
    {"aws", "hex(zeroblob(128)) || 'x'", "''", "0",
        "profile aws: topic has more than 256 bytes"},
    /* 128 characters of two bytes */
    {"aws", "replace(hex(zeroblob(64)), '0', char(233))", "''", "0", NULL},
    {"aws", "replace(hex(zeroblob(64)), '0', char(233)) || 'x'", "''", "0",
        "topic has more than 256 bytes"},
    {"aws", "'$aws/rules/name/a/b/c/d/e/f/g/h'", "''", "0", NULL},
    {"aws", "'$aws/rules/name/a/b/c/d/e/f/g/h/i'", "''", "0",
        "topic has more than 7 slashes"},
    {"aws", "'$aws/rules/n/' || hex(zeroblob(128))", "''", "0", NULL},
    {"aws", "'$aws/rules/n/' || hex(zeroblob(128)) || 'x'", "''", "0",
        "topic has more than 256 bytes"},
    {"aws", "'$aws/rules/' || hex(zeroblob(128))", "''", "0", NULL},
    {"aws", "'$aws/rules/' || hex(zeroblob(128)) || 'x'", "''", "0",
        "topic has more than 256 bytes"},
    {"aws", "'t'", "zeroblob(131072 - 1024 - 1)", "1", NULL},
    {"aws", "'t'", "zeroblob(131072 - 1024)", "0",
        "profile aws: message is larger than 130048 bytes, a packet of 131072 "
        "less"},
    {"iothub", "'devices/7/messages/events/'", "''", "1", NULL},
    {"iothub", "'$iothub/twin/GET/'", "''", "0", NULL},
    {"iothub", "'telemetry'", "''", "0",
        "profile iothub: topic must begin with one of devices/,$iothub/"},
    /* without MQTT 5 bytes leave as base64, and text as it is */
    {"iothub", "'devices/'", "zeroblob((262144 - 1024 - 8) / 4 * 3)", "0",
        NULL},
    {"iothub", "'devices/'", "zeroblob((262144 - 1024 - 8) / 4 * 3 + 1)", "0",
        "profile iothub: message is larger than "},
    {"iothub", "'devices/'", "hex(zeroblob((262144 - 1024 - 8) / 2))", "0",
        NULL},
    {"iothub", "'devices/'", "hex(zeroblob((262144 - 1024 - 8) / 2)) || 'x'",
        "0", "profile iothub: message is larger than "},
    {"eventgrid", "'1/2/3/4/5/6/7/8/9/10/11/12/13/14/15'", "''", "0", NULL},
    {"eventgrid", "'1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16'", "''", "0",
        "profile eventgrid: topic has more than 14 slashes"},
    {"eventgrid", "'t'", "zeroblob(524288 - 1024 - 1)", "0", NULL},
    {"eventgrid", "'t'", "zeroblob(524288 - 1024)", "0",
        "profile eventgrid: message is larger than "},
    {"eventgrid", "'t'", "zeroblob(65536 - 1024 - 1)", "1", NULL},
    {"eventgrid", "'t'", "zeroblob(65536 - 1024)", "1",
        "profile eventgrid: retained message is larger than "},
    {"thingsboard", "'v1/devices/me/telemetry'", "''", "0", NULL},
    {"thingsboard", "'v2/t'", "''", "0", NULL},
    {"thingsboard", "'v1'", "''", "0",
        "profile thingsboard: topic must begin with one of v1/,v2/"},
    {"any", "'a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q'", "zeroblob(600000)", "1",
        NULL},
};

static void put_all(struct tempdb *t, const char *verb)
{
    static const char put[] =
        "%s INTO outbox(topic, payload, retain) VALUES (%s, %s, %s)";
    struct db db;

    /* max_payload is another rule */
    assert_ok(postbag__db_open(&db, t->path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__schema_ensure(&db, 1 << 20));
    postbag__db_close(&db);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_ok(set(t, "main", rows[i].profile, NULL));
        if (rows[i].rule == NULL)
            sql_run(t->app, put, verb, rows[i].topic, rows[i].payload,
                rows[i].retain);
        else
            sql_fails(t->app, rows[i].rule, put, verb, rows[i].topic,
                rows[i].payload, rows[i].retain);
    }
}

static void test_profile_store_rules_hold_to_the_byte(void **state)
{
    put_all(*state, "INSERT");
}

static void test_profile_store_rules_speak_under_insert_or_ignore(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "PRAGMA trusted_schema=OFF");
    put_all(t, "INSERT OR IGNORE");
}

/* The trigger and the check before a send are two forms of one rule. */
static void test_profile_store_topic_rules_are_those_of_a_send(void **state)
{
    struct tempdb *t = *state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct postbag_profile *p = postbag_profile_find(rows[i].profile);
        const struct profile_subject m = {
            .topic = sql_text(t->app, "SELECT %s", rows[i].topic)};
        struct postbag_fault why = {.text = ""};
        int err = postbag__profile_check(p, &m, &why);

        if (strcmp(rows[i].payload, "''") != 0)
            continue;
        assert_int_equal(
            err, rows[i].rule == NULL ? POSTBAG_OK : POSTBAG_EINVAL);
        assert_has(why.text, rows[i].rule == NULL ? "" : rows[i].rule);
    }
}

/* Everything that leaves counts, not the payload alone. */
static void test_profile_store_size_counts_all_columns(void **state)
{
    static const char *const columns[] = {
        "key", "type", "content_type", "headers"};
    static const char put[] =
        "INSERT INTO outbox(topic, payload, %s)"
        " VALUES ('v1/', zeroblob(65536 - 1024 - 3 - %d), '{\"a\":\"%s\"}')";
    struct tempdb *t = *state;

    assert_ok(set(t, "main", "thingsboard", NULL));
    for (size_t i = 0; i < COUNT(columns); i++) {
        sql_run(t->app, put, columns[i], 10, "12");
        sql_fails(t->app, "message is larger than 64512 bytes", put, columns[i],
            10, "123");
    }
}

static void test_profile_store_rules_bind_what_goes_there(void **state)
{
    static const char put[] =
        "INSERT INTO outbox(topic, payload, dest) VALUES ('1/2/3/4/5/6/7/8/9',"
        " '', %s)";
    struct tempdb *t = *state;

    sql_run(t->app, "INSERT INTO outbox_dest(name) VALUES ('local')");
    assert_ok(set(t, "main", "aws", NULL));
    assert_ok(set(t, "local", "any", NULL));
    sql_run(t->app, put, "'local'");
    sql_fails(t->app, "profile aws", put, "'main'");
    sql_fails(t->app, "profile aws", put, "NULL");
    assert_ok(set(t, "local", "thingsboard", NULL));
    sql_fails(t->app, "profile thingsboard", put, "'local'");
    assert_ok(set(t, "main", "any", NULL));
    sql_fails(t->app, "profile thingsboard", put, "NULL");
    sql_run(t->app, put, "'main'");
}

/* SQLite compares names of triggers without case. */
static void test_profile_store_rules_of_names_that_differ_by_case_stay(
    void **state)
{
    static const char put[] = "INSERT INTO outbox(topic, payload, dest)"
                              " VALUES ('1/2/3/4/5/6/7/8/9', '', '%s')";
    struct tempdb *t = *state;

    sql_run(t->app, "INSERT INTO outbox_dest(name) VALUES ('Main')");
    assert_ok(set(t, "main", "aws", NULL));
    assert_ok(set(t, "Main", "thingsboard", NULL));
    assert_int_equal(triggers(t), 2);
    sql_fails(t->app, "profile aws", put, "main");
    sql_fails(t->app, "profile thingsboard", put, "Main");
    assert_ok(set(t, "Main", "any", NULL));
    sql_fails(t->app, "profile aws", put, "main");
    sql_run(t->app, put, "Main");
}

/* ---- setting and reading ---- */

static void test_profile_store_is_kept_and_lifted(void **state)
{
    struct tempdb *t = *state;
    char name[32];

    assert_ok(read_name(t, "main", name));
    assert_string_equal(name, "any");
    assert_ok(set(t, "main", "aws", NULL));
    assert_ok(read_name(t, "main", name));
    assert_string_equal(name, "aws");
    assert_int_equal(triggers(t), 1);
    assert_ok(set(t, "main", "any", NULL));
    assert_ok(read_name(t, "main", name));
    assert_string_equal(name, "any");
    assert_int_equal(triggers(t), 0);
}

static void test_profile_store_set_again_writes_nothing(void **state)
{
    struct tempdb *t = *state;
    int64_t before;

    assert_ok(set(t, "main", "eventgrid", NULL));
    before = sql_get(t->app, "PRAGMA data_version");
    assert_ok(set(t, "main", "eventgrid", NULL));
    assert_int_equal(sql_get(t->app, "PRAGMA data_version"), before);
}

/* A library with other numbers made it. */
static void test_profile_store_stale_trigger_is_replaced(void **state)
{
    struct tempdb *t = *state;

    assert_ok(set(t, "main", "aws", NULL));
    sql_run(t->app, "DROP TRIGGER outbox_profile_6D61696E;"
                    "CREATE TRIGGER outbox_profile_6D61696E BEFORE INSERT ON"
                    " outbox BEGIN SELECT RAISE(ABORT, 'old'); END");
    assert_ok(set(t, "main", "aws", NULL));
    sql_run(t->app, "INSERT INTO outbox(topic, payload) VALUES ('t', '')");
}

static void test_profile_store_unknown_names_are_refused(void **state)
{
    struct tempdb *t = *state;
    char text[200];
    char name[32];

    assert_int_equal(set(t, "main", "azure", text), POSTBAG_EINVAL);
    assert_has(text, "no profile azure; there are " POSTBAG_PROFILES);
    assert_int_equal(set(t, "moon", "aws", text), POSTBAG_ENOTFOUND);
    assert_int_equal(read_name(t, "moon", name), POSTBAG_ENOTFOUND);
    assert_int_equal(set(t, "m'oon", "aws", text), POSTBAG_EINVAL);
    assert_int_equal(triggers(t), 0);
    sql_run(t->app, "UPDATE outbox_dest SET profile = 'newer'");
    assert_int_equal(read_name(t, "main", name), POSTBAG_EINVAL);
}

/* A destination's name has letters, digits, _ - and . */
static void test_profile_store_takes_every_name_of_a_destination(void **state)
{
    static const char longest[] =
        "a-b.c_d-0123456789-0123456789-0123456789-0123456789-0123456789-0";
    struct tempdb *t = *state;

    assert_int_equal(sizeof(longest) - 1, 64);
    sql_run(t->app, "INSERT INTO outbox_dest(name) VALUES ('%s')", longest);
    assert_ok(set(t, longest, "thingsboard", NULL));
    sql_fails(t->app, "profile thingsboard",
        "INSERT INTO outbox(topic, payload, dest) VALUES ('t', '', '%s')",
        longest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_profile_store_rules_hold_to_the_byte),
        TEST_IN(test_profile_store_rules_speak_under_insert_or_ignore),
        TEST_IN(test_profile_store_topic_rules_are_those_of_a_send),
        TEST_IN(test_profile_store_size_counts_all_columns),
        TEST_IN(test_profile_store_rules_bind_what_goes_there),
        TEST_IN(test_profile_store_rules_of_names_that_differ_by_case_stay),
        TEST_IN(test_profile_store_is_kept_and_lifted),
        TEST_IN(test_profile_store_set_again_writes_nothing),
        TEST_IN(test_profile_store_stale_trigger_is_replaced),
        TEST_IN(test_profile_store_unknown_names_are_refused),
        TEST_IN(test_profile_store_takes_every_name_of_a_destination),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
