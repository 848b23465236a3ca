/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "topicfilter.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void test_topicfilter_valid_ones_are_taken(void **state)
{
    static const char *const all[] = {"a", "/", "#", "+", "a/b", "a/+", "a/#",
        "+/+/#", "/+", "a//b", "$SYS/#", "+/b/+", "a b", "$share/g/a/#",
        "$share/g/#", "$share/g//", "$sharepoint/a"};

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        if (!postbag__filter_is_valid(all[i]))
            fail_msg("refused %s", all[i]);
}

static void test_topicfilter_invalid_ones_are_refused(void **state)
{
    static const char *const all[] = {"", "a#", "#/a", "a/#/b", "a+", "+a",
        "a/b+/c", "##", "++", "$share/", "$share/g", "$share/g/", "$share//a",
        "$share/g+/a", "$share/#/a"};

    (void)state;
    assert_false(postbag__filter_is_valid(NULL));
    for (size_t i = 0; i < COUNT(all); i++)
        if (postbag__filter_is_valid(all[i]))
            fail_msg("took %s", all[i]);
}

static void test_topicfilter_longest_is_65535_bytes(void **state)
{
    static char filter[65537];

    (void)state;
    memset(filter, 'a', 65535);
    assert_true(postbag__filter_is_valid(filter));
    filter[65535] = 'a';
    assert_false(postbag__filter_is_valid(filter));
}

static void test_topicfilter_matching_topics_match(void **state)
{
    static const char *const all[][2] = {{"a/b", "a/b"}, {"#", "a"},
        {"#", "a/b/c"}, {"#", "/"}, {"+", "a"}, {"a/+", "a/b"}, {"a/+", "a/"},
        {"+/+", "/a"}, {"/+", "/a"}, {"a/#", "a"}, {"a/#", "a/"},
        {"a/#", "a/b/c"}, {"a/+/c", "a//c"}, {"+/#", "a"}, {"+/#", "a/b"},
        {"$SYS/#", "$SYS/load"}, {"$SYS/+", "$SYS/load"},
        {"$share/g/a/+", "a/b"}, {"$share/g/#", "a"}, {"a/+/#", "a/b"}};

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        if (!postbag__filter_matches(all[i][0], all[i][1]))
            fail_msg("%s does not select %s", all[i][0], all[i][1]);
}

static void test_topicfilter_other_topics_do_not_match(void **state)
{
    static const char *const all[][2] = {{"a/b", "a"}, {"a", "a/b"},
        {"a/b", "a/bc"}, {"a/bc", "a/b"}, {"+", "a/b"}, {"+", "/a"},
        {"a/+", "a"}, {"a/+", "a/b/c"}, {"a/#", "ab"}, {"a/#", "b"}, {"A", "a"},
        {"#", "$SYS/load"}, {"+/load", "$SYS/load"},
        {"$share/g/#", "$SYS/load"}, {"$share/g/a", "$share/g/a"},
        {"a/+/c", "a/b/d"}, {"#", ""}, {"a/#", "a/+"}, {"#", "#"}, {"+", "+"},
        {"a/", "a"}, {"a", "a/"}};

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        if (postbag__filter_matches(all[i][0], all[i][1]))
            fail_msg("%s selects %s", all[i][0], all[i][1]);
}

static void test_topicfilter_list_selects_by_any_of_it(void **state)
{
    (void)state;
    assert_true(postbag__filters_match("a/+,b/#", "b/c/d"));
    assert_true(postbag__filters_match(" a/+ , b ", "a/x"));
    assert_true(postbag__filters_match("bad#,a", "a"));
    assert_false(postbag__filters_match("a/+,b/#", "c"));
    assert_false(postbag__filters_match("bad#", "bad"));
    assert_false(postbag__filters_match("", "a"));
    assert_false(postbag__filters_match(",", "a"));
    assert_false(postbag__filters_match(NULL, "a"));
}

static void test_topicfilter_list_is_valid_if_each_is(void **state)
{
    (void)state;
    assert_true(postbag__filters_are_valid(NULL));
    assert_true(postbag__filters_are_valid(""));
    assert_true(postbag__filters_are_valid("a, b/+,#"));
    assert_false(postbag__filters_are_valid("a,"));
    assert_false(postbag__filters_are_valid("a,b#"));
}

/* The option that holds the list is shorter. */
static void test_topicfilter_list_has_no_room_for_a_huge_one(void **state)
{
    static char list[2048];

    (void)state;
    memset(list, 'a', sizeof(list) - 1);
    assert_false(postbag__filters_match(list, list));
    assert_false(postbag__filters_are_valid(list));
    memcpy(list + sizeof(list) - 4, ",b ", 3);
    assert_true(postbag__filters_match(list, "b"));
    list[1023] = '\0';
    assert_true(postbag__filters_match(list, list));
    assert_true(postbag__filters_are_valid(list));
}

static void test_topicfilter_nothing_selects_what_is_no_topic(void **state)
{
    (void)state;
    assert_false(postbag__filter_matches("#", ""));
    assert_false(postbag__filter_matches("#", "a/+"));
    assert_false(postbag__filter_matches("$share/g", "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topicfilter_valid_ones_are_taken),
        cmocka_unit_test(test_topicfilter_invalid_ones_are_refused),
        cmocka_unit_test(test_topicfilter_longest_is_65535_bytes),
        cmocka_unit_test(test_topicfilter_matching_topics_match),
        cmocka_unit_test(test_topicfilter_other_topics_do_not_match),
        cmocka_unit_test(test_topicfilter_list_selects_by_any_of_it),
        cmocka_unit_test(test_topicfilter_list_is_valid_if_each_is),
        cmocka_unit_test(test_topicfilter_list_has_no_room_for_a_huge_one),
        cmocka_unit_test(test_topicfilter_nothing_selects_what_is_no_topic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
