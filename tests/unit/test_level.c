/* SPDX-License-Identifier: MIT */
/* Marks that a fill passes, up and down. */
#include "level.h"

#include "unit.h"

static void test_level_rises_at_each_mark(void **state)
{
    static const struct {
        int64_t fill;
        int level;
    } all[] = {{0, 0}, {499, 0}, {500, 50}, {799, 50}, {800, 80}, {949, 80},
        {950, 95}, {999, 95}, {1000, 100}, {5000, 100}};

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        assert_int_equal(postbag__level(0, all[i].fill), all[i].level);
}

static void test_level_falls_only_well_below_a_mark(void **state)
{
    static const struct {
        int before;
        int64_t fill;
        int level;
    } all[] = {{100, 999, 100}, {100, 950, 100}, {100, 949, 95}, {95, 900, 95},
        {95, 899, 80}, {80, 750, 80}, {80, 749, 50}, {50, 450, 50},
        {50, 449, 0}, {100, 0, 0}, {100, 760, 80}};

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        assert_int_equal(
            postbag__level(all[i].before, all[i].fill), all[i].level);
}

static void test_level_trembling_fill_is_told_once(void **state)
{
    int level = 0;
    int changes = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        int now = postbag__level(level, 780 + i * 7 % 41);

        changes += now != level;
        level = now;
    }
    assert_int_equal(level, 80);
    assert_int_equal(changes, 2); /* 0, 50, 80 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_level_rises_at_each_mark),
        cmocka_unit_test(test_level_falls_only_well_below_a_mark),
        cmocka_unit_test(test_level_trembling_fill_is_told_once),
    };

    return cmocka_run_group_tests_name("level", tests, NULL, NULL);
}
