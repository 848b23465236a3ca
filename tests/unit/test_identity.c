/* SPDX-License-Identifier: MIT */
/* Which name a frame gets, from each of the places where one may stand. */
#include "temp_db.h"

#include <string.h>

#include "identity.h"
#include "postbag/linux.h"

struct world {
    struct temp_db t;
    struct identifier identifier;
};

static void open_with(struct world *w, const char *places, const char *nameless)
{
    postbag__identifier_close(&w->identifier);
    assert_int_equal(postbag__identifier_open(&w->identifier, &w->t.db,
                         postbag_linux_port(), places, nameless),
        POSTBAG_OK);
}

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    temp_db_open(&w->t);
    open_with(w, "cloudevents,id,correlation,json:$.id", "dead");
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    postbag__identifier_close(&w->identifier);
    temp_db_close(&w->t);
    free(w);
    return 0;
}

static struct identity identify(void **state, const struct postbag_frame *f)
{
    struct world *w = *state;
    struct identity out;

    assert_int_equal(postbag__identify(&w->identifier, f, &out), POSTBAG_OK);
    return out;
}

/* A frame on topic "cmd" with a JSON payload that names an id itself. */
static struct postbag_frame frame(const char *payload)
{
    struct postbag_frame f = {
        .topic = "cmd", .payload = payload, .payload_len = strlen(payload)};

    return f;
}

static void expect_text(const struct identity *i, const char *id)
{
    assert_int_equal(i->found, 1);
    assert_int_equal(i->id_is_text, 1);
    assert_int_equal(i->id_len, strlen(id));
    assert_memory_equal(i->id, id, i->id_len);
}

static void test_identity_property_goes_before_all(void **state)
{
    const struct postbag_property p[] = {
        {"source", "/scada"}, {"id", "p-1"}, {"id", "p-2"}};
    struct postbag_frame f = frame("{\"id\":\"j-1\"}");
    struct identity i;

    f.properties = p;
    f.property_count = 3;
    f.correlation = "c-1";
    f.correlation_len = 3;
    i = identify(state, &f);
    expect_text(&i, "p-1");
    assert_string_equal(i.source, "/scada");
}

static void test_identity_correlation_goes_before_payload(void **state)
{
    struct postbag_frame f = frame("{\"id\":\"j-1\",\"source\":\"/x\"}");
    struct identity i;

    f.correlation = "c\0d";
    f.correlation_len = 3;
    i = identify(state, &f);
    assert_int_equal(i.found, 1);
    assert_int_equal(i.id_is_text, 0);
    assert_int_equal(i.id_len, 3);
    assert_memory_equal(i.id, "c\0d", 3);
    assert_string_equal(i.source, "");
}

static void test_identity_empty_names_are_none(void **state)
{
    const struct postbag_property p[] = {{"id", ""}};
    struct postbag_frame f = frame("{\"id\":\"j-1\"}");
    struct identity i;

    f.properties = p;
    f.property_count = 1;
    i = identify(state, &f);
    expect_text(&i, "j-1");
}

static void test_identity_stands_in_json_payload(void **state)
{
    static const struct {
        const char *payload, *id, *source;
    } all[] = {
        {"{\"id\":\"j-1\",\"source\":\"/s\"}", "j-1", "/s"},
        {" \n{\"id\": 17}", "17", ""},
        {"{\"id\":-9223372036854775808}", "-9223372036854775808", ""},
        {"{\"source\":5,\"id\":\"\\u00e9\"}", "\xc3\xa9", ""},
        {"{\"id\":\"a\\\\u0000\",\"source\":\"s\\u0000\"}", "a\\u0000", ""},
    };

    for (size_t n = 0; n < sizeof(all) / sizeof(all[0]); n++) {
        struct postbag_frame f = frame(all[n].payload);
        struct identity i = identify(state, &f);

        expect_text(&i, all[n].id);
        assert_string_equal(i.source, all[n].source);
    }
}

