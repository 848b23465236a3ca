/* SPDX-License-Identifier: MIT */
/* Structs of callers that were built with an older or a newer header. */
#include "abi.h"

#include "unit.h"

struct now {
    size_t struct_size;
    int a;
    const char *b;
};

/* As a later version may have it. */
struct later {
    struct now now;
    int c;
};

static void test_abi_same_version_is_copied(void **state)
{
    const struct now from = {sizeof(from), 7, "b"};
    struct now to;

    (void)state;
    assert_ok(postbag__adopt(&to, sizeof(to), &from));
    assert_int_equal(to.struct_size, sizeof(to));
    assert_int_equal(to.a, 7);
    assert_string_equal(to.b, "b");
}

static void test_abi_older_caller_gets_zeros_for_what_it_lacks(void **state)
{
    const struct now from = {offsetof(struct now, b), 7, "not looked at"};
    struct now to;

    (void)state;
    memset(&to, 0x55, sizeof(to));
    assert_ok(postbag__adopt(&to, sizeof(to), &from));
    assert_int_equal(to.a, 7);
    assert_null(to.b);
    assert_int_equal(to.struct_size, sizeof(to));
}

static void test_abi_newer_caller_is_fine_while_the_new_is_unused(void **state)
{
    struct later from;
    struct now to;

    (void)state;
    memset(&from, 0, sizeof(from));
    from.now = (struct now){sizeof(from), 7, "b"};
    assert_ok(postbag__adopt(&to, sizeof(to), &from));
    assert_int_equal(to.a, 7);
    assert_int_equal(to.struct_size, sizeof(to));
    from.c = 1;
    assert_int_equal(postbag__adopt(&to, sizeof(to), &from), POSTBAG_EVERSION);
}

static void test_abi_unset_size_is_refused(void **state)
{
    struct now from = {0, 7, "b"};
    struct now to;

    (void)state;
    assert_int_equal(postbag__adopt(&to, sizeof(to), &from), POSTBAG_EVERSION);
    from.struct_size = sizeof(size_t);
    assert_int_equal(postbag__adopt(&to, sizeof(to), &from), POSTBAG_EVERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abi_same_version_is_copied),
        cmocka_unit_test(test_abi_older_caller_gets_zeros_for_what_it_lacks),
        cmocka_unit_test(test_abi_newer_caller_is_fine_while_the_new_is_unused),
        cmocka_unit_test(test_abi_unset_size_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
