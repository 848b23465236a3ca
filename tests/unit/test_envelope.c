/* SPDX-License-Identifier: MIT */
/* What stands on the wire: MQTT 5 properties, or JSON on MQTT 3.1.1. */
#include "envelope.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "outbox_store.h"
#include "tempdb.h"
#include "unit.h"

struct press {
    struct tempdb t;
    struct db db;
    struct envelope e;
    int is_open;
    struct arena arena;
    struct row row;
    struct postbag_frame f;
};

static int set_up(void **state)
{
    struct press *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    tempdb_make_outbox(&p->t);
    sql_run(p->t.app, "UPDATE outbox_meta SET"
                      " value = x'000102030405060708090a0b0c0d0e0f'"
                      " WHERE key = 'stream'");
    assert_ok(postbag__db_open(&p->db, p->t.path, DB_WRITE, DB_NORMAL, 0));
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct press *p = *state;

    postbag__envelope_close(&p->e);
    postbag__arena_free(&p->arena);
    postbag__db_close(&p->db);
    tempdb_remove(&p->t);
    free(p);
    return 0;
}

/* Build the frame of the row that these columns make. */
static int build(struct press *p, enum envelope_kind kind, unsigned version,
    const char *columns, const char *values)
{
    struct outbox_store o;
    int err;

    if (p->is_open)
        postbag__envelope_close(&p->e);
    assert_ok(postbag__envelope_open(&p->e, &p->db, kind, "/gw/7"));
    p->is_open = 1;
    sql_run(p->t.app,
        "INSERT INTO outbox(id, created_ms, %s) VALUES"
        " (x'00112233445546778899aabbccddeeff', 1800000000125,"
        " %s)",
        columns, values);
    assert_ok(postbag__outbox_open(&o, &p->db, "main"));
    assert_ok(postbag__outbox_fetch(&o,
        sql_get(p->t.app, "SELECT max(seq) FROM outbox"), &p->arena, &p->row));
    err = postbag__envelope_build(&p->e, &p->row, version, &p->f);
    postbag__outbox_close(&o);
    return err;
}

static void build_ok(struct press *p, enum envelope_kind kind, unsigned version,
    const char *columns, const char *values)
{
    if (build(p, kind, version, columns, values) != POSTBAG_OK)
        fail_msg("%s", p->db.fault.text);
}

/* User properties as "name=value name=value". */
static const char *properties(const struct press *p)
{
    static char out[2000];
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < p->f.property_count; i++)
        used += (size_t)snprintf(out + used, sizeof(out) - used, "%s%s=%s",
            i == 0 ? "" : " ", p->f.properties[i].name,
            p->f.properties[i].value);
    return out;
}

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

/* ---- MQTT 5 ---- */

#define ATTRIBUTES \
    "specversion=1.0 id=00112233-4455-4677-8899-aabbccddeeff source=/gw/7 "

static void test_envelope_v5_attributes_are_user_properties(void **state)
{
    struct press *p = *state;

    build_ok(p, ENVELOPE_CLOUDEVENTS, 5,
        "topic, payload, key, key_version, type, content_type, headers,"
        " retain",
        "'a/b', x'0001', '0012', 3, 'com.example.r', 'text/x',"
        " '{\"traceparent\":\"00-1\", \"n\": 5, \"no\": null}', 1");
    assert_string_equal(properties(p),
        ATTRIBUTES "type=com.example.r time=2027-01-15T08:00:00.125Z"
                   " sequence=000102030405060708090a0b0c0d0e0f-"
                   "00000000000000000001 partitionkey=0012 keyversion=3"
                   " traceparent=00-1 n=5");
    assert_string_equal(p->f.topic, "a/b");
    assert_int_equal(p->f.payload_len, 2);
    assert_memory_equal(p->f.payload, "\0\1", 2);
    assert_string_equal(p->f.content_type, "text/x");
    assert_int_equal(p->f.retain, 1);
    assert_int_equal(p->f.is_text, 0);
}

static void test_envelope_v5_least_row_has_the_required_attributes(void **state)
{
    struct press *p = *state;

    build_ok(p, ENVELOPE_CLOUDEVENTS, 5, "topic, payload", "'t', 'text'");
    assert_string_equal(properties(p),
        ATTRIBUTES "type=postbag.message time=2027-01-15T08:00:00.125Z"
                   " sequence=000102030405060708090a0b0c0d0e0f-"
                   "00000000000000000001");
    assert_null(p->f.content_type);
    assert_null(p->f.response_topic);
    assert_int_equal(p->f.correlation_len, 0);
    assert_int_equal(p->f.is_text, 1);
}

