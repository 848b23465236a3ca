/* SPDX-License-Identifier: MIT */
/* The SQL of inbox rows, each statement against rows in the file. */
#include "temp_db.h"

#include <sqlite3.h>
#include <string.h>

#include "inbox_store.h"

static const uint8_t this_boot[16] = {1};
static const uint8_t other_boot[16] = {2};
static const uint8_t content_a[32] = {0xa};
static const uint8_t content_b[32] = {0xb};

struct world {
    struct temp_db t;
    struct inbox_store s;
    struct inbox_now now;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    temp_db_open(&w->t);
    postbag__inbox_open(&w->s, &w->t.db);
    w->now.boot = this_boot;
    w->now.mono_ms = 5000;
    w->now.wall_ms = INT64_C(1800000000000);
    w->now.furthest_ms = INT64_MAX;
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    postbag__inbox_close(&w->s);
    temp_db_close(&w->t);
    free(w);
    return 0;
}

static struct inbox_arrival arrival(const struct world *w, const char *id)
{
    struct inbox_arrival a = {.consumer = "c",
        .source = "/s",
        .id = id,
        .id_len = strlen(id),
        .id_is_text = 1,
        .content_hash = content_a,
        .topic = "cmd",
        .payload = "p\0q",
        .payload_len = 3,
        .now = w->now};

    return a;
}

static enum inbox_accepted put(struct world *w, const struct inbox_arrival *a)
{
    enum inbox_accepted what;

    assert_int_equal(postbag__inbox_accept(&w->s, a, &what), POSTBAG_OK);
    return what;
}

static void put_keyed(struct world *w, const char *id, const char *key)
{
    struct inbox_arrival a = arrival(w, id);

    a.key = key;
    assert_int_equal(put(w, &a), INBOX_NEW);
}

/* The arrival of the next row, 0 for none. */
static int64_t next(struct world *w, const char *consumer)
{
    struct inbox_row row;
    int64_t number = 0;
    int found;

    assert_int_equal(
        postbag__inbox_next(&w->s, consumer, &w->now, &row, &found),
        POSTBAG_OK);
    if (found)
        number = row.arrival;
    postbag__inbox_release(&w->s);
    return number;
}

static void test_inbox_store_first_arrival_is_due(void **state)
{
    struct world *w = *state;
    struct inbox_arrival a = arrival(w, "1");

    assert_int_equal(put(w, &a), INBOX_NEW);
    assert_int_equal(next(w, "c"), 1);
    assert_int_equal(next(w, "other"), 0);
}

static void test_inbox_store_trace_is_handed_over(void **state)
{
    struct world *w = *state;
    struct inbox_arrival a = arrival(w, "1");
    struct inbox_row row;
    int found;

    a.headers = "{\"traceparent\":\"00-1-2-01\",\"tracestate\":\"a=b\","
                "\"correlationid\":\"order 7\"}";
    assert_int_equal(put(w, &a), INBOX_NEW);
    assert_int_equal(
        postbag__inbox_next(&w->s, "c", &w->now, &row, &found), POSTBAG_OK);
    assert_string_equal(row.command.traceparent, "00-1-2-01");
    assert_string_equal(row.command.tracestate, "a=b");
    assert_string_equal(row.command.correlation_id, "order 7");
    postbag__inbox_release(&w->s);
    temp_db_run(&w->t, "UPDATE inbox SET headers = 'odd'");
    assert_int_equal(
        postbag__inbox_next(&w->s, "c", &w->now, &row, &found), POSTBAG_OK);
    assert_null(row.command.traceparent);
    postbag__inbox_release(&w->s);
}

static void test_inbox_store_same_content_is_counted_in_its_row(void **state)
{
    struct world *w = *state;
    struct inbox_arrival a = arrival(w, "1");

    assert_int_equal(put(w, &a), INBOX_NEW);
    assert_int_equal(put(w, &a), INBOX_DUPLICATE);
    assert_int_equal(put(w, &a), INBOX_DUPLICATE);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox"), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT seen FROM inbox"), 3);
}

