/* SPDX-License-Identifier: MIT */
/* Whose fault is it that the process ends: all that can happen, in order. */
#include "trial.h"

#include <string.h>

#include "unit.h"

enum { LANE = 1, WINDOW = 3 };

/* What a process finds that follows one without an orderly end. */
static struct trial after(int64_t upto, int64_t seq, int deaths)
{
    struct trial t;

    memset(&t, 0, sizeof(t));
    postbag__trial_open(&t, LANE, upto, seq, deaths);
    postbag__trial_begin(&t, WINDOW);
    return t;
}

/* Sends a row of the lane; what the database must say of it then, 0: nothing.
 */
static int send_row(struct trial *t, int64_t seq)
{
    int deaths = postbag__trial_deaths(t, LANE, seq);

    postbag__trial_sends(t, LANE, seq, deaths, 1);
    if (!postbag__trial_owes(t))
        return 0;
    postbag__trial_saved(t);
    assert_int_equal(t->marks[LANE].seq, seq);
    return t->marks[LANE].deaths;
}

static void test_trial_orderly_start_marks_nothing(void **state)
{
    struct trial t;

    (void)state;
    memset(&t, 0, sizeof(t));
    assert_int_equal(send_row(&t, 1), 0);
    assert_int_equal(postbag__trial_isolates(&t), 0);
}

static void test_trial_first_row_is_marked_and_no_other(void **state)
{
    struct trial t = after(9, 0, 0);

    (void)state;
    assert_int_equal(postbag__trial_isolates(&t), 0);
    assert_int_equal(send_row(&t, 5), 1);
    assert_int_equal(send_row(&t, 6), 0);
    postbag__trial_answered(&t, LANE, 5);
    assert_int_equal(send_row(&t, 7), 0);
}

static void test_trial_row_that_was_not_in_flight_is_not_marked(void **state)
{
    struct trial t = after(9, 0, 0);

    (void)state;
    assert_int_equal(send_row(&t, 10), 0);
}

static void test_trial_second_end_is_counted_the_third_is_alone(void **state)
{
    struct trial t = after(9, 5, 1);

    (void)state;
    assert_int_equal(postbag__trial_isolates(&t), 0);
    assert_int_equal(send_row(&t, 5), 2);
    t = after(9, 5, 2);
    assert_int_equal(postbag__trial_isolates(&t), 1);
    assert_int_equal(send_row(&t, 5), 3);
    t = after(9, 5, 3);
    assert_int_equal(send_row(&t, 5), 4);
}

static void test_trial_another_row_begins_at_one(void **state)
{
    struct trial t = after(9, 5, 1);

    (void)state;
    assert_int_equal(send_row(&t, 6), 1);
}

static void test_trial_marks_each_row_as_alone(void **state)
{
    struct trial t = after(9, 5, 2);

    (void)state;
    assert_int_equal(send_row(&t, 5), 3);
    postbag__trial_answered(&t, LANE, 5);
    assert_int_equal(send_row(&t, 6), 3);
    postbag__trial_answered(&t, LANE, 6);
    assert_int_equal(send_row(&t, 20), 3);
}

static void test_trial_ends_with_a_window_of_answers(void **state)
{
    struct trial t = after(9, 5, 2);

    (void)state;
    for (int64_t seq = 5; seq < 5 + WINDOW; seq++) {
        assert_int_equal(postbag__trial_isolates(&t), 1);
        (void)send_row(&t, seq);
        postbag__trial_answered(&t, LANE, seq);
    }
    assert_int_equal(postbag__trial_isolates(&t), 0);
    assert_int_equal(send_row(&t, 8), 0);
}

static void test_trial_ends_with_what_may_have_been_in_flight(void **state)
{
    struct trial t = after(6, 5, 2);

    (void)state;
    (void)send_row(&t, 5);
    postbag__trial_answered(&t, LANE, 5);
    postbag__trial_passed(&t, LANE, 5);
    assert_int_equal(postbag__trial_isolates(&t), 1);
    postbag__trial_passed(&t, LANE, 6);
    assert_int_equal(postbag__trial_isolates(&t), 0);
}