/* 2^64 would be rounded, so that two commands might share one id. */
static void test_identity_other_payloads_name_none(void **state)
{
    static const char *const all[] = {"", "open", "{", "{\"id\":}",
        "[{\"id\":1}]", "{\"id\":true}", "{\"id\":null}", "{\"id\":1.5}",
        "{\"id\":{}}", "{\"id\":18446744073709551616}", "{\"id\":\"\"}",
        "{\"data\":{\"id\":1}}", "{\"id\":1} x", "{\"id\":\"a\\u0000b\"}",
        "{\"id\":\"\\\\\\u0000\"}"};

    for (size_t n = 0; n < sizeof(all) / sizeof(all[0]); n++) {
        struct postbag_frame f = frame(all[n]);
        struct identity i = identify(state, &f);

        if (i.found)
            fail_msg("found an id in %s", all[n]);
        assert_int_equal(i.id_len, SHA256_BYTES);
    }
}

static void test_identity_json_with_nul_names_none(void **state)
{
    struct postbag_frame f = frame("");
    struct identity i;

    f.payload = "{\"id\":1}\0";
    f.payload_len = 9;
    i = identify(state, &f);
    assert_int_equal(i.found, 0);
}

static void test_identity_nameless_frames_differ_by_topic_and_payload(
    void **state)
{
    struct postbag_frame f = frame("open");
    struct postbag_frame other_payload = frame("close");
    struct postbag_frame other_topic = frame("open");
    struct identity a = identify(state, &f);
    struct identity b = identify(state, &other_payload);
    struct identity c;

    other_topic.topic = "cmd2";
    c = identify(state, &other_topic);
    assert_memory_not_equal(a.id, b.id, SHA256_BYTES);
    assert_memory_not_equal(a.id, c.id, SHA256_BYTES);
    b = identify(state, &f);
    assert_memory_equal(a.id, b.id, SHA256_BYTES);
}

static void test_identity_over_255_bytes_is_hashed(void **state)
{
    char text[400];
    struct postbag_property p[] = {{"id", text}, {"source", text}};
    struct postbag_frame f = frame("x");
    struct identity i;

    memset(text, 'i', sizeof(text));
    f.properties = p;
    f.property_count = 2;
    text[255] = '\0';
    i = identify(state, &f);
    expect_text(&i, text);
    assert_string_equal(i.source, text);
    text[255] = 'i';
    text[256] = '\0';
    i = identify(state, &f);
    assert_int_equal(i.found, 1);
    assert_int_equal(i.id_is_text, 0);
    assert_int_equal(i.id_len, SHA256_BYTES);
    assert_int_equal(strlen(i.source), 64);
}

static void test_identity_content_covers_topic_payload_and_type(void **state)
{
    const struct postbag_property p[] = {{"id", "1"}};
    struct postbag_frame all[4] = {
        frame("a"), frame("b"), frame("a"), frame("a")};
    struct identity first;

    all[2].topic = "cmd2";
    all[3].content_type = "text/plain";
    for (size_t n = 0; n < 4; n++) {
        struct identity i;

        all[n].properties = p;
        all[n].property_count = 1;
        i = identify(state, &all[n]);
        if (n == 0)
            first = i;
        else
            assert_memory_not_equal(i.content, first.content, SHA256_BYTES);
    }
    all[0].response_topic = "re/1";
    all[0].dup = 1;
    first = identify(state, &all[0]);
    all[0].response_topic = NULL;
    assert_memory_equal(
        identify(state, &all[0]).content, first.content, SHA256_BYTES);
}

/* An event is named by both; the pair goes before the Correlation Data, and a
 * pair that is not whole is left to the other places. */
