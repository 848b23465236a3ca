/* SPDX-License-Identifier: MIT */
/* The event as one JSON object, for MQTT 3.1.1. */
#include "press.h"

/* A value of the JSON payload, by SQLite's own functions. */
static const char *json(struct press *p, const char *path)
{
    static char out[300];
    sqlite3_stmt *s = NULL;

    assert_int_equal(sqlite3_prepare_v2(p->t.app,
                         "SELECT json_valid(?1), json_type(?1, ?2) || ' '"
                         " || json_extract(?1, ?2)",
                         -1, &s, NULL),
        SQLITE_OK);
    (void)sqlite3_bind_text(
        s, 1, p->f.payload, (int)p->f.payload_len, SQLITE_STATIC);
    (void)sqlite3_bind_text(s, 2, path, -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(s, 0), 1);
    (void)snprintf(out, sizeof(out), "%s",
        sqlite3_column_text(s, 1) == NULL
            ? "none"
            : (const char *)sqlite3_column_text(s, 1));
    (void)sqlite3_finalize(s);
    return out;
}

static void test_envelope_v4_is_a_structured_cloud_event(void **state)
{
    static const char *const all[][2] = {
        {"$.specversion", "text 1.0"},
        {"$.id", "text 00112233-4455-4677-8899-aabbccddeeff"},
        {"$.source", "text /gw/7"},
        {"$.type", "text com.example.r"},
        {"$.time", "text 2027-01-15T08:00:00.125Z"},
        {"$.sequence",
            "text 000102030405060708090a0b0c0d0e0f-00000000000000000001"},
        {"$.partitionkey", "text 0012"},
        {"$.datacontenttype", "text application/json"},
        {"$.data.on", "true 1"},
        {"$.data_base64", "none"},
        {"$.subject", "text s\"q"},
        {"$.baggage", "none"},
        {"$.no", "none"},
        {"$.n", "integer 7"},
    };
    struct press *p = *state;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 4,
        "topic, payload, key, type, content_type, headers",
        "'t', '{\"on\":true}', '0012', 'com.example.r', 'application/json',"
        " '{\"subject\":\"s\\\"q\",\"baggage\":\"b\",\"no\":null,\"n\":7}'");
    for (size_t i = 0; i < COUNT(all); i++)
        assert_string_equal(json(p, all[i][0]), all[i][1]);
    assert_int_equal(p->f.property_count, 0);
    assert_string_equal(p->f.topic, "t");
}

static void test_envelope_v4_key_version_is_there(void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, key, key_version",
        "'t', '', 'k', 7");
    assert_string_equal(json(p, "$.keyversion"), "text 7");
    press_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, key", "'t', '', 'k'");
    assert_string_equal(json(p, "$.keyversion"), "none");
}

static void test_envelope_v4_replay_says_so(void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload", "'t', ''");
    assert_string_equal(json(p, "$.replay"), "none");
    p->row.is_replay = 1;
    assert_ok(postbag__envelope_build(&p->e, &p->row, 4, &p->now, &p->f));
    assert_string_equal(json(p, "$.replay"), "true 1");
}

static void test_envelope_v4_time_of_the_headers_replaces_ours(void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, headers",
        "'t', '', '{\"time\":\"2026-01-01T00:00:00Z\"}'");
    assert_string_equal(json(p, "$.time"), "text 2026-01-01T00:00:00Z");
    press_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, headers",
        "'t', '', '{\"time\":null}'");
    assert_string_equal(json(p, "$.time"), "text 2027-01-15T08:00:00.125Z");
}

/* Attributes have letters and digits only. */
static void test_envelope_v4_response_and_correlation_are_attributes(
    void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, headers",
        "'t', '', '{\"response_topic\":\"re/1\","
        " \"correlation_data\":\"abc\"}'");
    assert_string_equal(json(p, "$.responsetopic"), "text re/1");
    assert_string_equal(json(p, "$.correlationdata"), "text abc");
    assert_string_equal(json(p, "$.correlationdatahex"), "none");
    assert_string_equal(json(p, "$.response_topic"), "none");
    assert_string_equal(json(p, "$.correlation_data"), "none");
    press_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, headers",
        "'t', '', '{\"correlation_data_hex\":\"00ff\"}'");
    assert_string_equal(json(p, "$.correlationdatahex"), "text 00ff");
    assert_string_equal(json(p, "$.correlationdata"), "none");
    assert_string_equal(json(p, "$.correlation_data_hex"), "none");
}

