/* SPDX-License-Identifier: MIT */
/*
 * The tables move into a database that is in use, guard what plain SQL may
 * do, and leave alone what is not theirs.
 */
#include "schema.h"

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

static int set_up_empty(void **state)
{
    static struct tempdb t;

    tempdb_make(&t);
    t.app = tempdb_connect(&t);
    *state = &t;
    return 0;
}

/* Ensure the schema as an engine does; the fault's text if it fails. */
static int ensure(struct tempdb *t, uint32_t max_payload, char *text)
{
    struct db db;
    int err = postbag__db_open(&db, t->path, DB_CREATE, DB_NORMAL, 0);

    assert_ok(err);
    err = postbag__schema_ensure(&db, max_payload);
    if (text != NULL)
        (void)strcpy(text, db.fault.text);
    postbag__db_close(&db);
    return err;
}

static int64_t rows(struct tempdb *t)
{
    return sql_get(t->app, "SELECT count(*) FROM outbox");
}

/* ---- creation ---- */

static void test_schema_in_an_apps_database_leaves_its_tables_alone(
    void **state)
{
    struct tempdb *t = *state;
    char before[2000];
    static const char theirs[] =
        "SELECT name, sql FROM sqlite_schema WHERE name LIKE 'app%%'";

    sql_run(t->app, "CREATE TABLE app(k TEXT PRIMARY KEY, v) WITHOUT ROWID;"
                    "CREATE INDEX app_v ON app(v);"
                    "CREATE TRIGGER app_t AFTER INSERT ON app BEGIN"
                    " UPDATE app SET v = v + 1 WHERE k = 'n'; END;"
                    "INSERT INTO app VALUES ('n', 1);"
                    "PRAGMA user_version = 7; PRAGMA application_id = 9");
    (void)strcpy(before, sql_text(t->app, theirs));
    assert_ok(ensure(t, 0, NULL));
    assert_string_equal(sql_text(t->app, theirs), before);
    assert_string_equal(sql_text(t->app, "SELECT * FROM app"), "n|2");
    assert_int_equal(sql_get(t->app, "PRAGMA user_version"), 7);
    assert_int_equal(sql_get(t->app, "PRAGMA application_id"), 9);
    assert_int_equal(rows(t), 0);
}

static void test_schema_that_is_ready_is_not_written_to(void **state)
{
    struct tempdb *t = *state;
    int64_t before = sql_get(t->app, "PRAGMA data_version");

    assert_ok(ensure(t, 0, NULL));
    assert_ok(ensure(t, POSTBAG__MAX_PAYLOAD_DEFAULT, NULL));
    assert_int_equal(sql_get(t->app, "PRAGMA data_version"), before);
}

static void test_schema_of_a_newer_version_is_refused(void **state)
{
    struct tempdb *t = *state;
    char text[200];
    struct db db;

    sql_run(t->app, "UPDATE outbox_meta SET value = 99"
                    " WHERE key = 'schema_version'");
    assert_int_equal(ensure(t, 0, text), POSTBAG_ESCHEMA);
    assert_has(text, "99");
    assert_int_equal(ensure(t, 100, NULL), POSTBAG_ESCHEMA);
    assert_ok(postbag__db_borrow(&db, t->app));
    assert_int_equal(postbag__schema_check(&db), POSTBAG_ESCHEMA);
    assert_int_equal(
        sql_get(
            t->app, "SELECT value FROM outbox_meta WHERE key = 'max_payload'"),
        POSTBAG__MAX_PAYLOAD_DEFAULT);
}

/* Of an outbox that was damaged, not of a database that has none. */
static void test_schema_without_its_version_is_corrupt(void **state)
{
    static const char *const damages[] = {
        "DELETE FROM outbox_meta WHERE key = 'schema_version'",
        "UPDATE outbox_meta SET value = 'zz' WHERE key = 'schema_version'",
    };
    struct tempdb *t = *state;
    struct db db;

    assert_ok(postbag__db_borrow(&db, t->app));
    for (size_t i = 0; i < COUNT(damages); i++) {
        sql_run(t->app, "BEGIN; %s", damages[i]);
        assert_int_equal(postbag__schema_check(&db), POSTBAG_ECORRUPT);
        assert_has(db.fault.text, "no schema_version");
        assert_int_equal(postbag__schema_ensure(&db, 0), POSTBAG_ECORRUPT);
        sql_run(t->app, "ROLLBACK");
    }
    sql_run(t->app, "DROP TABLE outbox_meta");
    assert_int_equal(postbag__schema_check(&db), POSTBAG_ECORRUPT);
    assert_has(db.fault.text, "outbox_meta is missing");
    sql_run(t->app, "DROP TABLE outbox_held");
    assert_int_equal(postbag__schema_check(&db), POSTBAG_ESCHEMA);
}

