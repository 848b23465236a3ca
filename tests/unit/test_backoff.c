/* SPDX-License-Identifier: MIT */
/* The bounds of a delay, whatever chance says. */
#include "backoff.h"

#include "unit.h"

/* The ceiling of the delay, which random bits of all ones give. */
static void test_backoff_ceiling_doubles_up_to_the_cap(void **state)
{
    static const struct {
        uint32_t failures, base_ms, cap_ms, ceiling_ms;
    } all[] = {
        {0, 1000, 300000, 1000},
        {1, 1000, 300000, 1000},
        {2, 1000, 300000, 2000},
        {3, 1000, 300000, 4000},
        {9, 1000, 300000, 256000},
        {10, 1000, 300000, 300000},
        {1000, 1000, 300000, 300000},
        {UINT32_MAX, 1000, 300000, 300000},
        /* where 32 or 64 bits would run over */
        {23, 1000, UINT32_MAX, 4194304000u},
        {24, 1000, UINT32_MAX, UINT32_MAX},
        {1000, 1, UINT32_MAX, UINT32_MAX},
        {2, UINT32_MAX, UINT32_MAX, UINT32_MAX},
        {1000, 0x80000001u, UINT32_MAX, UINT32_MAX},
        /* a base above the cap */
        {1, 5000, 1000, 1000},
        {2, 5000, 1000, 1000},
        {1, 1, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        if (postbag__backoff_ms(all[i].failures, all[i].base_ms, all[i].cap_ms,
                UINT32_MAX) != all[i].ceiling_ms)
            fail_msg("row %zu", i);
}

static void test_backoff_floor_is_a_tenth_of_the_ceiling(void **state)
{
    (void)state;
    assert_int_equal(postbag__backoff_ms(1, 1000, 300000, 0), 100);
    assert_int_equal(postbag__backoff_ms(3, 1000, 300000, 0), 400);
    assert_int_equal(postbag__backoff_ms(1000, 1000, 300000, 0), 30000);
    assert_int_equal(
        postbag__backoff_ms(1000, 1, UINT32_MAX, 0), UINT32_MAX / 10);
}

/* Each tenth of the range between floor and ceiling has its share. */
static void test_backoff_of_a_fleet_spreads_over_the_whole_range(void **state)
{
    unsigned share[10] = {0};
    uint32_t random = 1;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint32_t ms;

        random = random * 1664525u + 1013904223u;
        ms = postbag__backoff_ms(4, 1000, 300000, random);
        assert_in_range(ms, 800, 8000);
        share[(ms - 800) * 10 / 7201]++;
    }
    for (size_t i = 0; i < COUNT(share); i++)
        assert_in_range(share[i], 9000, 11000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backoff_ceiling_doubles_up_to_the_cap),
        cmocka_unit_test(test_backoff_floor_is_a_tenth_of_the_ceiling),
        cmocka_unit_test(test_backoff_of_a_fleet_spreads_over_the_whole_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
