/* SPDX-License-Identifier: MIT */
/* What stands in the properties of MQTT 5, and what can never leave. */
#include "press.h"

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

/* ---- MQTT 5 ---- */

#define ATTRIBUTES \
    "specversion=1.0 id=00112233-4455-4677-8899-aabbccddeeff source=/gw/7 "

static void test_envelope_v5_attributes_are_user_properties(void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 5,
        "topic, payload, key, key_version, type, content_type, headers,"
        " retain",
        "'a/b', x'0001', '0012', 3, 'com.example.r', 'text/x',"
        " '{\"traceparent\":\"00-1\", \"n\": 5, \"no\": null,"
        "   \"on\": true, \"off\": false}', 1");
    assert_string_equal(properties(p),
        "traceparent=00-1 n=5 on=true off=false " ATTRIBUTES
        "type=com.example.r time=2027-01-15T08:00:00.125Z"
        " sequence=000102030405060708090a0b0c0d0e0f-"
        "00000000000000000001 partitionkey=0012 keyversion=3");
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

    press_ok(p, ENVELOPE_CLOUDEVENTS, 5, "topic, payload", "'t', 'text'");
    assert_string_equal(properties(p),
        ATTRIBUTES "type=postbag.message time=2027-01-15T08:00:00.125Z"
                   " sequence=000102030405060708090a0b0c0d0e0f-"
                   "00000000000000000001");
    assert_null(p->f.content_type);
    assert_null(p->f.response_topic);
    assert_int_equal(p->f.correlation_len, 0);
    assert_int_equal(p->f.is_text, 1);
}

static void test_envelope_v5_replay_says_so(void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 5, "topic, payload", "'t', ''");
    assert_null(strstr(properties(p), "replay="));
    p->row.is_replay = 1;
    assert_ok(postbag__envelope_build(&p->e, &p->row, 5, &p->now, &p->f));
    assert_int_equal(strncmp(properties(p), "replay=true " ATTRIBUTES,
                         sizeof("replay=true " ATTRIBUTES) - 1),
        0);
    press_ok(p, ENVELOPE_MINIMAL, 5, "topic, payload", "'t', ''");
    p->row.is_replay = 1;
    assert_ok(postbag__envelope_build(&p->e, &p->row, 5, &p->now, &p->f));
    assert_string_equal(
        properties(p), "replay=true id=00112233-4455-4677-8899-aabbccddeeff");
}

static void test_envelope_v5_time_of_the_headers_replaces_ours(void **state)
{
    struct press *p = *state;
    const char *time;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 5, "topic, payload, headers",
        "'t', '', '{\"time\":\"2026-01-01T00:00:00Z\"}'");
    time = strstr(properties(p), "time=");
    assert_non_null(time);
    assert_int_equal(strncmp(time, "time=2026-01-01T00:00:00Z ", 26), 0);
    assert_null(strstr(time + 1, "time="));
    /* the next row has none */
    press_ok(p, ENVELOPE_CLOUDEVENTS, 5, "topic, payload", "'t', ''");
    assert_has(properties(p), " time=2027-01-15T08:00:00.125Z ");
}

/* A row from before the clock was set, in boot 7; the clocks say so now. */
static const char *time_of_old_row(
    struct press *p, int boot, int64_t wall_ms, const char *headers)
{
    static char out[100];
    const char *at;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 5, "topic, payload, headers", headers);
    p->row.created_ms = 5000;
    p->row.mono_ms = 5000;
    memset(p->row.boot, 7, sizeof(p->row.boot));
    memset(p->now.boot, boot, sizeof(p->now.boot));
    p->now.mono_ms = 65000;
    p->now.wall_ms = wall_ms;
    assert_ok(postbag__envelope_build(&p->e, &p->row, 5, &p->now, &p->f));
    at = strstr(properties(p), "time");
    (void)snprintf(out, sizeof(out), "%.*s", (int)strcspn(at, " "), at);
    return out;
}

