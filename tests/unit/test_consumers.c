/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "consumers.h"

static enum postbag_outcome ignore(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    (void)ctx;
    (void)cmd;
    (void)w;
    return POSTBAG_DONE;
}

static int add(struct consumers *c, const char *name, const char *filter)
{
    const struct consumer one = {
        .name = name, .filter = filter, .handler = ignore};

    return postbag__consumers_add(c, &one, NULL);
}

static void test_consumers_added_are_copied_in_order(void **state)
{
    struct consumers c = {0};
    char name[] = "valve";
    const char **filters;

    (void)state;
    assert_int_equal(add(&c, name, "cmd/valve/#"), POSTBAG_OK);
    assert_int_equal(add(&c, "lamp", "cmd/lamp"), POSTBAG_OK);
    memset(name, 'x', 5);
    assert_string_equal(c.list[0].name, "valve");
    assert_ptr_equal(postbag__consumers_find(&c, "lamp"), &c.list[1]);
    assert_null(postbag__consumers_find(&c, name));
    filters = postbag__consumers_filters(&c);
    assert_string_equal(filters[0], "cmd/valve/#");
    assert_string_equal(filters[1], "cmd/lamp");
    postbag__consumers_free_filters(filters);
    postbag__consumers_free(&c);
    assert_int_equal(c.count, 0);
}

static enum postbag_outcome take_long(
    void *ctx, const struct postbag_command *cmd)
{
    (void)ctx;
    (void)cmd;
    return POSTBAG_DONE;
}

static void test_consumers_slow_ones_stand_last_in_order(void **state)
{
    const char *const wanted[] = {"q1", "q2", "q3", "s1", "s2"};
    const struct consumer slow[] = {
        {.name = "s1", .filter = "s", .handler = ignore, .slow = take_long},
        {.name = "s2", .filter = "s", .handler = ignore, .slow = take_long}};
    struct consumers c = {0};

    (void)state;
    assert_int_equal(postbag__consumers_quick(&c), 0);
    assert_int_equal(add(&c, "q1", "q"), POSTBAG_OK);
    assert_int_equal(postbag__consumers_add(&c, &slow[0], NULL), POSTBAG_OK);
    assert_int_equal(add(&c, "q2", "q"), POSTBAG_OK);
    assert_int_equal(postbag__consumers_add(&c, &slow[1], NULL), POSTBAG_OK);
    assert_int_equal(add(&c, "q3", "q"), POSTBAG_OK);
    assert_int_equal(postbag__consumers_quick(&c), 3);
    for (size_t i = 0; i < c.count; i++)
        assert_string_equal(c.list[i].name, wanted[i]);
    assert_int_equal(c.count, 5);
    postbag__consumers_free(&c);
}

static void test_consumers_bad_one_is_refused_and_named(void **state)
{
    const struct consumer bad = {.name = "bad", .filter = "a#"};
    struct postbag_fault why;
    struct consumers c = {0};
    char longest[66];

    (void)state;
    memset(longest, 'n', sizeof(longest));
    longest[65] = '\0';
    assert_int_equal(add(&c, longest, "a"), POSTBAG_EINVAL);
    longest[64] = '\0';
    assert_int_equal(add(&c, longest, "a"), POSTBAG_OK);
    assert_int_equal(add(&c, "", "a"), POSTBAG_EINVAL);
    assert_int_equal(add(&c, NULL, "a"), POSTBAG_EINVAL);
    assert_int_equal(add(&c, "x", "a#"), POSTBAG_EINVAL);
    assert_int_equal(add(&c, longest, "b"), POSTBAG_EINVAL);
    assert_int_equal(postbag__consumers_add(&c, &bad, &why), POSTBAG_EINVAL);
    assert_non_null(strstr(why.text, "bad"));
    assert_int_equal(c.count, 1);
    postbag__consumers_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_consumers_added_are_copied_in_order),
        cmocka_unit_test(test_consumers_slow_ones_stand_last_in_order),
        cmocka_unit_test(test_consumers_bad_one_is_refused_and_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
