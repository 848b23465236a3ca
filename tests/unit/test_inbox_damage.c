/* SPDX-License-Identifier: MIT */
/* Commands of a damaged database: none reaches a handler, none stops another,
 * and all are dead with what is wrong. */
#include "inbox_damage.h"

#include "inbox_repair.h"
#include "inbox_script.h"
#include "inbox_store.h"
#include "list_store.h"
#include "order.h"
#include "postbag/pull.h"

#define SCHEMA_SQL "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = "
#define OF_INBOX " WHERE name = 'inbox'; PRAGMA writable_schema=OFF"
/* A table that takes anything anywhere. */
#define LAX \
    "replace(replace(replace(replace(replace(replace(sql, ') STRICT', ')')," \
    " ' INTEGER,', ' BLOB,'), ' INTEGER NOT NULL', ' BLOB')," \
    " ' TEXT NOT NULL', ' BLOB'), ' TEXT', ' BLOB'), ' ANY', ' BLOB')"

/* As a damaged page would have it: no statement writes such a row into a STRICT
 * table, so that the table is none for a moment. */
static void spoil(struct inbox_world *w, const char *set)
{
    sqlite3 *db = tempdb_connect(&w->t.file);

    sql_run(db, "CREATE TABLE kept AS SELECT sql FROM sqlite_schema"
                " WHERE name = 'inbox'");
    sql_run(db, SCHEMA_SQL LAX OF_INBOX);
    (void)sqlite3_close(db);
    db = tempdb_connect(&w->t.file);
    sql_run(db, "PRAGMA ignore_check_constraints=ON");
    sql_run(db, "UPDATE inbox SET %s", set);
    sql_run(db, SCHEMA_SQL "(SELECT sql FROM kept)" OF_INBOX);
    sql_run(db, "DROP TABLE kept");
    (void)sqlite3_close(db);
}

static const char *const spoilt[][2] = {
    {"source = x'31'", "source"},
    {"id = 1.5", "id"},
    {"id = x''", "id"},
    {"content_hash = 7", "content_hash"},
    {"seen = 'often'", "seen"},
    {"topic = NULL", "topic"},
    {"topic = x'636d64'", "topic"},
    {"payload = NULL", "payload"},
    {"payload = 7", "payload"},
    {"content_type = 1", "content_type"},
    {"key = x'6b'", "key"},
    {"key_version = 'x'", "key_version"},
    {"response_topic = x'72'", "response_topic"},
    {"correlation_data = 'text'", "correlation_data"},
    {"headers = x'7b7d'", "headers"},
    {"headers = 5", "headers"},
    {"headers = x'00ff'", "headers"},
    {"expires_ms = 'x'", "expires_ms"},
    {"attempts = 'x'", "attempts"},
    {"attempts = -9223372036854775807", "attempts"},
    {"attempts = 9223372036854775807", "attempts"},
    {"received_ms = 'x'", "received_ms"},
    {"processed_ms = 'x'", "processed_ms"},
    {"boot = 'x'", "boot"},
    {"mono_ms = x'00'", "mono_ms"},
    {"reply = x'7b7d'", "reply"},
    {"previous_version = 'x'", "previous_version"},
    {"topic = 1, payload = 2.5, headers = 3, boot = 4, mono_ms = 'x',"
     " due_boot = 'x', due_ms = 'x', error = 4",
        "topic"},
};

/* The rows that are dead of damage in that column. */
static int64_t dead_of(struct inbox_world *w, const char *column)
{
    char sql[200];

    (void)snprintf(sql, sizeof(sql),
        "SELECT count(*) FROM inbox WHERE state = 'dead' AND processed_ms > 0"
        " AND error = 'damaged in the database: its %s cannot be'",
        column);
    return temp_db_get(&w->t, sql);
}

static void check_one(const char *set, const char *column)
{
    void *state;
    struct inbox_world *w;
    char where[400];

    (void)set_up(&state);
    w = state;
    world_deliver(w, "c1", "k");
    world_deliver(w, "c2", "k");
    (void)snprintf(where, sizeof(where), "%s WHERE arrival = 1", set);
    spoil(w, where);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.ran, 0);
    if (dead_of(w, column) != 1)
        fail_msg("%s: %s", set,
            sql_text((sqlite3 *)w->t.db.handle,
                "SELECT state, error FROM inbox ORDER BY arrival"));
    assert_int_equal(world_run_one(w), 1);
    assert_string_equal(script.ids, "c2 ");
    assert_int_equal(world_run_one(w), 0);
    assert_string_equal(
        sql_text((sqlite3 *)w->t.db.handle, "PRAGMA integrity_check"), "ok");
    (void)tear_down(&state);
}

static void test_inbox_damage_is_dead_unseen_and_holds_up_nobody(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(spoilt) / sizeof(spoilt[0]); i++)
        check_one(spoilt[i][0], spoilt[i][1]);
}