static void test_envelope_v5_time_before_the_clock_was_set(void **state)
{
    static const int64_t today_ms = INT64_C(1800000060125);
    struct press *p = *state;

    assert_string_equal(time_of_old_row(p, 7, today_ms, "'t', '', NULL"),
        "time=2027-01-15T08:00:00.125Z");
    assert_null(strstr(properties(p), "timequality"));
    assert_string_equal(
        time_of_old_row(p, 7, 65000, "'t', '', NULL"), "timequality=unset");
    assert_null(strstr(properties(p), "time="));
    assert_string_equal(
        time_of_old_row(p, 8, today_ms, "'t', '', NULL"), "timequality=unset");
    assert_string_equal(
        time_of_old_row(p, 8, today_ms, "'t', '', '{\"time\":\"mine\"}'"),
        "time=mine");
    assert_null(strstr(properties(p), "timequality"));
    assert_string_equal(
        time_of_old_row(p, 8, today_ms, "'t', '', '{\"timequality\":\"bad\"}'"),
        "timequality=bad");
    assert_null(strstr(properties(p), "unset"));
}

static void test_envelope_v5_response_and_correlation_are_mqtts_own(
    void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_RAW, 5, "topic, payload, headers",
        "'t', '', '{\"response_topic\":\"re/1\","
        " \"correlation_data\":\"abc\"}'");
    assert_string_equal(p->f.response_topic, "re/1");
    assert_int_equal(p->f.correlation_len, 3);
    assert_memory_equal(p->f.correlation, "abc", 3);
    assert_int_equal(p->f.property_count, 0);
    press_ok(p, ENVELOPE_RAW, 5, "topic, payload, headers",
        "'t', '', '{\"correlation_data_hex\":\"00ff7a\"}'");
    assert_int_equal(p->f.correlation_len, 3);
    assert_memory_equal(p->f.correlation, "\0\xff\x7a", 3);
    assert_null(p->f.response_topic);
}

static void test_envelope_v5_baggage_stays_here(void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_RAW, 5, "topic, payload, headers",
        "'t', '', '{\"baggage\":\"user=1\",\"subject\":\"s\"}'");
    assert_string_equal(properties(p), "subject=s");
}

static void test_envelope_minimal_has_the_id_only(void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_MINIMAL, 5, "topic, payload, key, type",
        "'t', 'p', 'k', 'y'");
    assert_string_equal(
        properties(p), "id=00112233-4455-4677-8899-aabbccddeeff");
    press_ok(p, ENVELOPE_MINIMAL, 4, "topic, payload", "'t', 'plain'");
    assert_int_equal(p->f.property_count, 0);
    assert_memory_equal(p->f.payload, "plain", 5);
}

static void test_envelope_raw_has_nothing_of_ours(void **state)
{
    struct press *p = *state;

    for (unsigned version = 4; version <= 5; version++) {
        press_ok(p, ENVELOPE_RAW, version, "topic, payload, key, type",
            "'t', 'plain', 'k', 'y'");
        assert_int_equal(p->f.property_count, 0);
        assert_int_equal(p->f.payload_len, 5);
        assert_memory_equal(p->f.payload, "plain", 5);
    }
}

static void test_envelope_same_row_gives_the_same_bytes(void **state)
{
    struct press *p = *state;

    for (unsigned version = 4; version <= 5; version++) {
        char first[2000];
        size_t len;

        press_ok(p, ENVELOPE_CLOUDEVENTS, version,
            "topic, payload, key, ttl_ms, headers",
            "'t', 'p', 'k', 60000, '{\"a\":\"1\",\"response_topic\":\"r\"}'");
        len = p->f.payload_len;
        assert_true(len < sizeof(first) / 2);
        (void)snprintf(first, sizeof(first), "%.*s%s", (int)len,
            (const char *)p->f.payload, properties(p));
        /* time passes */
        p->now.wall_ms = INT64_C(1800000030000);
        assert_ok(
            postbag__envelope_build(&p->e, &p->row, version, &p->now, &p->f));
        assert_int_equal(p->f.payload_len, len);
        assert_memory_equal(p->f.payload, first, len);
        assert_string_equal(properties(p), first + len);
        assert_int_equal(p->f.retain, 0);
    }
}

/* ---- what is left of the TTL ---- */