/* Foreign names are refused, and nothing of ours is left behind. */
static void test_schema_beside_foreign_names_is_refused(void **state)
{
    static const char *const foreign[] = {
        "CREATE TABLE outbox(a)",
        "CREATE VIEW outbox AS SELECT 1 AS a",
        "CREATE TABLE inbox(a)",
        "CREATE TABLE outbox_held(a)",
        "CREATE TABLE outbox_meta(a)",
        "CREATE VIEW outbox_status AS SELECT 1 AS a",
        "CREATE TABLE app(a); CREATE INDEX outbox_urgent ON app(a)",
        ("CREATE TABLE app(a); CREATE TRIGGER outbox_frozen"
         " AFTER INSERT ON app BEGIN SELECT 1; END"),
    };
    struct tempdb *t = *state;

    for (size_t i = 0; i < COUNT(foreign); i++) {
        struct tempdb mine;
        char before[400];
        static const char all[] = "SELECT name, sql FROM sqlite_schema";

        tempdb_make(&mine);
        mine.app = tempdb_connect(&mine);
        sql_run(mine.app, "%s", foreign[i]);
        (void)strcpy(before, sql_text(mine.app, all));
        if (ensure(&mine, 0, NULL) != POSTBAG_ESCHEMA)
            fail_msg("%s was not refused", foreign[i]);
        assert_string_equal(sql_text(mine.app, all), before);
        tempdb_remove(&mine);
    }
    assert_ok(ensure(t, 0, NULL));
}

static void test_schema_while_another_writes_is_busy_and_leaves_nothing(
    void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "BEGIN IMMEDIATE");
    assert_int_equal(ensure(t, 0, NULL), POSTBAG_EBUSY);
    sql_run(t->app, "ROLLBACK");
    assert_int_equal(sql_get(t->app, "SELECT count(*) FROM sqlite_schema"), 0);
    assert_ok(ensure(t, 0, NULL));
}

static void test_schema_check_without_outbox_names_the_main_database(
    void **state)
{
    struct tempdb *t = *state;
    struct tempdb other;
    struct db db;

    tempdb_make_outbox(&other);
    sql_run(t->app, "ATTACH '%s' AS far", other.path);
    assert_ok(postbag__db_borrow(&db, t->app));
    assert_int_equal(postbag__schema_check(&db), POSTBAG_ESCHEMA);
    assert_has(db.fault.text, "main");
    sql_run(t->app, "DETACH far");
    tempdb_remove(&other);
}

/* ---- what a row looks like ---- */

static void test_schema_two_columns_suffice_for_a_message(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "INSERT INTO outbox(topic, payload) VALUES ('t', 'p');"
                    "INSERT INTO outbox(topic, payload) VALUES ('t', 'p')");
    assert_string_equal(
        sql_text(t->app, "SELECT seq, priority, retain, length(id),"
                         " substr(hex(id), 13, 1), substr(hex(id), 17, 1)"
                         " FROM outbox"),
        "1|0|0|16|4|8 2|0|0|16|4|8");
    assert_int_equal(
        sql_get(t->app, "SELECT count(DISTINCT id) FROM outbox"), 2);
    /* within a minute of SQLite's own clock */
    assert_int_equal(
        sql_get(t->app, "SELECT max(abs(created_ms / 1000"
                        " - strftime('%%s', 'now'))) < 60 FROM outbox"),
        1);
}

static void test_schema_payload_keeps_its_type_and_bytes(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "INSERT INTO outbox(topic, payload, key) VALUES"
                    " ('007', '007', '0012'), ('b', x'00610062', NULL),"
                    " ('e', '', NULL), ('z', x'', NULL)");
    assert_string_equal(
        sql_text(t->app, "SELECT typeof(topic), topic, typeof(payload),"
                         " hex(payload), ifnull(key, '-') FROM outbox"),
        "text|007|text|303037|0012 text|b|blob|00610062|-"
        " text|e|text||- text|z|blob||-");
}

