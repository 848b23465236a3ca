/* SPDX-License-Identifier: MIT */
/* Codes, names, texts, and how a fault is filled. */
#include "error.h"

#include "unit.h"

static const int codes[] = {
#define CODE(name, value, text) POSTBAG_##name,
    POSTBAG_ERROR_MAP(CODE)
#undef CODE
};

/* The contract with programs that were compiled long ago. */
static void test_error_codes_keep_their_values(void **state)
{
    static const struct {
        int code;
        const char *name;
    } all[] = {
        {0, "OK"},
        {-101, "EINVAL"},
        {-102, "ENOTXN"},
        {-103, "ESTATE"},
        {-104, "EVERSION"},
        {-105, "ENOTFOUND"},
        {-106, "ETOOBIG"},
        {-201, "EBUSY"},
        {-202, "EAGAIN"},
        {-203, "EFULL"},
        {-204, "EFENCED"},
        {-301, "EIO"},
        {-302, "ENOSPC"},
        {-303, "ENOMEM"},
        {-304, "ESTORAGE"},
        {-401, "ELINK"},
        {-402, "EREFUSED"},
        {-403, "EPROTO"},
        {-901, "ECORRUPT"},
        {-902, "ESCHEMA"},
        {-903, "ESQLITE"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        assert_string_equal(postbag_error_name(all[i].code), all[i].name);
    assert_int_equal(COUNT(all), COUNT(codes) + 1);
}

static void test_error_each_code_has_a_text_of_its_own(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(codes); i++) {
        const char *text = postbag_error_text(codes[i]);

        assert_string_not_equal(text, postbag_error_text(1));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(text, postbag_error_text(codes[k]));
    }
}

static void test_error_unknown_code_is_named_so(void **state)
{
    (void)state;
    assert_string_equal(postbag_error_name(-999), "?");
    assert_string_equal(postbag_error_text(-999), "unknown error");
    assert_string_equal(postbag_error_text(0), "no error");
}

static void test_error_version_is_that_of_its_parts(void **state)
{
    char parts[32];

    (void)state;
    (void)snprintf(parts, sizeof(parts), "%d.%d.%d", POSTBAG_VERSION_MAJOR,
        POSTBAG_VERSION_MINOR, POSTBAG_VERSION_PATCH);
    assert_string_equal(postbag_version(), parts);
}

static void test_fail_fills_the_fault_and_returns_the_code(void **state)
{
    struct postbag_fault why = {.cause = 7};

    (void)state;
    assert_int_equal(
        postbag__fail(&why, POSTBAG_EINVAL, "option %s", "dest"), -101);
    assert_int_equal(why.code, POSTBAG_EINVAL);
    assert_int_equal(why.cause, 0);
    assert_string_equal(why.text, "option dest");
}

static void test_fail_text_that_is_too_long_is_cut(void **state)
{
    char longer[300];
    struct postbag_fault why;

    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    (void)postbag__fail(&why, POSTBAG_EIO, "%s", longer);
    assert_int_equal(strlen(why.text), sizeof(why.text) - 1);
}

static void test_fail_without_a_fault_returns_the_code(void **state)
{
    (void)state;
    assert_int_equal(postbag__fail(NULL, POSTBAG_EBUSY, "busy"), POSTBAG_EBUSY);
}

static void test_pass_copies_the_whole_fault(void **state)
{
    const struct postbag_fault from = {
        .code = POSTBAG_EIO, .cause = 778, .text = "disk"};
    struct postbag_fault to = {0};

    (void)state;
    assert_int_equal(postbag__pass(&to, &from), POSTBAG_EIO);
    assert_memory_equal(&to, &from, sizeof(to));
    assert_int_equal(postbag__pass(NULL, &from), POSTBAG_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_codes_keep_their_values),
        cmocka_unit_test(test_error_each_code_has_a_text_of_its_own),
        cmocka_unit_test(test_error_unknown_code_is_named_so),
        cmocka_unit_test(test_error_version_is_that_of_its_parts),
        cmocka_unit_test(test_fail_fills_the_fault_and_returns_the_code),
        cmocka_unit_test(test_fail_text_that_is_too_long_is_cut),
        cmocka_unit_test(test_fail_without_a_fault_returns_the_code),
        cmocka_unit_test(test_pass_copies_the_whole_fault),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