static void test_inbox_store_other_content_changes_nothing(void **state)
{
    struct world *w = *state;
    struct inbox_arrival a = arrival(w, "1");

    assert_int_equal(put(w, &a), INBOX_NEW);
    a.content_hash = content_b;
    assert_int_equal(put(w, &a), INBOX_CONFLICT);
    assert_int_equal(temp_db_get(&w->t, "SELECT sum(seen) FROM inbox"), 1);
}

static void test_inbox_store_other_name_is_other_row(void **state)
{
    struct world *w = *state;
    struct inbox_arrival a = arrival(w, "1");

    assert_int_equal(put(w, &a), INBOX_NEW);
    a.consumer = "d";
    assert_int_equal(put(w, &a), INBOX_NEW);
    a.source = "/t";
    assert_int_equal(put(w, &a), INBOX_NEW);
    a.id_is_text = 0;
    assert_int_equal(put(w, &a), INBOX_NEW);
    a.id = "2";
    assert_int_equal(put(w, &a), INBOX_NEW);
}

/* What one statement's bindings left behind must not show in the next row. */
static void test_inbox_store_absent_fields_are_null(void **state)
{
    struct world *w = *state;
    struct inbox_arrival full = arrival(w, "1");
    struct inbox_arrival bare = arrival(w, "2");

    full.content_type = "text/plain";
    full.key = "k";
    full.has_key_version = 1;
    full.key_version = 7;
    full.response_topic = "re";
    full.correlation = "x";
    full.correlation_len = 1;
    full.headers = "{}";
    bare.payload = NULL;
    assert_int_equal(put(w, &full), INBOX_NEW);
    assert_int_equal(put(w, &bare), INBOX_NEW);
    assert_int_equal(
        temp_db_get(&w->t,
            "SELECT count(*) FROM inbox WHERE arrival = 1"
            " AND content_type = 'text/plain' AND key = 'k'"
            " AND key_version = 7 AND response_topic = 're'"
            " AND correlation_data = x'78' AND headers = '{}'"
            " AND payload = x'700071' AND received_ms = 1800000000000"
            " AND boot = x'01000000000000000000000000000000'"
            " AND mono_ms = 5000"),
        1);
    assert_int_equal(
        temp_db_get(&w->t,
            "SELECT count(*) FROM inbox WHERE arrival = 2"
            " AND content_type IS NULL AND key IS NULL AND payload IS NULL"
            " AND key_version IS NULL AND response_topic IS NULL"
            " AND correlation_data IS NULL AND headers IS NULL"),
        1);
}

static void test_inbox_store_row_comes_back_as_a_command(void **state)
{
    struct world *w = *state;
    struct inbox_arrival a = arrival(w, "1");
    struct inbox_row row;
    int found;

    a.id = "\0\1";
    a.id_len = 2;
    a.id_is_text = 0;
    a.key = "k";
    a.correlation = "xy";
    a.correlation_len = 2;
    assert_int_equal(put(w, &a), INBOX_NEW);
    assert_int_equal(
        postbag__inbox_next(&w->s, "c", &w->now, &row, &found), POSTBAG_OK);
    assert_int_equal(found, 1);
    assert_int_equal(row.command.struct_size, sizeof(row.command));
    assert_string_equal(row.command.consumer, "c");
    assert_string_equal(row.command.source, "/s");
    assert_int_equal(row.command.id_len, 2);
    assert_memory_equal(row.command.id, "\0\1", 2);
    assert_string_equal(row.command.topic, "cmd");
    assert_int_equal(row.command.payload_len, 3);
    assert_memory_equal(row.command.payload, "p\0q", 3);
    assert_string_equal(row.command.key, "k");
    assert_null(row.command.content_type);
    assert_null(row.command.response_topic);
    assert_null(row.command.headers);
    assert_int_equal(row.command.correlation_len, 2);
    assert_int_equal(row.command.attempt, 1);
    assert_int_equal(row.command.arrival, 1);
    assert_true(row.command.received_ms == w->now.wall_ms);
    postbag__inbox_release(&w->s);
}

