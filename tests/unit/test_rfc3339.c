/* SPDX-License-Identifier: MIT */
#include "rfc3339.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_rfc3339_known_instants_give_known_text(void **state)
{
    /* by `date -u -d TEXT +%s` */
    const struct {
        int64_t ms;
        const char *text;
    } all[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {INT64_C(1800000000125), "2027-01-15T08:00:00.125Z"},
        {INT64_C(951782399999), "2000-02-28T23:59:59.999Z"},
        {INT64_C(951782400000), "2000-02-29T00:00:00.000Z"},
        {INT64_C(951868800000), "2000-03-01T00:00:00.000Z"},
        {INT64_C(4107542400000), "2100-03-01T00:00:00.000Z"},
        {INT64_C(1709164800000), "2024-02-29T00:00:00.000Z"},
        {INT64_C(1735689599000), "2024-12-31T23:59:59.000Z"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char out[RFC3339_SIZE];

        postbag__rfc3339(all[i].ms, out);
        assert_string_equal(out, all[i].text);
    }
}

static void test_rfc3339_before_1970_counts_down(void **state)
{
    char out[RFC3339_SIZE];

    (void)state;
    postbag__rfc3339(-1, out);
    assert_string_equal(out, "1969-12-31T23:59:59.999Z");
    postbag__rfc3339(INT64_C(-2208988800000), out);
    assert_string_equal(out, "1900-01-01T00:00:00.000Z");
}

static void test_rfc3339_outside_years_are_clamped(void **state)
{
    char out[RFC3339_SIZE];

    (void)state;
    postbag__rfc3339(INT64_MAX, out);
    assert_string_equal(out, "9999-12-31T23:59:59.999Z");
    postbag__rfc3339(INT64_MIN, out);
    assert_string_equal(out, "0001-01-01T00:00:00.000Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rfc3339_known_instants_give_known_text),
        cmocka_unit_test(test_rfc3339_before_1970_counts_down),
        cmocka_unit_test(test_rfc3339_outside_years_are_clamped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
