/* SPDX-License-Identifier: MIT */
/* How much may be held: where bulk stops, where urgent rows do, and when that
 * is told. */
#include "bound.h"

#include "unit.h"

static const struct bound all = {.max_rows = 80, .max_bytes = 8000};

static void test_bound_bulk_leaves_an_eighth_to_urgent_rows(void **state)
{
    (void)state;
    assert_true(postbag__bound_allows(&all, 69, 6999, 1));
    assert_false(postbag__bound_allows(&all, 70, 0, 1));
    assert_false(postbag__bound_allows(&all, 0, 7000, 1));
    assert_true(postbag__bound_allows(&all, 79, 7999, 0));
    assert_false(postbag__bound_allows(&all, 80, 0, 0));
    assert_false(postbag__bound_allows(&all, 0, 8000, 0));
}

static void test_bound_of_one_takes_one(void **state)
{
    const struct bound one = {.max_rows = 1, .max_bytes = 1};

    (void)state;
    for (int is_bulk = 0; is_bulk < 2; is_bulk++) {
        assert_true(postbag__bound_allows(&one, 0, 0, is_bulk));
        assert_false(postbag__bound_allows(&one, 1, 0, is_bulk));
    }
}

/* So that a log does not fill with a bound that comes and goes. */
static void test_bound_is_told_once_until_an_eighth_is_free(void **state)
{
    static const struct {
        int64_t rows, bytes;
        int is_told, is_reached;
    } steps[] = {
        {69, 6999, 0, 0},
        {70, 100, 1, 1},
        {69, 100, 0, 1},
        {75, 100, 0, 1},
        {60, 100, 0, 1},
        {59, 5999, 1, 0},
        {69, 100, 0, 0},
        {1, 7000, 1, 1},
        {1, 6000, 0, 1},
        {0, 0, 1, 0},
    };
    struct bound b = all;

    (void)state;
    for (size_t i = 0; i < COUNT(steps); i++) {
        assert_int_equal(
            postbag__bound_watch(&b, steps[i].rows, steps[i].bytes),
            steps[i].is_told);
        assert_int_equal(b.is_reached, steps[i].is_reached);
    }
}

static void test_bound_largest_options_do_not_overflow(void **state)
{
    const struct bound most = {.max_rows = UINT32_MAX, .max_bytes = UINT32_MAX};

    (void)state;
    assert_true(postbag__bound_allows(&most, 1000000, 4000000000 - 1, 0));
    assert_false(postbag__bound_allows(&most, 0, INT64_MAX / 8, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound_bulk_leaves_an_eighth_to_urgent_rows),
        cmocka_unit_test(test_bound_of_one_takes_one),
        cmocka_unit_test(test_bound_is_told_once_until_an_eighth_is_free),
        cmocka_unit_test(test_bound_largest_options_do_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