static void test_inbox_store_done_forgets_payload_not_identity(void **state)
{
    struct world *w = *state;
    struct inbox_arrival a = arrival(w, "1");

    assert_int_equal(put(w, &a), INBOX_NEW);
    w->now.mono_ms = 6000;
    assert_int_equal(postbag__inbox_done(&w->s, 1, &w->now, 1), POSTBAG_OK);
    assert_int_equal(next(w, "c"), 0);
    assert_int_equal(temp_db_get(&w->t,
                         "SELECT count(*) FROM inbox WHERE state = 'done'"
                         " AND payload IS NULL AND processed_ms = 1800000000000"
                         " AND content_type IS NULL AND response_topic IS NULL"
                         " AND headers IS NULL AND topic = 'cmd'"
                         " AND boot = x'01000000000000000000000000000000'"
                         " AND mono_ms = 6000"),
        1);
    assert_int_equal(put(w, &a), INBOX_DUPLICATE);
    a.content_hash = content_b;
    assert_int_equal(put(w, &a), INBOX_CONFLICT);
}

static void test_inbox_store_outcome_of_finished_row_is_refused(void **state)
{
    struct world *w = *state;

    put_keyed(w, "1", NULL);
    assert_int_equal(postbag__inbox_done(&w->s, 1, &w->now, 1), POSTBAG_OK);
    assert_int_equal(
        postbag__inbox_done(&w->s, 1, &w->now, 1), POSTBAG_ENOTFOUND);
    assert_int_equal(
        postbag__inbox_dead(&w->s, 1, &w->now, 1, "e"), POSTBAG_ENOTFOUND);
    assert_int_equal(
        postbag__inbox_retry(&w->s, 1, &w->now, 1, 1, "e"), POSTBAG_ENOTFOUND);
    assert_int_equal(
        temp_db_get(&w->t,
            "SELECT state = 'done' AND attempts = 1 AND error IS NULL"
            " FROM inbox"),
        1);
}

static void test_inbox_store_retry_waits_for_its_time(void **state)
{
    struct world *w = *state;
    int64_t at = 0;

    put_keyed(w, "1", NULL);
    assert_int_equal(
        postbag__inbox_retry(&w->s, 1, &w->now, 700, 1, "why"), POSTBAG_OK);
    assert_int_equal(next(w, "c"), 0);
    assert_int_equal(
        postbag__inbox_earliest(&w->s, "c", &w->now, &at), POSTBAG_OK);
    assert_int_equal(at, 5700);
    w->now.mono_ms = 5699;
    assert_int_equal(next(w, "c"), 0);
    w->now.mono_ms = 5700;
    assert_int_equal(next(w, "c"), 1);
    assert_int_equal(
        postbag__inbox_earliest(&w->s, "c", &w->now, &at), POSTBAG_ENOTFOUND);
}

/* Its deadline counts from a boot that is over. */
static void test_inbox_store_retry_of_other_boot_is_due(void **state)
{
    struct world *w = *state;
    int64_t at;

    put_keyed(w, "1", NULL);
    assert_int_equal(
        postbag__inbox_retry(&w->s, 1, &w->now, 700, 1, "why"), POSTBAG_OK);
    w->now.boot = other_boot;
    w->now.mono_ms = 10;
    assert_int_equal(next(w, "c"), 1);
    assert_int_equal(
        postbag__inbox_earliest(&w->s, "c", &w->now, &at), POSTBAG_ENOTFOUND);
}