static void test_envelope_v4_ttl_becomes_a_date(void **state)
{
    static const struct {
        const char *columns, *values, *expiry;
    } all[] = {
        {"topic, payload, ttl_ms", "'t', '', 60000",
            "text 2027-01-15T08:01:00.125Z"},
        {"topic, payload", "'t', ''", "none"},
        {"topic, payload, ttl_ms", "'t', '', 9223372036854775807", "none"},
        {"topic, payload, headers", "'t', '', '{\"expirytime\":\"x\"}'",
            "text x"},
        {"topic, payload, ttl_ms, headers",
            "'t', '', 60000, '{\"expirytime\":\"x\"}'", "text x"},
    };
    struct press *p = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        press_ok(p, ENVELOPE_CLOUDEVENTS, 4, all[i].columns, all[i].values);
        assert_string_equal(json(p, "$.expirytime"), all[i].expiry);
    }
    /* put before the clock was set */
    press_ok(
        p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, ttl_ms", "'t', '', 5");
    p->row.created_ms = 60000;
    assert_ok(postbag__envelope_build(&p->e, &p->row, 4, &p->now, &p->f));
    assert_string_equal(json(p, "$.expirytime"), "none");
}

/* In boot 7, a minute ago. */
static void press_old_row(struct press *p, const char *headers)
{
    press_ok(
        p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, ttl_ms, headers", headers);
    p->row.created_ms = 5000;
    p->row.mono_ms = 5000;
    memset(p->row.boot, 7, sizeof(p->row.boot));
    p->now.mono_ms = 65000;
    assert_ok(postbag__envelope_build(&p->e, &p->row, 4, &p->now, &p->f));
}

static void test_envelope_v4_time_before_the_clock_was_set(void **state)
{
    struct press *p = *state;

    memset(p->now.boot, 7, sizeof(p->now.boot));
    p->now.wall_ms = INT64_C(1800000060125);
    press_old_row(p, "'t', '', 30000, NULL");
    assert_string_equal(json(p, "$.time"), "text 2027-01-15T08:00:00.125Z");
    assert_string_equal(
        json(p, "$.expirytime"), "text 2027-01-15T08:00:30.125Z");
    assert_string_equal(json(p, "$.timequality"), "none");
    p->now.wall_ms = 65000;
    press_old_row(p, "'t', '', 30000, NULL");
    assert_string_equal(json(p, "$.time"), "none");
    assert_string_equal(json(p, "$.expirytime"), "none");
    assert_string_equal(json(p, "$.timequality"), "text unset");
    press_old_row(p, "'t', '', 30000, '{\"time\":\"mine\"}'");
    assert_string_equal(json(p, "$.time"), "text mine");
    assert_string_equal(json(p, "$.timequality"), "none");
    press_old_row(p, "'t', '', 30000, '{\"timequality\":\"bad\"}'");
    assert_string_equal(json(p, "$.timequality"), "text bad");
}

/* What a consumer makes of the payload, with and without a content type. */
static void test_envelope_v4_payload_comes_back_as_it_was(void **state)
{
#define JSON "'application/json'"
#define TEXT "'text/plain'"
#define NONE "NULL"
    static const struct {
        const char *type, *payload, *path, *value, *said;
    } all[] = {
        {NONE, "'plain text'", "$.data", "text plain text", "text text/plain"},
        {NONE, "'007'", "$.data", "text 007", "text text/plain"},
        {NONE, "'a\"b\\c'", "$.data", "text a\"b\\c", "text text/plain"},
        {NONE, "'42'", "$.data", "integer 42", "none"},
        {NONE, "'\"q\"'", "$.data", "text q", "none"},
        {NONE, "x'7B7D'", "$.data", "object {}", "none"},
        {NONE, "x'00ff'", "$.data_base64",
            "text AP8=", "text application/octet-stream"},
        {NONE, "x'61006200'", "$.data_base64",
            "text YQBiAA==", "text application/octet-stream"},
        {NONE, "''", "$.data", "none", "none"},
        {NONE, "x''", "$.data_base64", "none", "none"},
        {TEXT, "'42'", "$.data", "text 42", "text text/plain"},
        {TEXT, "'\"q\"'", "$.data", "text \"q\"", "text text/plain"},
        {TEXT, "'{}'", "$.data", "text {}", "text text/plain"},
        {TEXT, "''", "$.data", "none", "text text/plain"},
        {TEXT, "x'ff'", "$.data_base64", "text /w==", "text text/plain"},
        {JSON, "'42'", "$.data", "integer 42", "text application/json"},
        {JSON, "'1.500'", "$.data", "real 1.5", "text application/json"},
        {JSON, "'null'", "$.data_base64", "none", "text application/json"},
        {JSON, "'{\"on\": true }'", "$.data", "object {\"on\":true}",
            "text application/json"},
        {JSON, "'oops'", "$.data_base64",
            "text b29wcw==", "text application/json"},
        {JSON, "x'fffefd'", "$.data_base64", "text //79",
            "text application/json"},
        {"'Text/JSON ;charset=utf-8'", "'42'", "$.data", "integer 42",
            "text Text/JSON ;charset=utf-8"},
        {"'application/x+JSON'", "'42'", "$.data", "integer 42",
            "text application/x+JSON"},
        {"'application/jsonl'", "'42'", "$.data", "text 42",
            "text application/jsonl"},
        {"'json'", "'42'", "$.data", "text 42", "text json"},
    };
    struct press *p = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        char values[100];

        (void)snprintf(
            values, sizeof(values), "'t', %s, %s", all[i].payload, all[i].type);
        press_ok(
            p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, content_type", values);
        assert_string_equal(json(p, all[i].path), all[i].value);
        assert_string_equal(json(p, "$.datacontenttype"), all[i].said);
    }
}

/* Only the blanks between the tokens go. */
static void test_envelope_v4_json_keeps_its_tokens(void **state)
{
    static const char data[] = "\"data\":{\"b\":1.50e+07,\"a\":\"\\u00e9/\","
                               "\"b\":12345678901234567890}}";
    struct press *p = *state;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload",
        "'t', ' {\"b\" : 1.50e+07, \"a\":\"\\u00e9/\",\n"
        "\"b\":12345678901234567890 } '");
    assert_non_null(
        memmem(p->f.payload, p->f.payload_len, data, sizeof(data) - 1));
}

