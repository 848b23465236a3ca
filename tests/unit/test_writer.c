/* SPDX-License-Identifier: MIT */
/*
 * What is put shares the fate of the caller's transaction, whoever began it,
 * and nothing of the caller's connection is changed.
 */
#include "writer.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "profile_store.h"
#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"

struct desk {
    struct tempdb t;
    struct sim_port sim;
    struct postbag_writer *w;
};

static void open_writer(struct desk *d)
{
    const struct postbag_writer_config c = {
        .struct_size = sizeof(c),
        .db = d->t.app,
        .port = &d->sim.port,
    };
    struct postbag_fault why = {0};

    if (postbag_writer_open(&d->w, &c, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
}

static int set_up(void **state)
{
    struct desk *d = calloc(1, sizeof(*d));

    assert_non_null(d);
    tempdb_make_outbox(&d->t);
    sim_port_init(&d->sim);
    open_writer(d);
    sql_run(d->t.app, "CREATE TABLE app(v); INSERT INTO app VALUES (0)");
    *state = d;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *d = *state;

    postbag_writer_close(d->w);
    tempdb_remove(&d->t);
    free(d);
    return 0;
}

static int put(struct desk *d, const char *topic)
{
    const struct postbag_message m = {.struct_size = sizeof(m),
        .topic = topic,
        .payload = "payload",
        .payload_len = 7};

    return postbag_put(d->w, &m, NULL);
}

static int64_t rows(struct desk *d)
{
    return sql_get(d->t.app, "SELECT count(*) FROM outbox");
}

static int64_t app_value(struct desk *d)
{
    return sql_get(d->t.app, "SELECT v FROM app");
}

/* ---- one transaction ---- */

static void test_writer_commit_keeps_state_and_message(void **state)
{
    struct desk *d = *state;

    assert_ok(postbag_begin(d->w));
    sql_run(d->t.app, "UPDATE app SET v = 1");
    assert_ok(put(d, "a"));
    assert_ok(postbag_commit(d->w));
    assert_int_equal(app_value(d), 1);
    assert_int_equal(rows(d), 1);
    assert_true(sqlite3_get_autocommit(d->t.app));
}

static void test_writer_rollback_leaves_neither(void **state)
{
    struct desk *d = *state;

    assert_ok(postbag_begin(d->w));
    sql_run(d->t.app, "UPDATE app SET v = 1");
    assert_ok(put(d, "a"));
    postbag_rollback(d->w);
    assert_int_equal(app_value(d), 0);
    assert_int_equal(rows(d), 0);
    postbag_rollback(d->w); /* fine without a transaction */
}

static void test_writer_closed_connection_leaves_neither(void **state)
{
    struct desk *d = *state;

    assert_ok(postbag_begin(d->w));
    sql_run(d->t.app, "UPDATE app SET v = 1");
    assert_ok(put(d, "a"));
    postbag_writer_close(d->w);
    assert_int_equal(sqlite3_close(d->t.app), SQLITE_OK);
    d->t.app = tempdb_connect(&d->t);
    open_writer(d);
    assert_int_equal(app_value(d), 0);
    assert_int_equal(rows(d), 0);
}

static void test_writer_savepoint_takes_back_what_was_put_inside(void **state)
{
    struct desk *d = *state;

    assert_ok(postbag_begin(d->w));
    assert_ok(put(d, "keep"));
    sql_run(d->t.app, "SAVEPOINT s");
    assert_ok(put(d, "drop"));
    sql_run(d->t.app, "ROLLBACK TO s");
    assert_ok(put(d, "after"));
    assert_ok(postbag_commit(d->w));
    assert_string_equal(
        sql_text(d->t.app, "SELECT seq, topic FROM outbox"), "1|keep 2|after");
}

static void test_writer_in_the_callers_own_transaction_works(void **state)
{
    struct desk *d = *state;

    sql_run(d->t.app, "BEGIN IMMEDIATE");
    assert_ok(put(d, "a"));
    sql_run(d->t.app, "COMMIT; BEGIN");
    assert_ok(put(d, "b"));
    assert_ok(postbag_commit(d->w));
    sql_run(d->t.app, "BEGIN");
    assert_ok(put(d, "c"));
    sql_run(d->t.app, "ROLLBACK");
    assert_string_equal(sql_text(d->t.app, "SELECT topic FROM outbox"), "a b");
}

static void test_writer_without_a_transaction_queues_nothing(void **state)
{
    struct desk *d = *state;

    assert_int_equal(put(d, "a"), POSTBAG_ENOTXN);
    assert_has(postbag_writer_fault(d->w)->text, "open transaction");
    assert_int_equal(postbag_commit(d->w), POSTBAG_ENOTXN);
    assert_int_equal(rows(d), 0);
}

static void test_writer_begin_inside_a_transaction_is_refused(void **state)
{
    struct desk *d = *state;

    assert_ok(postbag_begin(d->w));
    assert_ok(put(d, "a"));
    assert_int_equal(postbag_begin(d->w), POSTBAG_ESTATE);
    assert_ok(postbag_commit(d->w));
    assert_int_equal(rows(d), 1);
}

static void test_writer_changes_nothing_on_the_connection(void **state)
{
    struct desk *d = *state;
    static const char *const pragmas[] = {"busy_timeout", "synchronous",
        "wal_autocheckpoint", "trusted_schema", "foreign_keys", "cache_size"};
    struct sqlite3 *plain = tempdb_connect(&d->t);

    assert_ok(postbag_begin(d->w));
    assert_ok(put(d, "a"));
    assert_ok(postbag_commit(d->w));
    for (size_t i = 0; i < COUNT(pragmas); i++)
        assert_int_equal(sql_get(d->t.app, "PRAGMA %s", pragmas[i]),
            sql_get(plain, "PRAGMA %s", pragmas[i]));
    /* each setter answers with the hook that was there before */
    assert_null(sqlite3_commit_hook(d->t.app, NULL, NULL));
    assert_null(sqlite3_rollback_hook(d->t.app, NULL, NULL));
    assert_null(sqlite3_update_hook(d->t.app, NULL, NULL));
    (void)sqlite3_close(plain);
}

/* ---- put ---- */

static void test_writer_every_field_is_stored(void **state)
{
    struct desk *d = *state;
    const struct postbag_message m = {
        .struct_size = sizeof(m),
        .topic = "plant/1",
        .payload = "a\0b",
        .payload_len = 3,
        .key = "0012",
        .key_version = 7,
        .type = "com.example.r",
        .content_type = "text/x",
        .headers = "{\"h\":\"1\"}",
        .dest = "main",
        .coalesce = "temp",
        .ttl_ms = 900,
        .priority = 2,
        .retain = 5,
    };

    assert_ok(postbag_begin(d->w));
    assert_ok(postbag_put(d->w, &m, NULL));
    assert_ok(postbag_commit(d->w));
    assert_string_equal(
        sql_text(d->t.app,
            "SELECT topic, typeof(payload), hex(payload), key, key_version,"
            " type, content_type, headers, dest, coalesce, ttl_ms, priority,"
            " retain, created_ms, hex(boot), mono_ms FROM outbox"),
        "plant/1|blob|610062|0012|7|com.example.r|text/x|{\"h\":\"1\"}|main"
        "|temp|900|2|1|1800000000000|01010101010101010101010101010101|60000");
}

static void test_writer_least_message_stores_nulls(void **state)
{
    struct desk *d = *state;
    const struct postbag_message m = {.struct_size = sizeof(m), .topic = "t"};

    assert_ok(postbag_begin(d->w));
    assert_ok(postbag_put(d->w, &m, NULL));
    assert_ok(postbag_commit(d->w));
    assert_string_equal(
        sql_text(d->t.app,
            "SELECT typeof(payload), length(payload), key, key_version, type,"
            " content_type, headers, dest, coalesce, ttl_ms, priority, retain"
            " FROM outbox"),
        "blob|0|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|0|0");
}

static void test_writer_text_payload_stays_text(void **state)
{
    struct desk *d = *state;
    const struct postbag_message m = {.struct_size = sizeof(m),
        .topic = "t",
        .payload = "007",
        .payload_len = 3,
        .is_text = 1};

    assert_ok(postbag_begin(d->w));
    assert_ok(postbag_put(d->w, &m, NULL));
    assert_ok(postbag_commit(d->w));
    assert_string_equal(
        sql_text(d->t.app, "SELECT typeof(payload), payload FROM outbox"),
        "text|007");
}

static void test_writer_id_of_the_caller_is_kept(void **state)
{
    struct desk *d = *state;
    struct postbag_id mine, out;
    struct postbag_message m = {
        .struct_size = sizeof(m), .topic = "t", .id = &mine};
    int stored;

    assert_ok(postbag_id_new(&d->sim.port, &mine));
    assert_ok(postbag_begin(d->w));
    assert_ok(postbag_find(d->w, &mine, &stored));
    assert_int_equal(stored, 0);
    assert_ok(postbag_put(d->w, &m, &out));
    assert_memory_equal(&out, &mine, sizeof(mine));
    m.id = NULL;
    assert_ok(postbag_put(d->w, &m, &out));
    assert_memory_not_equal(&out, &mine, sizeof(mine));
    assert_ok(postbag_commit(d->w));
    assert_ok(postbag_find(d->w, &mine, &stored));
    assert_int_equal(stored, 1);
    assert_ok(postbag_find(d->w, &out, &stored));
    assert_int_equal(stored, 1);
}

static void test_writer_finds_a_held_message_whose_row_is_gone(void **state)
{
    struct desk *d = *state;
    struct postbag_id id;
    const struct postbag_message m = {.struct_size = sizeof(m), .topic = "t"};
    int stored;

    assert_ok(postbag_begin(d->w));
    assert_ok(postbag_put(d->w, &m, &id));
    assert_ok(put(d, "newer"));
    assert_ok(postbag_commit(d->w));
    sql_run(d->t.app,
        "INSERT INTO outbox_held(dest, seq, state, id, topic, payload,"
        " priority, retain, created_ms)"
        " SELECT 'main', seq, 'dead', id, topic, payload, 0, 0, 1"
        " FROM outbox WHERE seq = 1; DELETE FROM outbox WHERE seq = 1");
    assert_ok(postbag_find(d->w, &id, &stored));
    assert_int_equal(stored, 1);
    sql_run(d->t.app, "DELETE FROM outbox_held");
    assert_ok(postbag_find(d->w, &id, &stored));
    assert_int_equal(stored, 0);
}

/* What is refused leaves the transaction open and queues nothing. */
static void expect_refusal(
    struct desk *d, const struct postbag_message *m, int err, const char *part)
{
    assert_ok(postbag_begin(d->w));
    sql_run(d->t.app, "UPDATE app SET v = 1");
    if (postbag_put(d->w, m, NULL) != err)
        fail_msg("not %s for: %s", postbag_error_name(err), part);
    assert_int_equal(postbag_writer_fault(d->w)->code, err);
    assert_has(postbag_writer_fault(d->w)->text, part);
    assert_ok(put(d, "fine"));
    assert_ok(postbag_commit(d->w));
    assert_string_equal(
        sql_text(d->t.app, "SELECT DISTINCT topic FROM outbox"), "fine");
    assert_int_equal(app_value(d), 1);
}

static void test_writer_bad_messages_are_named_and_the_rest_commits(
    void **state)
{
    static char large[65537];
    const struct {
        int err;
        const char *part;
        struct postbag_message m;
    } all[] = {
        {POSTBAG_EINVAL, "topic", {.topic = NULL}},
        {POSTBAG_EINVAL, "topic", {.topic = "a/+"}},
        {POSTBAG_EINVAL, "topic", {.topic = "a\xff"}},
        {POSTBAG_EINVAL, "key", {.topic = "t", .key = "\xc0\x80"}},
        {POSTBAG_EINVAL, "priority", {.topic = "t", .priority = 4}},
        {POSTBAG_EINVAL, "destination", {.topic = "t", .dest = "moon"}},
        {POSTBAG_EINVAL, "headers", {.topic = "t", .headers = "{\"a\":"}},
        {POSTBAG_EINVAL, "headers", {.topic = "t", .headers = "[1]"}},
        {POSTBAG_EINVAL, "headers", {.topic = "t", .headers = "{\"a\":{}}"}},
        {POSTBAG_EINVAL, "named partitionkey:",
            {.topic = "t", .headers = "{\"a\":\"1\",\"partitionkey\":\"k\"}"}},
        {POSTBAG_EINVAL,
            "named id:", {.topic = "t", .headers = "{\"\\u0069d\":\"1\"}"}},
        {POSTBAG_EINVAL, "two headers have the same name",
            {.topic = "t", .headers = "{\"a\":\"1\",\"a\":\"2\"}"}},
        {POSTBAG_EINVAL, "a header has a control character",
            {.topic = "t", .headers = "{\"a\":\"\\u0000\"}"}},
        {POSTBAG_ETOOBIG, "max_payload",
            {.topic = "t", .payload = large, .payload_len = sizeof(large)}},
    };

    for (size_t i = 0; i < COUNT(all); i++) {
        struct postbag_message m = all[i].m;

        m.struct_size = sizeof(m);
        expect_refusal(*state, &m, all[i].err, all[i].part);
    }
}

/* Set while the writer is open: another process may do so. */
static void set_profile(struct desk *d, const char *name)
{
    struct db db;

    assert_ok(postbag__db_open(&db, d->t.path, DB_WRITE, DB_FULL, 0));
    assert_ok(postbag__profile_set(&db, "main", postbag_profile_find(name)));
    postbag__db_close(&db);
}

static void test_writer_messages_that_the_broker_refuses_are_named(void **state)
{
    static char large[65536 - 1024 - 3 + 1];
    static char long_topic[257 + 1];
    const struct {
        int err;
        const char *profile, *part;
        struct postbag_message m;
    } all[] = {
        {POSTBAG_EINVAL, "aws", "profile aws: topic has more than 7 slashes",
            {.topic = "1/2/3/4/5/6/7/8/9"}},
        {POSTBAG_EINVAL, "aws", "profile aws: topic has more than 256 bytes",
            {.topic = long_topic}},
        {POSTBAG_EINVAL, "iothub", "topic must begin with one of devices/",
            {.topic = "telemetry"}},
        {POSTBAG_ETOOBIG, "thingsboard", "larger than 64512 bytes",
            {.topic = "v1/", .payload = large, .payload_len = sizeof(large)}},
        {POSTBAG_ETOOBIG, "eventgrid", "retained message is larger than 64512",
            {.topic = "t",
                .payload = large,
                .payload_len = sizeof(large),
                .retain = 1,
                .key = "key"}},
    };
    struct desk *d = *state;

    memset(long_topic, 'x', sizeof(long_topic) - 1);
    for (size_t i = 0; i < COUNT(all); i++) {
        struct postbag_message m = all[i].m;

        m.struct_size = sizeof(m);
        set_profile(d, all[i].profile);
        assert_ok(postbag_begin(d->w));
        if (postbag_put(d->w, &m, NULL) != all[i].err)
            fail_msg("not refused: %s", all[i].part);
        assert_has(postbag_writer_fault(d->w)->text, all[i].part);
        postbag_rollback(d->w);
    }
    set_profile(d, "any");
    assert_ok(postbag_begin(d->w));
    assert_ok(put(d, "1/2/3/4/5/6/7/8/9"));
    assert_ok(postbag_commit(d->w));
}

static void test_writer_messages_of_other_versions_are_told_apart(void **state)
{
    struct desk *d = *state;
    struct {
        struct postbag_message m;
        int added;
    } newer = {.m = {.struct_size = sizeof(newer), .topic = "t"}};
    const struct postbag_message old = {
        .struct_size = offsetof(struct postbag_message, key),
        .topic = "old",
        .key = "not looked at"};
    const struct postbag_message unset = {.topic = "t"};

    assert_ok(postbag_begin(d->w));
    assert_int_equal(postbag_put(d->w, NULL, NULL), POSTBAG_EINVAL);
    assert_int_equal(postbag_put(d->w, &unset, NULL), POSTBAG_EVERSION);
    assert_ok(postbag_put(d->w, &old, NULL));
    assert_ok(postbag_put(d->w, &newer.m, NULL));
    newer.added = 1;
    assert_int_equal(postbag_put(d->w, &newer.m, NULL), POSTBAG_EVERSION);
    assert_ok(postbag_commit(d->w));
    assert_string_equal(
        sql_text(d->t.app, "SELECT topic, key FROM outbox"), "old|NULL t|NULL");
}

static void test_writer_without_ids_queues_nothing(void **state)
{
    struct desk *d = *state;

    d->sim.fails[SIM_UUID] = POSTBAG_EIO;
    assert_ok(postbag_begin(d->w));
    assert_int_equal(put(d, "t"), POSTBAG_EIO);
    d->sim.fails[SIM_UUID] = 0;
    assert_ok(put(d, "t"));
    assert_ok(postbag_commit(d->w));
    assert_int_equal(rows(d), 1);
}

static void test_writer_on_a_full_file_says_so_and_recovers(void **state)
{
    struct desk *d = *state;
    static char large[60000];
    const struct postbag_message m = {.struct_size = sizeof(m),
        .topic = "t",
        .payload = large,
        .payload_len = sizeof(large)};
    int64_t pages = sql_get(d->t.app, "PRAGMA page_count");

    (void)sql_get(d->t.app, "PRAGMA max_page_count = %d", (int)pages + 2);
    assert_ok(postbag_begin(d->w));
    assert_int_equal(postbag_put(d->w, &m, NULL), POSTBAG_ENOSPC);
    postbag_rollback(d->w);
    (void)sql_get(d->t.app, "PRAGMA max_page_count = %d", (int)pages + 99);
    assert_ok(postbag_begin(d->w));
    assert_ok(postbag_put(d->w, &m, NULL));
    assert_ok(postbag_commit(d->w));
    assert_int_equal(rows(d), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_writer_commit_keeps_state_and_message),
        TEST_IN(test_writer_rollback_leaves_neither),
        TEST_IN(test_writer_closed_connection_leaves_neither),
        TEST_IN(test_writer_savepoint_takes_back_what_was_put_inside),
        TEST_IN(test_writer_in_the_callers_own_transaction_works),
        TEST_IN(test_writer_without_a_transaction_queues_nothing),
        TEST_IN(test_writer_begin_inside_a_transaction_is_refused),
        TEST_IN(test_writer_changes_nothing_on_the_connection),
        TEST_IN(test_writer_every_field_is_stored),
        TEST_IN(test_writer_least_message_stores_nulls),
        TEST_IN(test_writer_text_payload_stays_text),
        TEST_IN(test_writer_id_of_the_caller_is_kept),
        TEST_IN(test_writer_finds_a_held_message_whose_row_is_gone),
        TEST_IN(test_writer_bad_messages_are_named_and_the_rest_commits),
        TEST_IN(test_writer_messages_that_the_broker_refuses_are_named),
        TEST_IN(test_writer_messages_of_other_versions_are_told_apart),
        TEST_IN(test_writer_without_ids_queues_nothing),
        TEST_IN(test_writer_on_a_full_file_says_so_and_recovers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