static void test_envelope_v5_response_and_correlation_are_mqtts_own(
    void **state)
{
    struct press *p = *state;

    build_ok(p, ENVELOPE_RAW, 5, "topic, payload, headers",
        "'t', '', '{\"response_topic\":\"re/1\","
        " \"correlation_data\":\"abc\"}'");
    assert_string_equal(p->f.response_topic, "re/1");
    assert_int_equal(p->f.correlation_len, 3);
    assert_memory_equal(p->f.correlation, "abc", 3);
    assert_int_equal(p->f.property_count, 0);
    build_ok(p, ENVELOPE_RAW, 5, "topic, payload, headers",
        "'t', '', '{\"correlation_data_hex\":\"00ff7a\"}'");
    assert_int_equal(p->f.correlation_len, 3);
    assert_memory_equal(p->f.correlation, "\0\xff\x7a", 3);
    assert_null(p->f.response_topic);
}

static void test_envelope_v5_baggage_stays_here(void **state)
{
    struct press *p = *state;

    build_ok(p, ENVELOPE_RAW, 5, "topic, payload, headers",
        "'t', '', '{\"baggage\":\"user=1\",\"subject\":\"s\"}'");
    assert_string_equal(properties(p), "subject=s");
}

static void test_envelope_minimal_has_the_id_only(void **state)
{
    struct press *p = *state;

    build_ok(p, ENVELOPE_MINIMAL, 5, "topic, payload, key, type",
        "'t', 'p', 'k', 'y'");
    assert_string_equal(
        properties(p), "id=00112233-4455-4677-8899-aabbccddeeff");
    build_ok(p, ENVELOPE_MINIMAL, 4, "topic, payload", "'t', 'plain'");
    assert_int_equal(p->f.property_count, 0);
    assert_memory_equal(p->f.payload, "plain", 5);
}

static void test_envelope_raw_has_nothing_of_ours(void **state)
{
    struct press *p = *state;

    for (unsigned version = 4; version <= 5; version++) {
        build_ok(p, ENVELOPE_RAW, version, "topic, payload, key, type",
            "'t', 'plain', 'k', 'y'");
        assert_int_equal(p->f.property_count, 0);
        assert_int_equal(p->f.payload_len, 5);
        assert_memory_equal(p->f.payload, "plain", 5);
    }
}

static void test_envelope_same_row_gives_the_same_bytes(void **state)
{
    struct press *p = *state;
    char first[2000];

    build_ok(p, ENVELOPE_CLOUDEVENTS, 5, "topic, payload, key, headers",
        "'t', 'p', 'k', '{\"a\":\"1\",\"b\":\"2\"}'");
    (void)strcpy(first, properties(p));
    assert_ok(postbag__envelope_build(&p->e, &p->row, 5, &p->f));
    assert_string_equal(properties(p), first);
}

static void test_envelope_v5_what_mqtt_cannot_carry_is_refused(void **state)
{
    static const struct {
        const char *headers, *part;
    } all[] = {
        {"json_object('a', printf('%.*c', 65536, 'x'))", "65535 bytes"},
        {"(WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n"
         " WHERE i < 70) SELECT json_group_object('h' || i, '1') FROM n)",
            "64 user properties"},
        {"'{\"correlation_data_hex\":\"abc\"}'", "odd length"},
        {"'{\"correlation_data_hex\":\"0G\"}'", "not hex"},
    };
    struct press *p = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        char values[300];

        (void)snprintf(values, sizeof(values), "'t', '', %s", all[i].headers);
        assert_int_equal(build(p, ENVELOPE_CLOUDEVENTS, 5,
                             "topic, payload, headers", values),
            POSTBAG_EINVAL);
        assert_has(p->db.fault.text, all[i].part);
    }
}

/* ---- MQTT 3.1.1 ---- */

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
    };
    struct press *p = *state;

    build_ok(p, ENVELOPE_CLOUDEVENTS, 4,
        "topic, payload, key, type, content_type, headers",
        "'t', '{\"on\":true}', '0012', 'com.example.r', 'application/json',"
        " '{\"subject\":\"s\\\"q\",\"baggage\":\"b\"}'");
    for (size_t i = 0; i < COUNT(all); i++)
        assert_string_equal(json(p, all[i][0]), all[i][1]);
    assert_int_equal(p->f.property_count, 0);
    assert_string_equal(p->f.topic, "t");
}

static void test_envelope_v4_key_version_is_there(void **state)
{
    struct press *p = *state;

    build_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, key, key_version",
        "'t', '', 'k', 7");
    assert_string_equal(json(p, "$.keyversion"), "text 7");
    build_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, key", "'t', '', 'k'");
    assert_string_equal(json(p, "$.keyversion"), "none");
}