static void test_envelope_v4_large_binary_payload_is_whole(void **state)
{
    struct press *p = *state;

    press_ok(
        p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload", "'t', zeroblob(65536)");
    assert_in_range(p->f.payload_len, 87384 + 100, 87384 + 500);
    assert_non_null(
        memmem(p->f.payload, p->f.payload_len, "AAAAAAAAAA==\"", 13));
}

static void test_envelope_v4_text_that_is_not_utf8_is_refused(void **state)
{
    static const char *const columns[] = {"key", "type"};
    struct press *p = *state;

    for (size_t i = 0; i < COUNT(columns); i++) {
        char names[40];

        (void)snprintf(names, sizeof(names), "topic, payload, %s", columns[i]);
        assert_int_equal(press_build(p, ENVELOPE_CLOUDEVENTS, 4, names,
                             "'t', '', CAST(x'ff' AS TEXT)"),
            POSTBAG_EINVAL);
        assert_has(p->db.fault.text, "not UTF-8");
    }
}

/* As on MQTT 5: an attribute is a text. */
static void test_envelope_v4_attributes_of_the_headers_are_texts(void **state)
{
    static const char *const all[][2] = {
        {"$.time", "text Inf"},
        {"$.expirytime", "text true"},
        {"$.responsetopic", "text 1.5"},
        {"$.correlationdata", "text -2"},
        {"$.correlationdatahex", "text 12"},
        {"$.most", "text Inf"},
        {"$.least", "text -Inf"},
        {"$.on", "true 1"},
        {"$.off", "false 0"},
        {"$.word", "text true"},
    };
    struct press *p = *state;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, headers",
        "'t', '', '{\"time\":1e400,\"expirytime\":true,\"response_topic\":1.5,"
        "\"correlation_data\":-2,\"correlation_data_hex\":12,\"most\":1e400,"
        "\"least\":-1e400,\"on\":true,\"off\":false,\"word\":\"true\"}'");
    for (size_t i = 0; i < COUNT(all); i++)
        assert_string_equal(json(p, all[i][0]), all[i][1]);
}