static void test_inbox_store_key_waits_for_its_elder_only(void **state)
{
    struct world *w = *state;

    put_keyed(w, "1", "k");
    put_keyed(w, "2", "k");
    put_keyed(w, "3", "other");
    put_keyed(w, "4", NULL);
    assert_int_equal(
        postbag__inbox_retry(&w->s, 1, &w->now, 700, 1, "why"), POSTBAG_OK);
    assert_int_equal(next(w, "c"), 3);
    assert_int_equal(postbag__inbox_done(&w->s, 3, &w->now, 1), POSTBAG_OK);
    assert_int_equal(next(w, "c"), 4);
    assert_int_equal(postbag__inbox_done(&w->s, 4, &w->now, 1), POSTBAG_OK);
    assert_int_equal(next(w, "c"), 0);
    assert_int_equal(
        postbag__inbox_dead(&w->s, 1, &w->now, 1, "why"), POSTBAG_OK);
    assert_int_equal(next(w, "c"), 2);
}

static void test_inbox_store_key_of_other_consumer_does_not_hold(void **state)
{
    struct world *w = *state;
    struct inbox_arrival a = arrival(w, "1");

    a.key = "k";
    assert_int_equal(put(w, &a), INBOX_NEW);
    a.consumer = "d";
    assert_int_equal(put(w, &a), INBOX_NEW);
    assert_int_equal(next(w, "d"), 2);
}

/* Work of the statement for the next row: steps of SQLite's machine. */
static int64_t steps_of_next(struct world *w, int64_t expected)
{
    sqlite3_stmt *next_row;

    assert_int_equal(next(w, "c"), expected);
    next_row = w->s.stmts[INBOX_NEXT].handle;
    return sqlite3_stmt_status(next_row, SQLITE_STMTSTATUS_VM_STEP, 1);
}

/* A retrying row of each key and one behind it: one look at each, no more. */
static void test_inbox_store_next_behind_many_retries_is_found_soon(
    void **state)
{
    struct world *w = *state;
    enum { KEYS = 1000 };

    temp_db_run(&w->t,
        "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        " SELECT i + 1 FROM n WHERE i < 2000)"
        " INSERT INTO inbox(consumer, id, key, due_boot, due_ms, payload,"
        "  received_ms) SELECT 'c', i, 'k' || (i % 1000),"
        "  iif(i <= 1000, x'01000000000000000000000000000000', NULL),"
        "  iif(i <= 1000, 9000, NULL), '', 1 FROM n");
    put_keyed(w, "last", "free");
    assert_int_equal(steps_of_next(w, 2 * KEYS + 1) < 2 * KEYS * 50, 1);
}

static void test_inbox_store_born_dead_is_not_due(void **state)
{
    struct world *w = *state;
    struct inbox_arrival a = arrival(w, "1");

    a.dead = "no id";
    assert_int_equal(put(w, &a), INBOX_NEW);
    assert_int_equal(next(w, "c"), 0);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM inbox"
                           " WHERE state = 'dead' AND error = 'no id'"),
        1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_inbox_store_first_arrival_is_due),
        TEST(test_inbox_store_trace_is_handed_over),
        TEST(test_inbox_store_same_content_is_counted_in_its_row),
        TEST(test_inbox_store_other_content_changes_nothing),
        TEST(test_inbox_store_other_name_is_other_row),
        TEST(test_inbox_store_absent_fields_are_null),
        TEST(test_inbox_store_row_comes_back_as_a_command),
        TEST(test_inbox_store_done_forgets_payload_not_identity),
        TEST(test_inbox_store_outcome_of_finished_row_is_refused),
        TEST(test_inbox_store_retry_waits_for_its_time),
        TEST(test_inbox_store_retry_of_other_boot_is_due),
        TEST(test_inbox_store_key_waits_for_its_elder_only),
        TEST(test_inbox_store_key_of_other_consumer_does_not_hold),
        TEST(test_inbox_store_next_behind_many_retries_is_found_soon),
        TEST(test_inbox_store_born_dead_is_not_due),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
