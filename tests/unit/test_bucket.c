/* SPDX-License-Identifier: MIT */
/* How fast tokens come, how many at once, and that none is won or lost. */
#include "bucket.h"
#include "unit.h"

static const int64_t second = 1000 * 1000;

static struct bucket b;

/* Take one token after the other as soon as it may be, until that time. */
static int64_t take_all(int64_t from_us, int64_t end_us)
{
    int64_t taken = 0;

    for (;;) {
        int64_t at = postbag__bucket_ready_us(&b, 1);

        if (at < from_us)
            at = from_us;
        if (at >= end_us)
            return taken;
        postbag__bucket_take(&b, 1, at);
        taken++;
    }
}

static void test_bucket_without_a_rate_is_never_empty(void **state)
{
    (void)state;
    postbag__bucket_init(&b, 0, 500);
    for (int i = 0; i < 1000; i++)
        postbag__bucket_take(&b, UINT32_MAX, 500);
    assert_true(postbag__bucket_ready_us(&b, UINT32_MAX) <= 0);
}

static void test_bucket_begins_empty(void **state)
{
    (void)state;
    postbag__bucket_init(&b, 40, 500);
    assert_int_equal(postbag__bucket_ready_us(&b, 1), 500 + 25000);
}

/* After an hour's pause, and ever after: the rate and an eighth of it. */
static void test_bucket_no_second_has_more_than_rate_and_burst(void **state)
{
    static const uint32_t rates[] = {1, 3, 7, 8, 9, 40, 1000, 333333};

    (void)state;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        int64_t burst = rates[i] < 16 ? 1 : rates[i] / 8;
        int64_t hour = 3600 * second;

        postbag__bucket_init(&b, rates[i], 0);
        assert_int_equal(take_all(hour, hour + 1), burst);
        assert_int_equal(take_all(hour, hour + second), rates[i] - 1);
        assert_int_equal(take_all(hour, hour + 2 * second), rates[i]);
    }
}

static void test_bucket_rate_is_kept_to_the_token_for_a_day(void **state)
{
    (void)state;
    postbag__bucket_init(&b, 31, 0);
    assert_int_equal(take_all(0, 86400 * second + 1), 31 * 86400);
}

/* Who comes back late, as a busy engine does, loses nothing within a burst. */
static void test_bucket_lateness_costs_nothing(void **state)
{
    int64_t taken = 0;

    (void)state;
    postbag__bucket_init(&b, 40, 0);
    for (int64_t now = 0; now <= 100 * second; now += 77777)
        while (postbag__bucket_ready_us(&b, 1) <= now) {
            postbag__bucket_take(&b, 1, now);
            taken++;
        }
    assert_in_range(taken, 3995, 4000);
}

static void test_bucket_full_gives_more_than_it_holds(void **state)
{
    (void)state;
    postbag__bucket_init(&b, 800, 0);
    /* full after an eighth of a second, whatever the size */
    assert_int_equal(postbag__bucket_ready_us(&b, 60), 75000);
    assert_int_equal(postbag__bucket_ready_us(&b, 5000), 125000);
    postbag__bucket_take(&b, 5000, 125000);
    /* 4900 are owed; the next 100 and 1 come after them */
    assert_int_equal(
        postbag__bucket_ready_us(&b, 100), 125000 + 5000 * second / 800);
    assert_int_equal(
        postbag__bucket_ready_us(&b, 1), 125000 + 4901 * second / 800);
}

static void test_bucket_long_pause_and_large_debt_do_not_overflow(void **state)
{
    (void)state;
    postbag__bucket_init(&b, UINT32_MAX, 0);
    assert_true(postbag__bucket_ready_us(&b, UINT32_MAX) <= second);
    postbag__bucket_take(&b, UINT32_MAX, INT64_MAX / 2);
    assert_int_equal(
        postbag__bucket_ready_us(&b, UINT32_MAX), INT64_MAX / 2 + second);

    postbag__bucket_init(&b, 1, 0);
    postbag__bucket_take(&b, UINT32_MAX, 10 * second);
    assert_int_equal(
        postbag__bucket_ready_us(&b, 1), 10 * second + UINT32_MAX * second);
}

static void test_bucket_clock_that_stands_gives_nothing(void **state)
{
    (void)state;
    postbag__bucket_init(&b, 1000, 5 * second);
    postbag__bucket_take(&b, 1, 5 * second);
    postbag__bucket_take(&b, 1, 4 * second);
    assert_int_equal(postbag__bucket_ready_us(&b, 1), 5 * second + 3000);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_bucket_without_a_rate_is_never_empty),
    cmocka_unit_test(test_bucket_begins_empty),
    cmocka_unit_test(test_bucket_no_second_has_more_than_rate_and_burst),
    cmocka_unit_test(test_bucket_rate_is_kept_to_the_token_for_a_day),
    cmocka_unit_test(test_bucket_lateness_costs_nothing),
    cmocka_unit_test(test_bucket_full_gives_more_than_it_holds),
    cmocka_unit_test(test_bucket_long_pause_and_large_debt_do_not_overflow),
    cmocka_unit_test(test_bucket_clock_that_stands_gives_nothing),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