/* However often it is there, and however it is written. */
static void test_envelope_v4_baggage_stays_here(void **state)
{
    struct press *p = *state;

    sql_run(p->t.app, "DROP TRIGGER outbox_check");
    press_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, headers",
        "'t', '', '{\"baggage\":\"secret\",\"a\":1,\"baggage\":\"secret\","
        "\"\\u0062aggage\":\"secret\"}'");
    assert_string_equal(json(p, "$.a"), "integer 1");
    assert_null(memmem(p->f.payload, p->f.payload_len, "secret", 6));
}

/* Such rows came past the guard, or are texts that SQLite takes for JSON. */
static void test_envelope_headers_that_no_event_can_hold_are_refused(
    void **state)
{
    static const struct {
        const char *headers, *part;
    } all[] = {
        {"'{\"a\":'", "malformed: malformed JSON"},
        {"'{\"a\":\"\\ud800\"}'", "not UTF-8"},
        {"CAST(x'7b2261223a22ff227d' AS TEXT)", "not UTF-8"},
    };
    struct press *p = *state;

    sql_run(p->t.app, "DROP TRIGGER outbox_check");
    for (size_t i = 0; i < 2 * COUNT(all); i++) {
        char values[80];

        (void)snprintf(
            values, sizeof(values), "'t', '', %s", all[i / 2].headers);
        assert_int_equal(press_build(p, ENVELOPE_CLOUDEVENTS, 4 + i % 2,
                             "topic, payload, headers", values),
            POSTBAG_EINVAL);
        assert_has(p->db.fault.text, all[i / 2].part);
    }
}

static int stop(void *arg)
{
    (void)arg;
    return 1;
}

static void test_envelope_interruption_is_not_the_rows_fault(void **state)
{
    struct press *p = *state;

    for (unsigned version = 4; version <= 5; version++) {
        press_ok(p, ENVELOPE_CLOUDEVENTS, version, "topic, payload, headers",
            "'t', '', '{\"a\":\"1\"}'");
        sqlite3_progress_handler(p->db.handle, 1, stop, NULL);
        assert_int_equal(
            postbag__envelope_build(&p->e, &p->row, version, &p->now, &p->f),
            POSTBAG_EAGAIN);
        sqlite3_progress_handler(p->db.handle, 0, NULL, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PRESS(test_envelope_v4_is_a_structured_cloud_event),
        PRESS(test_envelope_v4_key_version_is_there),
        PRESS(test_envelope_v4_replay_says_so),
        PRESS(test_envelope_v4_time_of_the_headers_replaces_ours),
        PRESS(test_envelope_v4_response_and_correlation_are_attributes),
        PRESS(test_envelope_v4_ttl_becomes_a_date),
        PRESS(test_envelope_v4_time_before_the_clock_was_set),
        PRESS(test_envelope_v4_payload_comes_back_as_it_was),
        PRESS(test_envelope_v4_json_keeps_its_tokens),
        PRESS(test_envelope_v4_large_binary_payload_is_whole),
        PRESS(test_envelope_v4_text_that_is_not_utf8_is_refused),
        PRESS(test_envelope_v4_attributes_of_the_headers_are_texts),
        PRESS(test_envelope_v4_baggage_stays_here),
        PRESS(test_envelope_headers_that_no_event_can_hold_are_refused),
        PRESS(test_envelope_interruption_is_not_the_rows_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
