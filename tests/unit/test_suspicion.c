/* SPDX-License-Identifier: MIT */
/* Whose fault is it that connections die: all that can happen, in order. */
#include "suspicion.h"

#include <string.h>

#include "ends.h"
#include "unit.h"

static void test_suspicion_two_deaths_without_an_answer_isolate(void **state)
{
    struct suspicion s = {0};

    (void)state;
    assert_int_equal(die(&s, 0, "abc", 0), SUSPICION_NONE);
    assert_int_equal(postbag__suspicion_isolates(&s), 0);
    assert_int_equal(die(&s, 0, "abc", 0), SUSPICION_NONE);
    assert_int_equal(postbag__suspicion_isolates(&s), 1);
}

static void test_suspicion_answer_begins_the_count_of_deaths_anew(void **state)
{
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 10; i++) {
        (void)die(&s, 0, "abc", 0);
        (void)die(&s, 1, "abc", 0);
        assert_int_equal(postbag__suspicion_isolates(&s), 0);
        postbag__suspicion_forget(&s, 'a');
    }
}

static void test_suspicion_idle_connection_counts_for_nothing(void **state)
{
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(die(&s, 0, "", 0), SUSPICION_NONE);
    assert_int_equal(s.deaths, 0);
    assert_int_equal(postbag__suspicion_isolates(&s), 0);
}

/* A broker that is down after it took a row along: refused, again and again. */
static void test_suspicion_attempts_that_fail_count_nothing(void **state)
{
    struct suspicion s = {0};

    (void)state;
    assert_int_equal(die(&s, 1, "a", 0), SUSPICION_NONE);
    for (int i = 0; i < 10; i++) {
        const struct suspicion_row lone = {.is_suspect = i % 2};

        assert_int_equal(postbag__suspicion_death(&s, SUSPICION_HANG_UP, &lone),
            SUSPICION_NONE);
    }
    assert_int_equal(s.records[0].ends, 1);
    assert_int_equal(s.deaths, 0);
}

static void test_suspicion_blame_isolates_at_once(void **state)
{
    struct suspicion s = {0};

    (void)state;
    assert_int_equal(end_with(&s, 0, "ab", SUSPICION_BLAME, 0), SUSPICION_NONE);
    assert_int_equal(postbag__suspicion_isolates(&s), 1);
}

static void test_suspicion_isolation_ends_when_all_lost_rows_settled(
    void **state)
{
    struct suspicion s = {0};

    (void)state;
    (void)die(&s, 0, "abc", 0);
    (void)die(&s, 0, "abc", 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(postbag__suspicion_isolates(&s), 1);
        postbag__suspicion_answered(&s, 1, 1);
    }
    assert_int_equal(postbag__suspicion_isolates(&s), 0);
}

static void test_suspicion_third_death_alone_sets_aside(void **state)
{
    struct suspicion s = {0};

    (void)state;
    assert_int_equal(die(&s, 0, "a", 0), SUSPICION_NONE);
    /* an answer to others before it does not clear it */
    assert_int_equal(die(&s, 2, "a", 0), SUSPICION_NONE);
    assert_int_equal(die(&s, 0, "a", 0), SUSPICION_SET_ASIDE);
    /* it could not be written: the next one tells again */
    assert_int_equal(die(&s, 0, "a", 0), SUSPICION_SET_ASIDE);
}

static void test_suspicion_company_or_another_row_is_no_third_death(
    void **state)
{
    struct suspicion s = {0};

    (void)state;
    (void)die(&s, 0, "a", 0);
    (void)die(&s, 0, "a", 0);
    assert_int_equal(die(&s, 0, "ab", 0), SUSPICION_NONE);
    assert_int_equal(die(&s, 0, "b", 0), SUSPICION_NONE);
    assert_int_equal(die(&s, 0, "b", 0), SUSPICION_NONE);
}

