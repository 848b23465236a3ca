/* SPDX-License-Identifier: MIT */
#include "standstill.h"

#include "postbag/postbag.h"
#include "unit.h"

enum { SECOND = 1000 * 1000 };

static void test_standstill_lock_is_told_once_after_five_seconds(void **state)
{
    struct standstill s = {0};
    int64_t t = 100 * SECOND;

    (void)state;
    for (int i = 0; i < 50; i++)
        assert_int_equal(
            postbag__standstill_note(&s, t + i * SECOND / 10, POSTBAG_EBUSY, 0),
            STANDSTILL_SAME);
    assert_string_equal(postbag__standstill_name(&s), "");
    t += 5 * SECOND;
    assert_int_equal(
        postbag__standstill_note(&s, t, POSTBAG_EBUSY, 0), STANDSTILL_BEGAN);
    assert_string_equal(postbag__standstill_name(&s), "locked");
    assert_int_equal(
        postbag__standstill_note(&s, t + 60 * SECOND, POSTBAG_EBUSY, 0),
        STANDSTILL_SAME);
}

static void test_standstill_locks_between_commits_are_none(void **state)
{
    struct standstill s = {0};

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(
            postbag__standstill_note(&s, i * SECOND, POSTBAG_EBUSY, 0),
            STANDSTILL_SAME);
        assert_int_equal(
            postbag__standstill_note(&s, i * SECOND + 1, POSTBAG_OK, 1),
            STANDSTILL_SAME);
    }
}

/* A step that had nothing to write proves nothing. */
static void test_standstill_is_over_with_a_commit(void **state)
{
    struct standstill s = {0};

    (void)state;
    assert_int_equal(
        postbag__standstill_note(&s, 1, POSTBAG_ENOSPC, 0), STANDSTILL_SAME);
    assert_int_equal(postbag__standstill_note(&s, SECOND, POSTBAG_ENOSPC, 0),
        STANDSTILL_SAME);
    assert_int_equal(
        postbag__standstill_note(&s, SECOND + 1, POSTBAG_ENOSPC, 0),
        STANDSTILL_BEGAN);
    assert_string_equal(postbag__standstill_name(&s), "full");
    assert_int_equal(
        postbag__standstill_note(&s, SECOND, POSTBAG_OK, 0), STANDSTILL_SAME);
    assert_int_equal(postbag__standstill_note(&s, SECOND, POSTBAG_EFENCED, 1),
        STANDSTILL_SAME);
    /* something was committed, but not all */
    assert_int_equal(postbag__standstill_note(&s, SECOND, POSTBAG_ENOSPC, 1),
        STANDSTILL_SAME);
    assert_string_equal(postbag__standstill_name(&s), "full");
    assert_int_equal(
        postbag__standstill_note(&s, SECOND, POSTBAG_OK, 1), STANDSTILL_OVER);
    assert_string_equal(postbag__standstill_name(&s), "");
    assert_int_equal(
        postbag__standstill_note(&s, SECOND, POSTBAG_OK, 1), STANDSTILL_SAME);
}

static void test_standstill_that_comes_and_goes_is_told_now_and_then(
    void **state)
{
    struct standstill s = {0};
    int told = 0;

    (void)state;
    for (int i = 0; i < 60; i++) {
        int64_t t = (int64_t)i * 2 * SECOND;

        for (int half = 0; half < 3; half++)
            told += postbag__standstill_note(&s, t + half * SECOND / 2,
                        POSTBAG_EIO, 0) == STANDSTILL_BEGAN;
        assert_string_equal(
            postbag__standstill_name(&s), s.is_told ? "failing" : "");
        (void)postbag__standstill_note(&s, t + SECOND + 1, POSTBAG_OK, 1);
    }
    assert_in_range(told, 8, 13); /* in two minutes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standstill_lock_is_told_once_after_five_seconds),
        cmocka_unit_test(test_standstill_locks_between_commits_are_none),
        cmocka_unit_test(test_standstill_is_over_with_a_commit),
        cmocka_unit_test(
            test_standstill_that_comes_and_goes_is_told_now_and_then),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
