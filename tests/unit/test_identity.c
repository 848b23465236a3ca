/* SPDX-License-Identifier: MIT */
/* Which name a frame gets, from each of the places where one may stand. */
#include "temp_db.h"

#include <string.h>

#include "identity.h"

struct world {
    struct temp_db t;
    struct identifier identifier;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    temp_db_open(&w->t);
    assert_int_equal(
        postbag__identifier_open(&w->identifier, &w->t.db), POSTBAG_OK);
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
        "{\"data\":{\"id\":1}}", "{\"id\":1} x"};

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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