static void test_suspicion_setting_aside_counts_as_settled(void **state)
{
    struct suspicion s = {0};

    (void)state;
    (void)die(&s, 0, "a", 0);
    (void)die(&s, 0, "ab", 0);
    (void)die(&s, 0, "a", 0);
    assert_int_equal(die(&s, 0, "a", 0), SUSPICION_SET_ASIDE);
    assert_int_equal(postbag__suspicion_isolates(&s), 1);
    postbag__suspicion_answered(&s, 1, 1);
    assert_int_equal(postbag__suspicion_isolates(&s), 0);
}

static void test_suspicion_suspect_is_guilty_only_where_others_were_answered(
    void **state)
{
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(die(&s, 0, "a", 1), SUSPICION_AGAIN);
    assert_int_equal(die(&s, 1, "a", 1), SUSPICION_GUILTY);
}

/* ---- a broker that hangs up after a refusal ---- */

/* It answers row 1 so, and ends with this one in flight. */
static enum suspicion_verdict hang_up_after(
    struct suspicion *s, int is_success, char row, int is_suspect)
{
    postbag__suspicion_link_up(s);
    postbag__suspicion_answered(s, 1, is_success);
    postbag__suspicion_lost(s, row, 2);
    return postbag__suspicion_death(s, SUSPICION_HANG_UP,
        &(struct suspicion_row){.is_suspect = is_suspect});
}

static void test_suspicion_refusal_clears_no_connection(void **state)
{
    struct suspicion s = {0};

    (void)state;
    assert_int_equal(hang_up_after(&s, 0, 'a', 0), SUSPICION_NONE);
    assert_int_equal(hang_up_after(&s, 0, 'b', 0), SUSPICION_NONE);
    assert_int_equal(postbag__suspicion_isolates(&s), 1);
    assert_int_equal(hang_up_after(&s, 0, 'c', 1), SUSPICION_AGAIN);
    assert_int_equal(hang_up_after(&s, 1, 'c', 1), SUSPICION_GUILTY);
}

static enum suspicion_verdict die_again(struct suspicion *s)
{
    return postbag__suspicion_death(
        s, SUSPICION_HANG_UP, &(struct suspicion_row){0});
}

static void test_suspicion_is_owed_a_try_when_denied_three_times(void **state)
{
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(postbag__suspicion_owes(&s), 0);
        postbag__suspicion_link_up(&s);
        postbag__suspicion_deny(&s);
        postbag__suspicion_deny(&s);
        assert_int_equal(die_again(&s), SUSPICION_NONE);
        /* nor do attempts that come to nothing deny */
        assert_int_equal(die_again(&s), SUSPICION_NONE);
    }
    assert_int_equal(postbag__suspicion_owes(&s), 1);
    postbag__suspicion_tried(&s);
    assert_int_equal(postbag__suspicion_owes(&s), 0);
}

/* ---- no PUBACK in time ---- */

/* The broker answers what was sent after this row, then we give up. */
static enum suspicion_verdict pass_over(struct suspicion *s, int64_t row)
{
    postbag__suspicion_link_up(s);
    postbag__suspicion_answered(s, 1, 1);
    postbag__suspicion_answered(s, 3, 1);
    postbag__suspicion_lost(s, row + 1, 4);
    postbag__suspicion_lost(s, row, 2);
    postbag__suspicion_lost(s, row + 2, 5);
    return postbag__suspicion_death(
        s, SUSPICION_SILENCE, &(struct suspicion_row){0});
}

static enum suspicion_verdict fall_silent(
    struct suspicion *s, int answers, const char *rows)
{
    return end_with(s, answers, rows, SUSPICION_SILENCE, 0);
}

static void test_suspicion_third_time_passed_over_sets_aside(void **state)
{
    struct suspicion s = {0};

    (void)state;
    assert_int_equal(pass_over(&s, 'a'), SUSPICION_NONE);
    assert_int_equal(pass_over(&s, 'a'), SUSPICION_NONE);
    assert_int_equal(pass_over(&s, 'a'), SUSPICION_SET_ASIDE);
    assert_int_equal(s.oldest, 'a');
    assert_int_equal(postbag__suspicion_isolates(&s), 0);
}