static uint32_t expiry_at(struct press *p, int64_t wall_ms)
{
    p->now.wall_ms = wall_ms;
    assert_ok(postbag__envelope_build(&p->e, &p->row, 5, &p->now, &p->f));
    return p->f.expiry_s;
}

static void test_envelope_expiry_is_what_is_left_of_the_ttl(void **state)
{
    const int64_t put = INT64_C(1800000000125);
    struct press *p = *state;

    for (enum envelope_kind kind = 0; kind <= ENVELOPE_RAW; kind++) {
        press_ok(p, kind, 5, "topic, payload, ttl_ms", "'t', '', 60000");
        assert_int_equal(expiry_at(p, put), 60);
        assert_int_equal(expiry_at(p, put + 1), 60);
        assert_int_equal(expiry_at(p, put + 1000), 59);
        assert_int_equal(expiry_at(p, put + 59500), 1);
        /* over: not for ever, and not as if it were fresh */
        assert_int_equal(expiry_at(p, put + 60000), 1);
        assert_int_equal(expiry_at(p, put + 999999), 1);
    }
}

static void test_envelope_expiry_fits_its_four_bytes(void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_RAW, 5, "topic, payload, ttl_ms",
        "'t', '', 9223372036854775807");
    assert_int_equal(expiry_at(p, 0), 0);
    press_ok(p, ENVELOPE_RAW, 5, "topic, payload, ttl_ms",
        "'t', '', 9223372036854775806");
    assert_int_equal(expiry_at(p, 0), UINT32_MAX);
    press_ok(p, ENVELOPE_RAW, 5, "topic, payload, ttl_ms", "'t', '', 1");
    assert_int_equal(expiry_at(p, 0), 1);
}

static void test_envelope_without_a_ttl_does_not_expire(void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 5, "topic, payload", "'t', ''");
    assert_int_equal(expiry_at(p, INT64_C(1900000000000)), 0);
}

/* ---- rows that can never leave ---- */

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
        {"json_object('correlation_data', printf('%.*c', 65536, 'x'))",
            "65535 bytes"},
        {"json_object('correlation_data_hex', printf('%.*c', 131072, '0'))",
            "65535 bytes"},
        {"json_object('response_topic', printf('%.*c', 65536, 'x'))",
            "65535 bytes"},
        {"'{\"response_topic\":\"\"}'", "response_topic is empty"},
        {"'{\"response_topic\":\"a/#\"}'", "+ or #"},
        {"'{\"response_topic\":\"a/+\"}'", "+ or #"},
    };
    struct press *p = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        char values[300];

        (void)snprintf(values, sizeof(values), "'t', '', %s", all[i].headers);
        assert_int_equal(press_build(p, ENVELOPE_CLOUDEVENTS, 5,
                             "topic, payload, headers", values),
            POSTBAG_EINVAL);
        assert_has(p->db.fault.text, all[i].part);
    }
}

/* No table takes them; a damaged one may have them. */
static void test_envelope_topic_that_nobody_could_put_is_refused(void **state)
{
    static const char *const topics[] = {"", "t+u", "t/#"};
    struct press *p = *state;

    press_ok(p, ENVELOPE_RAW, 5, "topic, payload", "'t', ''");
    for (size_t i = 0; i < COUNT(topics); i++) {
        p->row.topic = topics[i];
        p->row.topic_len = strlen(topics[i]);
        assert_int_equal(
            postbag__envelope_build(&p->e, &p->row, 5, &p->now, &p->f),
            POSTBAG_EINVAL);
        assert_has(p->db.fault.text, "topic is empty, or has + or #");
    }
}

static void test_envelope_header_of_our_own_name_is_refused(void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_CLOUDEVENTS, 5, "topic, payload", "'t', ''");
    p->row.headers = "{\"a\":\"b\",\"id\":\"another\"}";
    assert_int_equal(postbag__envelope_build(&p->e, &p->row, 5, &p->now, &p->f),
        POSTBAG_EINVAL);
    assert_has(p->db.fault.text, "the name of one of our attributes");
}

