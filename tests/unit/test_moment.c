/* SPDX-License-Identifier: MIT */
/* What time was it then?  Known, put right by the boot clock, or not known. */
#include "moment.h"

#include "sim_port.h"
#include "unit.h"

/* 2027-01-15, an hour after boot 1. */
static const int64_t today_ms = INT64_C(1800000000000);
enum { HOUR_MS = 3600 * 1000, MINUTE_MS = 60 * 1000 };

static struct moment moment(int boot, int64_t mono_ms, int64_t wall_ms)
{
    struct moment m = {.wall_ms = wall_ms, .mono_ms = mono_ms};

    memset(m.boot, boot, sizeof(m.boot));
    return m;
}

static void test_moment_then_as_known_now(void **state)
{
    static const int64_t set = POSTBAG__CLOCK_IS_SET_MS;
    const struct {
        const char *what;
        struct moment then, now;
        int64_t wall_ms;
    } all[] = {
        {"the clock was set", moment(1, MINUTE_MS, today_ms - 5),
            moment(1, HOUR_MS, today_ms), today_ms - 5},
        {"was set, and is not now", moment(1, MINUTE_MS, today_ms),
            moment(1, HOUR_MS, 1000), today_ms},
        {"was set, in another boot, without a stamp", moment(0, 0, set),
            moment(1, HOUR_MS, today_ms), set},
        {"was set since", moment(1, MINUTE_MS, 60000),
            moment(1, HOUR_MS, today_ms), today_ms - 59 * MINUTE_MS},
        {"a day before it is taken for set", moment(1, MINUTE_MS, set - 1),
            moment(1, HOUR_MS, set), set - 59 * MINUTE_MS},
        {"this very moment", moment(1, HOUR_MS, 0),
            moment(1, HOUR_MS, today_ms), today_ms},
        {"is not set yet", moment(1, MINUTE_MS, 60000),
            moment(1, HOUR_MS, set - 1), 0},
        {"another boot", moment(2, MINUTE_MS, 60000),
            moment(1, HOUR_MS, today_ms), 0},
        {"no stamp", moment(0, 0, 60000), moment(1, HOUR_MS, today_ms), 0},
        {"no stamp, no boot", moment(0, 0, 60000), moment(0, HOUR_MS, today_ms),
            0},
        {"later than now", moment(1, HOUR_MS + 1, 60000),
            moment(1, HOUR_MS, today_ms), 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        if (postbag__moment_wall_ms(&all[i].then, &all[i].now) !=
            all[i].wall_ms)
            fail_msg("%s", all[i].what);
}

static void test_moment_now_is_what_the_port_says(void **state)
{
    struct sim_port sim;
    uint8_t boot[16];
    struct moment now, began;

    (void)state;
    sim_port_init(&sim);
    sim.wall_ms = today_ms;
    sim.mono_us = INT64_C(1000) * HOUR_MS + 999;
    memset(boot, 3, sizeof(boot));
    now = postbag__moment_now(&sim.port, boot);
    assert_int_equal(now.wall_ms, today_ms);
    assert_int_equal(now.mono_ms, HOUR_MS);
    assert_memory_equal(now.boot, boot, sizeof(boot));
    began = postbag__moment_at(&sim.port, boot, INT64_C(1000) * MINUTE_MS);
    assert_int_equal(began.wall_ms, today_ms);
    assert_int_equal(began.mono_ms, MINUTE_MS);
    assert_memory_equal(began.boot, boot, sizeof(boot));
}

/* What no clock can know for sure does not count. */
static void test_moment_age_is_at_least_what_is_known(void **state)
{
    const int64_t set = POSTBAG__CLOCK_IS_SET_MS;
    const struct {
        const char *what;
        struct moment then, now;
        int64_t age_ms;
    } all[] = {
        {"the same boot, whatever the wall clock does",
            moment(1, MINUTE_MS, today_ms), moment(1, HOUR_MS, 5),
            59 * MINUTE_MS},
        {"the same boot, and the clock was set since", moment(1, MINUTE_MS, 0),
            moment(1, HOUR_MS, today_ms), 59 * MINUTE_MS},
        {"another boot", moment(1, MINUTE_MS, today_ms - 7 * HOUR_MS),
            moment(2, HOUR_MS, today_ms), 7 * HOUR_MS},
        {"another boot, and the clock went back",
            moment(1, MINUTE_MS, today_ms), moment(2, HOUR_MS, set), HOUR_MS},
        {"another boot, and it was not set", moment(1, MINUTE_MS, 0),
            moment(2, HOUR_MS, today_ms), HOUR_MS},
        {"another boot, and it is not set", moment(1, MINUTE_MS, today_ms),
            moment(2, HOUR_MS, 0), HOUR_MS},
        {"no stamp", moment(0, 0, today_ms - 3), moment(1, HOUR_MS, today_ms),
            3},
        {"no stamp, and it was not set", moment(0, 0, 0),
            moment(1, HOUR_MS, today_ms), 0},
        {"no stamp, and the clock went back", moment(0, 0, today_ms),
            moment(1, HOUR_MS, set), 0},
        {"later than now", moment(1, HOUR_MS, 0), moment(1, MINUTE_MS, 0), 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(all); i++)
        if (postbag__moment_age_ms(&all[i].then, &all[i].now) != all[i].age_ms)
            fail_msg("%s", all[i].what);
}

static void test_moment_furthest_ends_with_the_numbers(void **state)
{
    (void)state;
    assert_int_equal(postbag__moment_furthest(5, 7), 12);
    assert_int_equal(postbag__moment_furthest(INT64_MAX - 6, 7), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moment_then_as_known_now),
        cmocka_unit_test(test_moment_age_is_at_least_what_is_known),
        cmocka_unit_test(test_moment_furthest_ends_with_the_numbers),
        cmocka_unit_test(test_moment_now_is_what_the_port_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
