/* SPDX-License-Identifier: MIT */
/* Each rule of a message, with the field that the fault must name. */
#include "message.h"

#include <stdlib.h>

#include "unit.h"

static char longest[65537]; /* 65535 characters, or one more */

static int set_up_texts(void **state)
{
    (void)state;
    memset(longest, 'x', 65536);
    return 0;
}

static struct postbag_message good(void)
{
    const struct postbag_message m = {.struct_size = sizeof(m),
        .topic = "gw/1",
        .payload = "p",
        .payload_len = 1};

    return m;
}

static void refuse(const struct postbag_message *m, const char *part)
{
    struct postbag_fault why = {0};

    if (postbag__message_check(m, &why) != POSTBAG_EINVAL)
        fail_msg("accepted, but should name \"%s\"", part);
    assert_int_equal(why.code, POSTBAG_EINVAL);
    assert_has(why.text, part);
}

static void accept(const struct postbag_message *m)
{
    struct postbag_fault why = {0};

    if (postbag__message_check(m, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
}

static void test_message_with_a_topic_alone_is_good(void **state)
{
    const struct postbag_message m = {.struct_size = sizeof(m), .topic = "t"};

    (void)state;
    accept(&m);
}

static void test_message_bad_topic_is_named(void **state)
{
    static const struct {
        const char *topic, *part;
    } all[] = {
        {NULL, "topic is empty"},
        {"", "topic is empty"},
        {"+", "topic must not contain"},
        {"gw/+/x", "topic must not contain"},
        {"gw/#", "topic must not contain"},
        {"gw/\xff", "topic is not well-formed"},
        {"gw/\n", "topic has a control character"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        struct postbag_message m = good();

        m.topic = all[i].topic;
        refuse(&m, all[i].part);
    }
}

/* Fields that are texts of MQTT. */
static const struct {
    const char *name;
    size_t at;
} texts[] = {
#define TEXT(field) \
    { \
#field, offsetof(struct postbag_message, field) \
    }
    TEXT(topic),
    TEXT(key),
    TEXT(type),
    TEXT(content_type),
    TEXT(headers),
    TEXT(dest),
    TEXT(coalesce),
};

static struct postbag_message with_text(size_t i, const char *text)
{
    struct postbag_message m = good();

    memcpy((char *)&m + texts[i].at, &text, sizeof(text));
    return m;
}

static void test_message_text_that_is_not_utf8_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct postbag_message m = with_text(i, "a\xc0\x80");

        refuse(&m, texts[i].name);
    }
}

static void test_message_text_over_65535_bytes_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct postbag_message m = with_text(i, longest);

        longest[65535] = 'x';
        refuse(&m, texts[i].name);
        longest[65535] = '\0';
        accept(&m);
    }
}

static void test_message_bad_number_is_named(void **state)
{
    struct postbag_message priority = good();
    struct postbag_message ttl = good();
    struct postbag_message version = good();

    (void)state;
    priority.priority = 4;
    ttl.ttl_ms = -1;
    version.key_version = -1;
    refuse(&priority, "priority");
    refuse(&ttl, "ttl_ms");
    refuse(&version, "key_version");
}

static void test_message_highest_numbers_are_good(void **state)
{
    struct postbag_message m = good();

    (void)state;
    m.priority = 3;
    m.ttl_ms = INT64_MAX;
    m.key_version = INT64_MAX;
    m.retain = 1;
    accept(&m);
}

static void test_message_payload_that_is_missing_is_named(void **state)
{
    struct postbag_message m = good();

    (void)state;
    m.payload = NULL;
    refuse(&m, "payload");
    m.payload_len = 0;
    m.is_text = 1;
    accept(&m);
}

static void test_message_payload_must_be_utf8_only_as_text(void **state)
{
    struct postbag_message m = good();

    (void)state;
    m.payload = "\xff";
    accept(&m);
    m.is_text = 1;
    refuse(&m, "payload");
    m.payload = "\xc3\xa4";
    m.payload_len = 2;
    accept(&m);
    m.payload_len = 1; /* the end of the character is not the message's */
    refuse(&m, "payload");
}

static void test_message_check_needs_no_fault(void **state)
{
    struct postbag_message m = good();

    (void)state;
    m.priority = 4;
    assert_int_equal(postbag__message_check(&m, NULL), POSTBAG_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_with_a_topic_alone_is_good),
        cmocka_unit_test(test_message_bad_topic_is_named),
        cmocka_unit_test(test_message_text_that_is_not_utf8_is_named),
        cmocka_unit_test(test_message_text_over_65535_bytes_is_named),
        cmocka_unit_test(test_message_bad_number_is_named),
        cmocka_unit_test(test_message_highest_numbers_are_good),
        cmocka_unit_test(test_message_payload_that_is_missing_is_named),
        cmocka_unit_test(test_message_payload_must_be_utf8_only_as_text),
        cmocka_unit_test(test_message_check_needs_no_fault),
    };

    return cmocka_run_group_tests(tests, set_up_texts, NULL);
}