/* A trigger refuses them; a writer that takes it away does not. */
static void test_envelope_headers_that_are_no_object_are_refused(void **state)
{
    static const char *const all[] = {"5", "\"a\"", "[1,2]", " \t[", ""};
    struct press *p = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        for (unsigned version = 4; version <= 5; version++) {
            press_ok(p, ENVELOPE_CLOUDEVENTS, version,
                "topic, payload, headers", "'t', '', ' {\"a\":\"b\"}'");
            p->row.headers = all[i];
            assert_int_equal(postbag__envelope_build(
                                 &p->e, &p->row, version, &p->now, &p->f),
                POSTBAG_EINVAL);
            assert_has(p->db.fault.text, "headers are not a JSON object");
        }
    }
}

/* A receiver tells by the content type that the payload is the event. */
static void test_envelope_event_in_an_event_is_refused(void **state)
{
    static const char *const types[] = {"application/cloudevents",
        "Application/CloudEvents+json", "application/cloudevents-batch+json"};
    struct press *p = *state;

    for (size_t i = 0; i < COUNT(types); i++) {
        for (unsigned version = 4; version <= 5; version++) {
            char values[100];

            (void)snprintf(values, sizeof(values), "'t', '{}', '%s'", types[i]);
            assert_int_equal(press_build(p, ENVELOPE_CLOUDEVENTS, version,
                                 "topic, payload, content_type", values),
                POSTBAG_EINVAL);
            assert_has(p->db.fault.text, "envelope raw");
            press_ok(p, ENVELOPE_RAW, version, "topic, payload, content_type",
                values);
            assert_string_equal(p->f.content_type, types[i]);
        }
    }
    press_ok(p, ENVELOPE_CLOUDEVENTS, 5, "topic, payload, content_type",
        "'t', '', 'application/cloud'");
}

static void test_envelope_content_type_that_mqtt_cannot_carry_is_refused(
    void **state)
{
    struct press *p = *state;

    assert_int_equal(
        press_build(p, ENVELOPE_RAW, 5, "topic, payload, content_type",
            "'t', '', printf('%.*c', 65536, 'x')"),
        POSTBAG_EINVAL);
    assert_has(p->db.fault.text, "content_type");
}

/* ---- both ---- */

static void test_envelope_text_that_is_not_utf8_is_not_marked_as_text(
    void **state)
{
    struct press *p = *state;

    press_ok(p, ENVELOPE_RAW, 5, "topic, payload", "'t', CAST(x'ff' AS TEXT)");
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
        PRESS(test_envelope_v5_attributes_are_user_properties),
        PRESS(test_envelope_v5_least_row_has_the_required_attributes),
        PRESS(test_envelope_v5_replay_says_so),
        PRESS(test_envelope_v5_time_of_the_headers_replaces_ours),
        PRESS(test_envelope_v5_time_before_the_clock_was_set),
        PRESS(test_envelope_v5_response_and_correlation_are_mqtts_own),
        PRESS(test_envelope_v5_baggage_stays_here),
        PRESS(test_envelope_minimal_has_the_id_only),
        PRESS(test_envelope_raw_has_nothing_of_ours),
        PRESS(test_envelope_same_row_gives_the_same_bytes),
        PRESS(test_envelope_expiry_is_what_is_left_of_the_ttl),
        PRESS(test_envelope_expiry_fits_its_four_bytes),
        PRESS(test_envelope_without_a_ttl_does_not_expire),
        PRESS(test_envelope_v5_what_mqtt_cannot_carry_is_refused),
        PRESS(test_envelope_topic_that_nobody_could_put_is_refused),
        PRESS(test_envelope_header_of_our_own_name_is_refused),
        PRESS(test_envelope_headers_that_are_no_object_are_refused),
        PRESS(test_envelope_event_in_an_event_is_refused),
        PRESS(test_envelope_content_type_that_mqtt_cannot_carry_is_refused),
        PRESS(test_envelope_text_that_is_not_utf8_is_not_marked_as_text),
        PRESS(test_envelope_kind_knows_its_names),
        PRESS(test_envelope_without_a_stream_id_is_corrupt),
        PRESS(test_envelope_frame_size_is_an_upper_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