static void test_schema_sum_each_256_rows_is_their_bytes(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "INSERT INTO outbox(topic, payload)"
                    " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
                    "  SELECT i + 1 FROM n WHERE i < 600)"
                    " SELECT 'ab', x'000000' FROM n");
    assert_string_equal(
        sql_text(t->app, "SELECT * FROM outbox_sum"), "0|0 256|1280 512|2560");
}

/* ---- guards ---- */

static const struct guard {
    const char *columns, *values, *message;
} guards[] = {
    {"seq, topic, payload", "7, 't', 'p'", "seq is given by the log"},
    {"seq, topic, payload", "0, 't', 'p'", "seq is given by the log"},
    {"seq, topic, payload", "-1, 't', 'p'", "seq is given by the log"},
    {"seq, topic, payload", "-256, 't', 'p'", "seq is given by the log"},
    {"topic, payload", "NULL, 'p'", "topic must have 1..65535 bytes"},
    {"topic, payload", "'', 'p'", "topic must have 1..65535 bytes"},
    {"topic, payload", "printf('%.*c', 65536, 'x'), 'p'",
        "topic must have 1..65535 bytes"},
    /* STRICT refuses it before the guard can */
    {"topic, payload", "x'74', 'p'", "cannot store BLOB value in TEXT"},
    {"topic, payload", "'a/+', 'p'", "topic must not contain + # or NUL"},
    {"topic, payload", "'a/#', 'p'", "topic must not contain + # or NUL"},
    {"topic, payload", "'a' || char(0), 'p'",
        "topic must not contain + # or NUL"},
    {"topic, payload", "'a' || char(10), 'p'", "topic has a control character"},
    {"topic, payload", "char(127), 'p'", "topic has a control character"},
    {"topic, payload", "'a' || char(155), 'p'",
        "topic has a control character"},
    {"topic, payload, key", "'t', 'p', 'k' || char(9)",
        "key, type or content_type has a control character"},
    {"topic, payload, key", "'t', 'p', 'a' || char(0) || 'b'",
        "key, type or content_type has a control character"},
    {"topic, payload, type", "'t', 'p', char(1)",
        "key, type or content_type has a control character"},
    {"topic, payload, content_type", "'t', 'p', 'a' || char(130)",
        "key, type or content_type has a control character"},
    {"topic, payload", "'t', NULL", "payload must be text or blob"},
    {"topic, payload", "'t', 7", "payload must be text or blob"},
    {"topic, payload", "'t', 0.5", "payload must be text or blob"},
    {"topic, payload", "'t', zeroblob(65537)", "larger than max_payload"},
    {"topic, payload, id", "'t', 'p', NULL", "id must be 16 bytes"},
    {"topic, payload, id", "'t', 'p', x'00'", "id must be 16 bytes"},
    {"topic, payload, id", "'t', 'p', zeroblob(17)", "id must be 16 bytes"},
    {"topic, payload, priority", "'t', 'p', 4", "priority must be 0..3"},
    {"topic, payload, priority", "'t', 'p', -1", "priority must be 0..3"},
    {"topic, payload, priority", "'t', 'p', NULL", "priority must be 0..3"},
    {"topic, payload, retain", "'t', 'p', NULL", "must not be NULL"},
    {"topic, payload, created_ms", "'t', 'p', NULL", "must not be NULL"},
    {"topic, payload, ttl_ms", "'t', 'p', 0", "ttl_ms must be positive"},
    {"topic, payload, dest", "'t', 'p', 'moon'", "unknown destination"},
};

static void check_guards(struct tempdb *t, const char *verb)
{
    for (size_t i = 0; i < COUNT(guards); i++)
        sql_fails(t->app, guards[i].message, "%s INTO outbox(%s) VALUES (%s)",
            verb, guards[i].columns, guards[i].values);
    assert_int_equal(rows(t), 0);
}

static void test_schema_guards_name_what_is_wrong(void **state)
{
    check_guards(*state, "INSERT");
}