/* Others may be answered in between: urgent ones. */
static void test_trial_does_not_end_before_the_row_it_is_about(void **state)
{
    struct trial t = after(9, 5, 2);

    (void)state;
    for (int64_t seq = 100; seq < 110; seq++) {
        postbag__trial_sends(&t, LANE + 1, seq, 0, 1);
        postbag__trial_answered(&t, LANE + 1, seq);
    }
    assert_int_equal(postbag__trial_isolates(&t), 1);
    postbag__trial_passed(&t, LANE, 5); /* dropped, say */
    assert_int_equal(postbag__trial_isolates(&t), 0);
}

static void test_trial_by_a_held_row_is_not_over_with_the_lanes(void **state)
{
    struct trial t;

    (void)state;
    memset(&t, 0, sizeof(t));
    postbag__trial_open(&t, TRIAL_HELD, 9, 0, 2);
    postbag__trial_begin(&t, WINDOW);
    postbag__trial_passed(&t, LANE, 100);
    assert_int_equal(postbag__trial_isolates(&t), 1);
}

static void test_trial_lost_connection_is_taken_back(void **state)
{
    struct trial t = after(9, 5, 2);

    (void)state;
    assert_int_equal(send_row(&t, 5), 3);
    postbag__trial_lost(&t);
    assert_int_equal(postbag__trial_owes(&t), 1);
    assert_int_equal(postbag__trial_deaths(&t, LANE, 5), 2);
    postbag__trial_saved(&t);
    postbag__trial_lost(&t); /* once */
    assert_int_equal(postbag__trial_deaths(&t, LANE, 5), 2);
    assert_int_equal(send_row(&t, 5), 3);
}

static void test_trial_send_that_is_put_off_is_counted_once(void **state)
{
    struct trial t = after(9, 5, 2);

    (void)state;
    assert_int_equal(send_row(&t, 5), 3);
    assert_int_equal(send_row(&t, 5), 0);
    assert_int_equal(postbag__trial_deaths(&t, LANE, 5), 2);
    assert_int_equal(t.marks[LANE].deaths, 3);
}

static void test_trial_that_proves_nothing_charges_nothing(void **state)
{
    struct trial t;

    (void)state;
    memset(&t, 0, sizeof(t));
    postbag__trial_sends(&t, TRIAL_HELD, 5, 7, 0);
    assert_int_equal(postbag__trial_owes(&t), 1);
    assert_int_equal(postbag__trial_deaths(&t, TRIAL_HELD, 5), 7);
    postbag__trial_lost(&t);
    assert_int_equal(postbag__trial_deaths(&t, TRIAL_HELD, 5), 7);
}

static void test_trial_guilt_needs_max_attempts_more(void **state)
{
    (void)state;
    assert_int_equal(postbag__trial_is_alone(1), 0);
    assert_int_equal(postbag__trial_is_alone(2), 1);
    assert_int_equal(postbag__trial_is_suspect(4), 0);
    assert_int_equal(postbag__trial_is_suspect(5), 1);
    assert_int_equal(postbag__trial_is_guilty(16, 12), 0);
    assert_int_equal(postbag__trial_is_guilty(17, 12), 1);
    assert_int_equal(postbag__trial_is_guilty(4, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trial_orderly_start_marks_nothing),
        cmocka_unit_test(test_trial_first_row_is_marked_and_no_other),
        cmocka_unit_test(test_trial_row_that_was_not_in_flight_is_not_marked),
        cmocka_unit_test(test_trial_second_end_is_counted_the_third_is_alone),
        cmocka_unit_test(test_trial_another_row_begins_at_one),
        cmocka_unit_test(test_trial_marks_each_row_as_alone),
        cmocka_unit_test(test_trial_ends_with_a_window_of_answers),
        cmocka_unit_test(test_trial_ends_with_what_may_have_been_in_flight),
        cmocka_unit_test(test_trial_does_not_end_before_the_row_it_is_about),
        cmocka_unit_test(test_trial_by_a_held_row_is_not_over_with_the_lanes),
        cmocka_unit_test(test_trial_lost_connection_is_taken_back),
        cmocka_unit_test(test_trial_send_that_is_put_off_is_counted_once),
        cmocka_unit_test(test_trial_that_proves_nothing_charges_nothing),
        cmocka_unit_test(test_trial_guilt_needs_max_attempts_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