/* All others are settled by then. */
static void test_suspicion_once_passed_over_silence_speaks_against_it(
    void **state)
{
    struct suspicion s = {0};

    (void)state;
    assert_int_equal(pass_over(&s, 'a'), SUSPICION_NONE);
    assert_int_equal(fall_silent(&s, 0, "a"), SUSPICION_NONE);
    assert_int_equal(fall_silent(&s, 0, "a"), SUSPICION_SET_ASIDE);
}

static void test_suspicion_passing_over_one_says_nothing_of_another(
    void **state)
{
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(pass_over(&s, 'a' + i), SUSPICION_NONE);
    for (int i = 0; i < 10; i++)
        assert_int_equal(fall_silent(&s, 0, "z"), SUSPICION_NONE);
}

/* What it answered was sent before. */
static void test_suspicion_silence_after_answers_counts_for_nothing(
    void **state)
{
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(fall_silent(&s, 2, "ab"), SUSPICION_NONE);
        assert_int_equal(fall_silent(&s, 0, "a"), SUSPICION_NONE);
    }
    assert_int_equal(s.records[0].ends, 0);
    assert_int_equal(s.deaths, 0);
}

/* A window of one, or a row as large as the window: nothing can pass it. */
static void test_suspicion_silence_in_the_way_of_others_sets_aside(void **state)
{
    static const enum suspicion_verdict expected[] = {
        SUSPICION_NONE, SUSPICION_NONE, SUSPICION_SET_ASIDE, SUSPICION_NONE};
    const struct suspicion_row in_the_way = {.is_in_the_way = 1};
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 4; i++) {
        postbag__suspicion_link_up(&s);
        postbag__suspicion_lost(&s, i < 3 ? 'a' : 'b', 1);
        assert_int_equal(
            postbag__suspicion_death(&s, SUSPICION_SILENCE, &in_the_way),
            expected[i]);
    }
    assert_int_equal(postbag__suspicion_isolates(&s), 0);
}

static void test_suspicion_silence_in_isolation_sets_aside(void **state)
{
    struct suspicion s = {0};

    (void)state;
    (void)die(&s, 0, "abc", 0);
    (void)die(&s, 0, "abc", 0);
    assert_int_equal(fall_silent(&s, 0, "a"), SUSPICION_NONE);
    assert_int_equal(fall_silent(&s, 0, "a"), SUSPICION_NONE);
    assert_int_equal(fall_silent(&s, 0, "a"), SUSPICION_SET_ASIDE);
}

static void test_suspicion_silent_suspect_is_guilty_where_others_were_answered(
    void **state)
{
    struct suspicion s = {0};

    (void)state;
    assert_int_equal(
        end_with(&s, 0, "a", SUSPICION_SILENCE, 1), SUSPICION_AGAIN);
    assert_int_equal(
        end_with(&s, 1, "a", SUSPICION_SILENCE, 1), SUSPICION_GUILTY);
}

/* ---- too much ---- */

static void test_suspicion_quota_sets_aside_who_alone_exceeds_it(void **state)
{
    struct suspicion s = {0};

    (void)state;
    assert_int_equal(end_with(&s, 0, "ab", SUSPICION_QUOTA, 0), SUSPICION_NONE);
    assert_int_equal(postbag__suspicion_isolates(&s), 1);
    assert_int_equal(end_with(&s, 0, "a", SUSPICION_QUOTA, 0), SUSPICION_NONE);
    assert_int_equal(end_with(&s, 0, "a", SUSPICION_QUOTA, 0), SUSPICION_NONE);
    assert_int_equal(
        end_with(&s, 0, "a", SUSPICION_QUOTA, 0), SUSPICION_SET_ASIDE);
}

static void test_suspicion_quota_that_others_used_up_counts_for_nothing(
    void **state)
{
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(
            end_with(&s, 1, "a", SUSPICION_QUOTA, 0), SUSPICION_NONE);
    assert_int_equal(s.records[0].ends, 0);
    assert_int_equal(
        end_with(&s, 1, "a", SUSPICION_QUOTA, 1), SUSPICION_CHARGE);
    assert_int_equal(end_with(&s, 0, "a", SUSPICION_QUOTA, 1), SUSPICION_AGAIN);
}