static void test_envelope_v4_payload_keeps_its_bytes(void **state)
{
    static const struct {
        const char *payload, *path, *value;
    } all[] = {
        {"'plain text'", "$.data", "text plain text"},
        {"'007'", "$.data", "text 007"},
        {"'42'", "$.data", "integer 42"},
        {"''", "$.data", "text "},
        {"x''", "$.data", "text "},
        {"x'7B7D'", "$.data", "object {}"},
        {"x'00ff'", "$.data_base64", "text AP8="},
        {"x'61006200'", "$.data_base64", "text YQBiAA=="},
        {"x'ff'", "$.data_base64", "text /w=="},
        {"x'fffefd'", "$.data_base64", "text //79"},
        {"'a\"b\\c'", "$.data", "text a\"b\\c"},
    };
    struct press *p = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        char values[100];

        (void)snprintf(values, sizeof(values), "'t', %s", all[i].payload);
        build_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload", values);
        assert_string_equal(json(p, all[i].path), all[i].value);
    }
}

static void test_envelope_v4_own_attributes_win_over_headers(void **state)
{
    struct press *p = *state;

    build_ok(p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload, headers",
        "'t', 'p', '{\"id\":\"forged\",\"data\":\"forged\"}'");
    assert_string_equal(
        json(p, "$.id"), "text 00112233-4455-4677-8899-aabbccddeeff");
    assert_string_equal(json(p, "$.data"), "text p");
}

static void test_envelope_v4_large_binary_payload_is_whole(void **state)
{
    struct press *p = *state;

    build_ok(
        p, ENVELOPE_CLOUDEVENTS, 4, "topic, payload", "'t', zeroblob(65536)");
    assert_in_range(p->f.payload_len, 87384 + 100, 87384 + 500);
    assert_non_null(
        memmem(p->f.payload, p->f.payload_len, "AAAAAAAAAA==\"", 13));
}

/* ---- both ---- */

static void test_envelope_text_that_is_not_utf8_is_not_marked_as_text(
    void **state)
{
    struct press *p = *state;

    build_ok(p, ENVELOPE_RAW, 5, "topic, payload", "'t', CAST(x'ff' AS TEXT)");
    assert_int_equal(p->f.is_text, 0);
    assert_int_equal(p->f.payload_len, 1);
}

static void test_envelope_kind_knows_its_names(void **state)
{
    enum envelope_kind kind = ENVELOPE_RAW;

    (void)state;
    assert_ok(postbag__envelope_kind("cloudevents", &kind));
    assert_int_equal(kind, ENVELOPE_CLOUDEVENTS);
    assert_ok(postbag__envelope_kind("minimal", &kind));
    assert_int_equal(kind, ENVELOPE_MINIMAL);
    assert_ok(postbag__envelope_kind("raw", &kind));
    assert_int_equal(kind, ENVELOPE_RAW);
    assert_int_equal(postbag__envelope_kind("RAW", &kind), POSTBAG_EINVAL);
}

static void test_envelope_without_a_stream_id_is_corrupt(void **state)
{
    struct press *p = *state;

    sql_run(p->t.app, "DELETE FROM outbox_meta WHERE key = 'stream'");
    assert_int_equal(postbag__envelope_open(&p->e, &p->db, ENVELOPE_RAW, "/"),
        POSTBAG_ECORRUPT);
}

static void test_envelope_frame_size_is_an_upper_bound(void **state)
{
    const struct postbag_property property = {"name", "value"};
    const struct postbag_frame f = {
        .topic = "topic",
        .payload = "payload",
        .payload_len = 7,
        .content_type = "ct",
        .response_topic = "re",
        .correlation = "co",
        .correlation_len = 2,
        .properties = &property,
        .property_count = 1,
    };

    (void)state;
    /* PUBLISH: 1 + 1, topic 2 + 5, packet id 2, property length 1, content
       type 3 + 2, response 3 + 2, correlation 3 + 2, user 1 + 2 + 4 + 2 + 5,
       payload 7 */
    assert_in_range(postbag__frame_size(&f), 48, 48 + 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_envelope_v5_attributes_are_user_properties),
        TEST_IN(test_envelope_v5_least_row_has_the_required_attributes),
        TEST_IN(test_envelope_v5_response_and_correlation_are_mqtts_own),
        TEST_IN(test_envelope_v5_baggage_stays_here),
        TEST_IN(test_envelope_minimal_has_the_id_only),
        TEST_IN(test_envelope_raw_has_nothing_of_ours),
        TEST_IN(test_envelope_same_row_gives_the_same_bytes),
        TEST_IN(test_envelope_v5_what_mqtt_cannot_carry_is_refused),
        TEST_IN(test_envelope_v4_is_a_structured_cloud_event),
        TEST_IN(test_envelope_v4_key_version_is_there),
        TEST_IN(test_envelope_v4_payload_keeps_its_bytes),
        TEST_IN(test_envelope_v4_own_attributes_win_over_headers),
        TEST_IN(test_envelope_v4_large_binary_payload_is_whole),
        TEST_IN(test_envelope_text_that_is_not_utf8_is_not_marked_as_text),
        TEST_IN(test_envelope_kind_knows_its_names),
        TEST_IN(test_envelope_without_a_stream_id_is_corrupt),
        TEST_IN(test_envelope_frame_size_is_an_upper_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