static void test_identity_event_needs_id_and_source(void **state)
{
    const struct postbag_property p[] = {{"source", "/scada"}, {"id", "p-1"}};
    struct postbag_frame f = frame("{\"id\":\"j-1\",\"source\":\"/j\"}");
    struct identity i;

    open_with(*state, "cloudevents,topic:1", "dead");
    f.topic = "t";
    f.properties = p;
    f.property_count = 2;
    i = identify(state, &f);
    expect_text(&i, "p-1");
    assert_string_equal(i.source, "/scada");
    f.properties = p + 1;
    f.property_count = 1;
    i = identify(state, &f);
    expect_text(&i, "t");
    f.content_type = "Application/CloudEvents+JSON; charset=utf-8";
    i = identify(state, &f);
    expect_text(&i, "j-1");
    assert_string_equal(i.source, "/j");
    f.payload = "{\"id\":\"j-1\"}";
    f.payload_len = strlen(f.payload);
    i = identify(state, &f);
    expect_text(&i, "t");
}

static void test_identity_places_are_asked_in_the_order_configured(void **state)
{
    const struct postbag_property p[] = {{"id", "p-1"}};
    static const struct {
        const char *places, *id;
    } all[] = {{"json:$.a.b[1],id", "7"}, {"json:$.none,id", "p-1"},
        {"topic:2,json:$.id", "t-9"}, {"topic:3,json:$.id", "j-1"},
        {"json:$.\"x.y\",id", "q"}};
    struct postbag_frame f =
        frame("{\"id\":\"j-1\",\"a\":{\"b\":[6,7]},\"x.y\":\"q\"}");

    f.topic = "cmd/t-9";
    f.properties = p;
    f.property_count = 1;
    for (size_t n = 0; n < sizeof(all) / sizeof(all[0]); n++) {
        struct identity i;

        open_with(*state, all[n].places, "dead");
        i = identify(state, &f);
        expect_text(&i, all[n].id);
    }
}

static void test_identity_place_that_is_not_named_is_not_asked(void **state)
{
    const struct postbag_property p[] = {{"id", "p-1"}, {"source", "/s"},
        {"correlationid", "9"}, {"traceparent", "00-1-2-00"}};
    struct postbag_frame f = frame("{\"id\":\"j-1\"}");

    f.properties = p;
    f.property_count = 4;
    f.correlation = "c-1";
    f.correlation_len = 3;
    open_with(*state, "topic:2", "dead");
    assert_int_equal(identify(state, &f).found, 0);
}

/* One trace spans many commands. */
static void test_identity_trace_is_none(void **state)
{
    const struct postbag_property p[] = {{"correlationid", "9"},
        {"traceparent", "00-1-2-00"}, {"tracestate", "a=b"}};
    struct postbag_frame f = frame("open");
    struct identity i;

    f.properties = p;
    f.property_count = 3;
    i = identify(state, &f);
    assert_int_equal(i.found, 0);
}

/* Any path that the option allows is one to SQLite, whatever it is asked of:
 * an error would refuse the command again and again. */
static void test_identity_path_meets_any_payload(void **state)
{
    static const char *const paths[] = {"json:$[0]", "json:$.a[0].b",
        "json:$.a.b[1]", "json:$.\"a\".b", "json:$.\"a[\"", "json:$.#",
        "json:$.a]"};
    static const char *const payloads[] = {"{}", "[]", "[[]]",
        "{\"a\":[{\"b\":[1]}]}", "{\"a\":{\"b\":[1]}}", "{\"a\":{\"b\":{}}}"};

    for (size_t n = 0; n < sizeof(paths) / sizeof(paths[0]); n++) {
        open_with(*state, paths[n], "dead");
        for (size_t m = 0; m < sizeof(payloads) / sizeof(payloads[0]); m++) {
            struct postbag_frame f = frame(payloads[m]);

            assert_int_equal(identify(state, &f).found, 0);
        }
    }
}