/* ---- the rest ---- */

static void test_suspicion_ends_of_the_link_count_for_nothing(void **state)
{
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(
            end_with(&s, 0, "a", SUSPICION_NO_ROWS, 0), SUSPICION_NONE);
        assert_int_equal(
            end_with(&s, 1, "a", SUSPICION_NO_ROWS, 1), SUSPICION_NONE);
    }
    assert_int_equal(s.records[0].ends, 0);
    assert_int_equal(postbag__suspicion_isolates(&s), 0);
}

static void test_suspicion_rows_set_aside_are_counted_until_an_answer(
    void **state)
{
    struct suspicion s = {0};

    (void)state;
    for (int i = 0; i < 9; i++)
        (void)die(&s, 0, i < 3 ? "a" : i < 6 ? "b" : "c", 0);
    assert_int_equal(s.aside, 3);
    postbag__suspicion_link_up(&s);
    assert_int_equal(s.aside, 3);
    postbag__suspicion_answered(&s, 1, 1);
    assert_int_equal(s.aside, 0);
}

/* All short histories of a connection that never answers: nobody is guilty,
 * and nobody is set aside before its third death alone. */
static void test_suspicion_silent_connection_never_finds_guilt(void **state)
{
    static const char *const flights[] = {"", "a", "b", "ab"};

    (void)state;
    for (unsigned history = 0; history < 65536; history++) {
        struct suspicion s = {0};
        int alone[2] = {0};

        for (int i = 0; i < 8; i++) {
            const char *rows = flights[history >> (2 * i) & 3];
            enum suspicion_verdict v = die(&s, 0, rows, 0);

            assert_int_not_equal(v, SUSPICION_GUILTY);
            if (strlen(rows) == 1)
                alone[*rows - 'a']++;
            if (v == SUSPICION_SET_ASIDE)
                assert_true(alone[*rows - 'a'] >= 3);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_suspicion_refusal_clears_no_connection),
        cmocka_unit_test(test_suspicion_is_owed_a_try_when_denied_three_times),
        cmocka_unit_test(test_suspicion_two_deaths_without_an_answer_isolate),
        cmocka_unit_test(test_suspicion_answer_begins_the_count_of_deaths_anew),
        cmocka_unit_test(test_suspicion_idle_connection_counts_for_nothing),
        cmocka_unit_test(test_suspicion_attempts_that_fail_count_nothing),
        cmocka_unit_test(test_suspicion_blame_isolates_at_once),
        cmocka_unit_test(
            test_suspicion_isolation_ends_when_all_lost_rows_settled),
        cmocka_unit_test(test_suspicion_third_death_alone_sets_aside),
        cmocka_unit_test(
            test_suspicion_company_or_another_row_is_no_third_death),
        cmocka_unit_test(test_suspicion_setting_aside_counts_as_settled),
        cmocka_unit_test(
            test_suspicion_suspect_is_guilty_only_where_others_were_answered),
        cmocka_unit_test(test_suspicion_third_time_passed_over_sets_aside),
        cmocka_unit_test(
            test_suspicion_once_passed_over_silence_speaks_against_it),
        cmocka_unit_test(
            test_suspicion_passing_over_one_says_nothing_of_another),
        cmocka_unit_test(
            test_suspicion_silence_after_answers_counts_for_nothing),
        cmocka_unit_test(
            test_suspicion_silence_in_the_way_of_others_sets_aside),
        cmocka_unit_test(test_suspicion_silence_in_isolation_sets_aside),
        cmocka_unit_test(
            test_suspicion_silent_suspect_is_guilty_where_others_were_answered),
        cmocka_unit_test(test_suspicion_quota_sets_aside_who_alone_exceeds_it),
        cmocka_unit_test(
            test_suspicion_quota_that_others_used_up_counts_for_nothing),
        cmocka_unit_test(test_suspicion_ends_of_the_link_count_for_nothing),
        cmocka_unit_test(
            test_suspicion_rows_set_aside_are_counted_until_an_answer),
        cmocka_unit_test(test_suspicion_silent_connection_never_finds_guilt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
