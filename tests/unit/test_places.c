/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "places.h"

static void test_places_stand_in_the_order_of_the_option(void **state)
{
    struct places p;

    (void)state;
    assert_int_equal(
        postbag__places_read(
            &p, "topic:12,json:$.a.b,correlation,id,cloudevents", NULL),
        POSTBAG_OK);
    assert_int_equal(p.count, 5);
    assert_int_equal(p.list[0].kind, PLACE_TOPIC);
    assert_int_equal(p.list[0].segment, 12);
    assert_int_equal(p.list[1].kind, PLACE_JSON);
    assert_int_equal(p.list[1].path_len, 5);
    assert_memory_equal(p.list[1].path, "$.a.b", 5);
    assert_int_equal(p.list[2].kind, PLACE_CORRELATION);
    assert_int_equal(p.list[3].kind, PLACE_PROPERTY);
    assert_int_equal(p.list[4].kind, PLACE_CLOUDEVENTS);
}

/* Above all: a trace names no command. */
static void test_places_other_words_are_refused_by_name(void **state)
{
    static const char *const all[] = {"", "id,", ",id", "ID", "ids",
        "traceparent", "tracestate", "correlationid", "hash", "json",
        "json:", "json:id", "json:/id", "json:$", "json:$id", "json:$.",
        "json:$..a", "json:$[", "json:$[]", "json:$[x]", "json:$[1",
        "json:$.a[1", "json:$.a[#-1]", "json:$.a b[", "json:$.\"a",
        "json:$.\"\"", "json:$.\"a\\\"\"", "json:$.a\"", "json:$[0]x", "topic",
        "topic:", "topic:0", "topic:-1", "topic:1x", "topic:1000",
        "id, correlation", "id,id,id,id,id,id,id,id,id"};
    struct postbag_fault why;
    struct places p;

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        if (postbag__places_read(&p, all[i], &why) != POSTBAG_EINVAL)
            fail_msg("took %s", all[i]);
    assert_int_equal(
        postbag__places_read(&p, "id,traceparent", &why), POSTBAG_EINVAL);
    assert_non_null(strstr(why.text, "'traceparent'"));
}

static void test_places_nameless_is_one_of_three(void **state)
{
    enum nameless n;

    (void)state;
    assert_int_equal(postbag__nameless_read(&n, "dead", NULL), POSTBAG_OK);
    assert_int_equal(n, NAMELESS_DEAD);
    assert_int_equal(postbag__nameless_read(&n, "hash", NULL), POSTBAG_OK);
    assert_int_equal(n, NAMELESS_HASH);
    assert_int_equal(
        postbag__nameless_read(&n, "unprotected", NULL), POSTBAG_OK);
    assert_int_equal(n, NAMELESS_UNPROTECTED);
    assert_int_equal(postbag__nameless_read(&n, "", NULL), POSTBAG_EINVAL);
    assert_int_equal(
        postbag__nameless_read(&n, "deadly", NULL), POSTBAG_EINVAL);
}

static void test_places_topic_segment_is_found_or_empty(void **state)
{
    static const struct {
        const char *topic;
        uint32_t n;
        const char *part;
    } all[] = {{"a", 1, "a"}, {"a", 2, ""}, {"a/bc/d", 1, "a"},
        {"a/bc/d", 2, "bc"}, {"a/bc/d", 3, "d"}, {"a/bc/d", 4, ""},
        {"a/bc/d", 999, ""}, {"/a", 1, ""}, {"/a", 2, "a"}, {"a//b", 2, ""},
        {"a//b", 3, "b"}, {"a/", 2, ""}};

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++) {
        size_t len;
        const char *part = postbag__topic_segment(all[i].topic, all[i].n, &len);

        if (len != strlen(all[i].part) || memcmp(part, all[i].part, len) != 0)
            fail_msg("part %u of %s", (unsigned)all[i].n, all[i].topic);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_stand_in_the_order_of_the_option),
        cmocka_unit_test(test_places_other_words_are_refused_by_name),
        cmocka_unit_test(test_places_nameless_is_one_of_three),
        cmocka_unit_test(test_places_topic_segment_is_found_or_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