static void test_identity_hash_is_one_if_asked_for(void **state)
{
    struct postbag_frame f = frame("open");
    struct postbag_frame other = frame("close");
    struct identity a;
    struct identity b;

    open_with(*state, "id", "hash");
    a = identify(state, &f);
    b = identify(state, &f);
    assert_int_equal(a.found, 1);
    assert_int_equal(a.id_len, SHA256_BYTES);
    assert_memory_equal(a.id, b.id, SHA256_BYTES);
    b = identify(state, &other);
    assert_memory_not_equal(a.id, b.id, SHA256_BYTES);
}

static void test_identity_unprotected_is_never_the_same(void **state)
{
    struct postbag_frame f = frame("open");
    struct identity a;
    struct identity b;

    open_with(*state, "id", "unprotected");
    a = identify(state, &f);
    b = identify(state, &f);
    assert_int_equal(a.found, 1);
    assert_int_equal(a.id_len, 16);
    assert_memory_not_equal(a.id, b.id, 16);
}

static int no_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    (void)buf;
    (void)len;
    return POSTBAG_EIO;
}

static void test_identity_without_random_bytes_is_an_error(void **state)
{
    struct world *w = *state;
    struct postbag_port port = *postbag_linux_port();
    struct postbag_frame f = frame("open");
    struct identity i;

    port.random = no_random;
    open_with(w, "id", "unprotected");
    w->identifier.port = &port;
    assert_int_equal(postbag__identify(&w->identifier, &f, &i), POSTBAG_EIO);
}

/* Two requesters that both begin to count at 1 are not each other's
 * duplicates. */
static void test_identity_correlation_of_other_requester_is_other_content(
    void **state)
{
    struct postbag_frame f = frame("open");
    struct identity a;
    struct identity b;

    f.correlation = "1";
    f.correlation_len = 1;
    f.response_topic = "re/a";
    a = identify(state, &f);
    f.response_topic = "re/b";
    b = identify(state, &f);
    assert_memory_not_equal(a.content, b.content, SHA256_BYTES);
}

static void test_identity_derived_differs_by_content(void **state)
{
    const struct postbag_property p[] = {{"id", "1"}};
    struct postbag_frame f = frame("a");
    struct identity i;
    struct identity a;
    struct identity b;

    f.properties = p;
    f.property_count = 1;
    i = identify(state, &f);
    postbag__identity_derive(&i, &a);
    i.content[0] ^= 1;
    postbag__identity_derive(&i, &b);
    assert_int_equal(a.id_len, SHA256_BYTES);
    assert_memory_not_equal(a.id, b.id, SHA256_BYTES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void test_identity_payload_that_begins_with_nul_is_no_json(void **state)
{
    static const char *const all[] = {"\0{\"id\":1}", " \0{\"id\":1}"};

    for (size_t i = 0; i < COUNT(all); i++) {
        struct postbag_frame f = frame("");

        f.payload = all[i];
        f.payload_len = 9;
        assert_int_equal(identify(state, &f).found, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_identity_property_goes_before_all),
        TEST(test_identity_correlation_goes_before_payload),
        TEST(test_identity_empty_names_are_none),
        TEST(test_identity_stands_in_json_payload),
        TEST(test_identity_other_payloads_name_none),
        TEST(test_identity_json_with_nul_names_none),
        TEST(test_identity_nameless_frames_differ_by_topic_and_payload),
        TEST(test_identity_over_255_bytes_is_hashed),
        TEST(test_identity_content_covers_topic_payload_and_type),
        TEST(test_identity_correlation_of_other_requester_is_other_content),
        TEST(test_identity_derived_differs_by_content),
        TEST(test_identity_event_needs_id_and_source),
        TEST(test_identity_places_are_asked_in_the_order_configured),
        TEST(test_identity_place_that_is_not_named_is_not_asked),
        TEST(test_identity_trace_is_none),
        TEST(test_identity_path_meets_any_payload),
        TEST(test_identity_hash_is_one_if_asked_for),
        TEST(test_identity_unprotected_is_never_the_same),
        TEST(test_identity_without_random_bytes_is_an_error),
        TEST(test_identity_payload_that_begins_with_nul_is_no_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