/* A CHECK would drop such a row without a word. */
static void test_schema_guards_speak_under_insert_or_ignore(void **state)
{
    check_guards(*state, "INSERT OR IGNORE");
    check_guards(*state, "INSERT OR REPLACE");
}

static void test_schema_guards_work_with_an_untrusted_schema(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "PRAGMA trusted_schema=OFF");
    check_guards(t, "INSERT");
    sql_run(t->app, "INSERT INTO outbox(topic, payload, headers)"
                    " VALUES ('t', 'p', ' {\"a\": \"1\"}')");
    assert_int_equal(rows(t), 1);
}

static void test_schema_guard_in_an_apps_trigger_stops_its_change(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app,
        "CREATE TABLE app(v); CREATE TRIGGER tell AFTER INSERT ON app BEGIN"
        " INSERT INTO outbox(topic, payload) VALUES (NEW.v, 'p'); END");
    sql_fails(
        t->app, "must not contain", "INSERT OR IGNORE INTO app VALUES ('a/#')");
    assert_int_equal(sql_get(t->app, "SELECT count(*) FROM app"), 0);
    sql_run(t->app, "INSERT OR IGNORE INTO app VALUES ('a')");
    assert_int_equal(rows(t), 1);
}

static void test_schema_queued_row_is_not_changed(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "INSERT INTO outbox(topic, payload) VALUES ('t', 'p')");
    sql_fails(t->app, "a queued message is not changed",
        "UPDATE outbox SET payload = 'q'");
    sql_fails(t->app, "a queued message is not changed",
        "UPDATE OR IGNORE outbox SET seq = 9");
    assert_string_equal(
        sql_text(t->app, "SELECT seq, payload FROM outbox"), "1|p");
}

static void test_schema_newest_row_is_not_deleted(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "INSERT INTO outbox(topic, payload)"
                    " VALUES ('1', ''), ('2', ''), ('3', '')");
    sql_fails(t->app, "the newest row marks the end of the log",
        "DELETE FROM outbox");
    assert_int_equal(rows(t), 3);
    sql_run(t->app, "DELETE FROM outbox WHERE seq < 3");
    sql_run(t->app, "INSERT INTO outbox(topic, payload) VALUES ('4', '')");
    assert_string_equal(sql_text(t->app, "SELECT seq FROM outbox"), "3 4");
}

static void test_schema_guards_survive_recursive_triggers_and_replace(
    void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "PRAGMA recursive_triggers=ON;"
                    "INSERT INTO outbox(topic, payload) VALUES ('t', 'p')");
    sql_fails(t->app, "seq is given by the log",
        "REPLACE INTO outbox(seq, topic, payload) VALUES (1, 't', 'q')");
    assert_string_equal(
        sql_text(t->app, "SELECT seq, payload FROM outbox"), "1|p");
}

static void test_schema_max_payload_moves_the_guard_and_is_kept(void **state)
{
    struct tempdb *t = *state;
    static const char put[] =
        "INSERT INTO outbox(topic, payload) VALUES ('t', zeroblob(%d))";

    assert_ok(ensure(t, 100, NULL));
    sql_run(t->app, put, 100);
    sql_fails(t->app, "larger than max_payload", put, 101);
    assert_ok(ensure(t, 0, NULL));
    sql_fails(t->app, "larger than max_payload", put, 101);
    assert_ok(ensure(t, 200000, NULL));
    sql_run(t->app, put, 200000);
    sql_fails(t->app, "larger than max_payload", put, 200001);
    assert_int_equal(
        sql_get(
            t->app, "SELECT value FROM outbox_meta WHERE key = 'max_payload'"),
        200000);
}

/* ---- destinations and the view ---- */

static void add_dest(struct tempdb *t, const char *name)
{
    struct db db;

    assert_ok(postbag__db_borrow(&db, t->app));
    assert_ok(postbag__schema_add_dest(&db, name));
}

