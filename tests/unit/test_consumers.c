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
    filters = postbag__consumers_filters(&c);
    assert_string_equal(filters[0], "cmd/valve/#");
    assert_string_equal(filters[1], "cmd/lamp");
    postbag__consumers_free_filters(filters);
    postbag__consumers_free(&c);
    assert_int_equal(c.count, 0);
}

static void test_consumers_bad_one_is_refused_and_named(void **state)
{
    const struct consumer mute = {.name = "mute", .filter = "a"};
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
    assert_int_equal(postbag__consumers_add(&c, &mute, &why), POSTBAG_EINVAL);
    assert_non_null(strstr(why.text, "mute"));
    assert_int_equal(c.count, 1);
    postbag__consumers_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_consumers_added_are_copied_in_order),
        cmocka_unit_test(test_consumers_bad_one_is_refused_and_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
