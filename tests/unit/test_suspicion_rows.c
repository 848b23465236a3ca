/* SPDX-License-Identifier: MIT */
/* What is remembered of a row while others end connections, too. */
#include "suspicion.h"

#include "ends.h"
#include "unit.h"

/* Others are answered on each connection, but it is not. */
static void test_suspicion_third_time_lost_first_isolates(void **state)
{
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(postbag__suspicion_isolates(&s), 0);
        assert_int_equal(die(&s, 1, "xz", 0), SUSPICION_NONE);
        postbag__suspicion_forget(&s, 'x');
        assert_int_equal(die(&s, 1, "abc", 0), SUSPICION_NONE);
    }
    assert_int_equal(postbag__suspicion_isolates(&s), 1);
}

/* One hangs up, the next is never answered, and so on: who was first last time
 * need not be first again. */
static void test_suspicion_rows_that_take_turns_are_each_set_aside(void **state)
{
    struct suspicion s = {0};

    (void)state;
    (void)die(&s, 0, "abcdefgh", 0);
    (void)die(&s, 0, "abcdefgh", 0);
    for (int i = 0; i < 3 * 8; i++) {
        const char row[] = {(char)('a' + i % 8), 0};

        assert_int_equal(end_with(&s, 0, row,
                             i % 2 ? SUSPICION_SILENCE : SUSPICION_HANG_UP, 0),
            i < 2 * 8 ? SUSPICION_NONE : SUSPICION_SET_ASIDE);
    }
}

static void test_suspicion_answer_clears_the_row_it_is_for(void **state)
{
    struct suspicion s = {0};

    (void)state;
    (void)die(&s, 0, "a", 0);
    (void)die(&s, 0, "b", 0);
    (void)die(&s, 0, "a", 0);
    (void)die(&s, 0, "b", 0);
    postbag__suspicion_forget(&s, 'b');
    postbag__suspicion_forget(&s, 'c');
    assert_int_equal(die(&s, 0, "b", 0), SUSPICION_NONE);
    assert_int_equal(die(&s, 0, "a", 0), SUSPICION_SET_ASIDE);
}

/* An operator has it sent once more. */
static void test_suspicion_row_that_was_judged_begins_anew(void **state)
{
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 3; i++)
        (void)die(&s, 0, "a", 0);
    assert_int_equal(die(&s, 1, "a", 1), SUSPICION_GUILTY);
    assert_int_equal(die(&s, 0, "a", 0), SUSPICION_NONE);
    assert_int_equal(die(&s, 0, "a", 0), SUSPICION_NONE);
    assert_int_equal(die(&s, 0, "a", 0), SUSPICION_SET_ASIDE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_suspicion_third_time_lost_first_isolates),
        cmocka_unit_test(
            test_suspicion_rows_that_take_turns_are_each_set_aside),
        cmocka_unit_test(test_suspicion_answer_clears_the_row_it_is_for),
        cmocka_unit_test(test_suspicion_row_that_was_judged_begins_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