static void test_schema_new_destination_starts_at_the_oldest_row(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "INSERT INTO outbox(topic, payload)"
                    " VALUES ('1', ''), ('2', ''), ('3', '');"
                    "DELETE FROM outbox WHERE seq < 3");
    add_dest(t, "cloud");
    assert_string_equal(
        sql_text(t->app, "SELECT lane, acked, sent_hi, settled_rows, passed"
                         " FROM outbox_cursor WHERE dest = 'cloud'"),
        "0|2|2|2|2 1|2|2|0|0 2|2|2|0|0 3|2|2|0|0");
    sql_run(t->app, "UPDATE outbox_cursor SET acked = 3");
    add_dest(t, "cloud");
    assert_string_equal(
        sql_text(t->app,
            "SELECT DISTINCT acked FROM outbox_cursor WHERE dest = 'cloud'"),
        "3");
}

static void test_schema_sum_follows_a_large_row_at_once(void **state)
{
    struct tempdb *t = *state;

    sql_run(t->app, "INSERT INTO outbox(topic, payload) VALUES"
                    " ('t', zeroblob(4096)), ('t', zeroblob(4097)), ('t', '')");
    assert_string_equal(
        sql_text(t->app, "SELECT * FROM outbox_sum"), "0|0 2|8195");
}

static void test_schema_view_tells_each_rows_state(void **state)
{
    struct tempdb *t = *state;

    add_dest(t, "b");
    sql_run(t->app,
        "INSERT INTO outbox(topic, payload, dest) VALUES ('1', '', NULL),"
        " ('2', '', NULL), ('3', '', NULL), ('4', '', 'b'), ('5', '', NULL);"
        "INSERT INTO outbox_held(dest, seq, state, attempts, error, id, topic,"
        "  payload, priority, retain, created_ms)"
        " SELECT 'main', seq, 'dead', 3, 'no', id, topic, payload, 0, 0, 1"
        "  FROM outbox WHERE seq = 2;"
        "UPDATE outbox_cursor SET acked = 2, sent_hi = 3 WHERE dest = 'main';"
        "INSERT INTO outbox_acks VALUES ('main', 0, 2, 77, NULL, NULL)");
    assert_string_equal(
        sql_text(t->app, "SELECT seq, state, published_at, attempts"
                         " FROM outbox_status WHERE dest = 'main'"
                         " ORDER BY seq"),
        "1|published|77|1 2|dead|NULL|3 3|sending|NULL|1 4|passed|NULL|0"
        " 5|pending|NULL|0");
    /* held rows outlive the log's */
    sql_run(t->app, "DELETE FROM outbox WHERE seq < 4");
    assert_string_equal(
        sql_text(t->app, "SELECT seq, state, last_error FROM outbox_status"
                         " WHERE dest = 'main' AND seq < 4"),
        "2|dead|no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_schema_in_an_apps_database_leaves_its_tables_alone,
            set_up_empty, tear_down),
        cmocka_unit_test_setup_teardown(
            test_schema_beside_foreign_names_is_refused, set_up_empty,
            tear_down),
        cmocka_unit_test_setup_teardown(
            test_schema_while_another_writes_is_busy_and_leaves_nothing,
            set_up_empty, tear_down),
        cmocka_unit_test_setup_teardown(
            test_schema_check_without_outbox_names_the_main_database,
            set_up_empty, tear_down),
        TEST_IN(test_schema_that_is_ready_is_not_written_to),
        TEST_IN(test_schema_of_a_newer_version_is_refused),
        TEST_IN(test_schema_without_its_version_is_corrupt),
        TEST_IN(test_schema_two_columns_suffice_for_a_message),
        TEST_IN(test_schema_payload_keeps_its_type_and_bytes),
        TEST_IN(test_schema_sum_each_256_rows_is_their_bytes),
        TEST_IN(test_schema_sum_follows_a_large_row_at_once),
        TEST_IN(test_schema_guards_name_what_is_wrong),
        TEST_IN(test_schema_guards_speak_under_insert_or_ignore),
        TEST_IN(test_schema_guards_work_with_an_untrusted_schema),
        TEST_IN(test_schema_guard_in_an_apps_trigger_stops_its_change),
        TEST_IN(test_schema_queued_row_is_not_changed),
        TEST_IN(test_schema_newest_row_is_not_deleted),
        TEST_IN(test_schema_guards_survive_recursive_triggers_and_replace),
        TEST_IN(test_schema_max_payload_moves_the_guard_and_is_kept),
        TEST_IN(test_schema_new_destination_starts_at_the_oldest_row),
        TEST_IN(test_schema_view_tells_each_rows_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
