/* SPDX-License-Identifier: MIT */
/* How long a PUBACK is waited for, and what counts as progress. */
#include "patience.h"
#include "unit.h"

enum { WAIT = 1000 };

static struct patience p;

static int begin(void **state)
{
    (void)state;
    memset(&p, 0xff, sizeof(p));
    postbag__patience_restart(&p, 100);
    return 0;
}

static int is_over_at(int64_t now_us, uint64_t taken)
{
    return postbag__patience_is_over(&p, now_us, WAIT, &taken);
}

static int is_over_idle(int64_t now_us)
{
    return postbag__patience_is_over(&p, now_us, WAIT, NULL);
}

static void test_patience_looks_at_half_and_at_the_end(void **state)
{
    (void)state;
    assert_int_equal(postbag__patience_deadline(&p, WAIT), 600);
    assert_false(is_over_idle(600));
    assert_int_equal(postbag__patience_deadline(&p, WAIT), 1100);
}

static void test_patience_nothing_under_way_is_over_at_the_end(void **state)
{
    (void)state;
    assert_false(is_over_idle(600));
    assert_false(is_over_idle(1099));
    assert_true(is_over_idle(1100));
}

static void test_patience_bytes_that_stand_still_are_over_at_the_end(
    void **state)
{
    (void)state;
    assert_false(is_over_at(600, 5000));
    assert_true(is_over_at(1100, 5000));
}

static void test_patience_bytes_that_move_begin_anew(void **state)
{
    (void)state;
    assert_false(is_over_at(600, 5000));
    assert_false(is_over_at(1100, 5001));
    assert_int_equal(postbag__patience_deadline(&p, WAIT), 1600);
    assert_false(is_over_at(1600, 5002));
    assert_true(is_over_at(2100, 5002));
}

/* What moves only at the end is the next message or a PINGREQ. */
static void test_patience_bytes_at_the_end_alone_are_no_progress(void **state)
{
    (void)state;
    assert_false(is_over_idle(600));
    assert_true(is_over_at(1100, 5000));
}

static void test_patience_bytes_at_half_alone_are_no_progress(void **state)
{
    (void)state;
    assert_false(is_over_at(600, 5000));
    assert_true(is_over_idle(1100));
}

/* Nobody looked at half of it: nothing is known, and the wait was long. */
static void test_patience_looked_at_late_is_over(void **state)
{
    (void)state;
    assert_true(is_over_at(5000, 5000));
}

static void test_patience_progress_forgets_what_was_seen(void **state)
{
    (void)state;
    assert_false(is_over_at(600, 5000));
    postbag__patience_restart(&p, 700);
    assert_int_equal(postbag__patience_deadline(&p, WAIT), 1200);
    assert_false(is_over_idle(1200));
    assert_true(is_over_at(1700, 6000));
}

/* ---- one that is passed over ---- */

static struct overtaking o;

static int is_overtaken_at(int64_t now_us, uint64_t oldest, uint64_t answered)
{
    assert_true(postbag__overtaking_is_due(&o, now_us));
    return postbag__overtaking_look(&o, now_us, WAIT, oldest, answered);
}

static void test_overtaking_is_over_a_wait_after_it_was_seen(void **state)
{
    (void)state;
    postbag__overtaking_restart(&o, 100, WAIT);
    assert_false(postbag__overtaking_is_due(&o, 1099));
    assert_false(is_overtaken_at(1100, 1, 9));
    assert_false(postbag__overtaking_is_due(&o, 2099));
    assert_true(is_overtaken_at(2100, 1, 50));
}

static void test_overtaking_another_begins_anew(void **state)
{
    (void)state;
    postbag__overtaking_restart(&o, 100, WAIT);
    assert_false(is_overtaken_at(1100, 1, 9));
    assert_false(is_overtaken_at(2100, 12, 20)); /* sent later than 9 */
    assert_false(is_overtaken_at(3100, 0, 20));  /* nothing is in flight */
    postbag__overtaking_restart(&o, 4000, WAIT);
    assert_false(is_overtaken_at(5000, 1, 3));
}

static void test_overtaking_in_order_never_ends_it(void **state)
{
    (void)state;
    postbag__overtaking_restart(&o, 100, WAIT);
    for (int n = 1; n < 100; n++)
        assert_false(is_overtaken_at(
            100 + WAIT * n, (uint64_t)n * 10 + 1, (uint64_t)n * 10));
}

static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, begin)
    TEST(test_patience_looks_at_half_and_at_the_end),
    TEST(test_patience_nothing_under_way_is_over_at_the_end),
    TEST(test_patience_bytes_that_stand_still_are_over_at_the_end),
    TEST(test_patience_bytes_that_move_begin_anew),
    TEST(test_patience_bytes_at_the_end_alone_are_no_progress),
    TEST(test_patience_bytes_at_half_alone_are_no_progress),
    TEST(test_patience_looked_at_late_is_over),
    TEST(test_patience_progress_forgets_what_was_seen),
    TEST(test_overtaking_is_over_a_wait_after_it_was_seen),
    TEST(test_overtaking_another_begins_anew),
    TEST(test_overtaking_in_order_never_ends_it),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