/* What is ours and set anew by whatever comes next is no reason. */
static void test_inbox_damage_of_a_retry_time_means_now(void **state)
{
    struct inbox_world *w;

    (void)set_up(state);
    w = *state;
    script.outcome = POSTBAG_RETRY;
    world_deliver(w, "c1", "k");
    assert_int_equal(world_run_one(w), 1);
    script.outcome = POSTBAG_DONE;
    spoil(w, "due_ms = 'never', error = 7");
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.ran, 2);
    (void)tear_down(state);
}

static void test_inbox_damage_is_not_requeued(void **state)
{
    struct inbox_world *w;
    const struct postbag_inbox_choice one = {.arrival = 1};
    int64_t count = -1;

    (void)set_up(state);
    w = *state;
    world_deliver(w, "c1", "k");
    spoil(w, "key = 7");
    assert_int_equal(world_run_one(w), 1);
    assert_ok(postbag__inbox_requeue(&w->t.db, &one, &count));
    assert_int_equal(count, 0);
    assert_int_equal(dead_of(w, "key"), 1);
    /* but a redelivery is known, and answered to the broker */
    world_deliver(w, "c1", "k");
    assert_int_equal(temp_db_get(&w->t, "SELECT seen FROM inbox"), 2);
    (void)tear_down(state);
}

static void test_inbox_damage_is_not_pulled(void **state)
{
    struct inbox_world *w;
    struct postbag_command cmd = {.struct_size = sizeof(cmd)};
    struct postbag_writer *pull;
    struct postbag_writer_config c = {.struct_size = sizeof(c)};

    (void)set_up(state);
    w = *state;
    c.db = tempdb_connect(&w->t.file);
    c.port = &w->port;
    assert_ok(postbag_writer_open(&pull, &c, NULL));
    world_deliver(w, "c1", "k");
    world_deliver(w, "c2", "k");
    spoil(w, "topic = NULL WHERE arrival = 1");
    assert_ok(postbag_inbox_next(pull, "a", &cmd));
    assert_int_equal(cmd.arrival, 2);
    assert_int_equal(dead_of(w, "topic"), 1);
    spoil(w, "attempts = 9223372036854775807 WHERE arrival = 2");
    assert_int_not_equal(
        postbag_inbox_put_off(pull, 2, NULL, NULL), POSTBAG_OK);
    assert_int_equal(postbag_inbox_next(pull, "a", &cmd), POSTBAG_ENOTFOUND);
    assert_int_equal(dead_of(w, "attempts"), 1);
    postbag_writer_close(pull);
    (void)sqlite3_close(c.db);
    (void)tear_down(state);
}

/* A row that waits for a version has no worker to look at it. */
static void test_inbox_damage_waits_for_nothing(void **state)
{
    static const struct order_rules defer = {
        .gap = ORDER_DEFER, .defer_ms = 1000, .defer_rows = 10};
    static const char *const sets[] = {
        "key = 7", "topic = NULL", "due_boot = 5, headers = 7"};

    for (size_t i = 0; i < 3; i++) {
        struct inbox_world *w;
        char where[100];

        (void)set_up(state);
        w = *state;
        w->consumers.list[0].versions = defer;
        temp_db_run(&w->t,
            "INSERT INTO inbox_key VALUES ('a', 'k', 1, 1);"
            "INSERT INTO inbox(arrival, consumer, id, state, topic, payload,"
            " key, key_version, received_ms, due_boot, due_ms) VALUES"
            " (8, 'a', 'c8', 'deferred', 'cmd/a', 'p', 'k', 3, 1, x'99', 1),"
            " (9, 'a', 'c9', 'deferred', 'cmd/a', 'p', 'k', 4, 1, x'99', 1)");
        (void)snprintf(where, sizeof(where), "%s WHERE arrival = 8", sets[i]);
        spoil(w, where);
        for (int n = 0; n < 4; n++)
            (void)world_run_one(w);
        assert_string_equal(script.ids, "c9 ");
        assert_int_equal(in_state(w, "dead"), 1);
        assert_int_equal(in_state(w, "deferred"), 0);
        (void)tear_down(state);
    }
}

static int look(void *ctx, const struct postbag_inbox_row *row)
{
    assert_string_equal(row->source, "");
    assert_string_equal(row->consumer, "a");
    assert_null(row->topic);
    ++*(int *)ctx;
    return 0;
}

static void test_inbox_damage_is_listed(void **state)
{
    const struct postbag_inbox_filter all = {.struct_size = sizeof(all)};
    struct inbox_world *w;
    int seen = 0;

    (void)set_up(state);
    w = *state;
    world_deliver(w, "c1", "k");
    spoil(w, "source = NULL, topic = NULL");
    assert_ok(postbag__list_inbox(&w->t.db, &all, look, &seen));
    assert_int_equal(seen, 1);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(dead_of(w, "source"), 1);
    (void)tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inbox_damage_is_dead_unseen_and_holds_up_nobody),
        cmocka_unit_test(test_inbox_damage_of_a_retry_time_means_now),
        cmocka_unit_test(test_inbox_damage_is_not_requeued),
        cmocka_unit_test(test_inbox_damage_is_not_pulled),
        cmocka_unit_test(test_inbox_damage_waits_for_nothing),
        cmocka_unit_test(test_inbox_damage_is_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
