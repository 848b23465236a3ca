/* SPDX-License-Identifier: MIT */
/* Commands wait for missing versions; not for ever, and not any number. */
#include "deferral.h"

#include "inbox_versions.h"

enum { WAIT_MS = 1000, ROWS = 3 };

static const struct order_rules defer = {
    .gap = ORDER_DEFER, .defer_ms = WAIT_MS, .defer_rows = ROWS};

static struct inbox_world *begin(void **state)
{
    struct inbox_world *w = *state;

    set_rules(w, &defer);
    return w;
}

static int64_t waiting(struct inbox_world *w)
{
    return temp_db_get(
        &w->t, "SELECT count(*) FROM inbox WHERE state = 'deferred'");
}

static void test_deferral_goes_on_in_order_once_the_missing_one_came(
    void **state)
{
    struct inbox_world *w = begin(state);

    send_all(w, "143");
    work(w);
    assert_int_equal(told_count, 1);
    assert_int_equal(waiting(w), 2);
    send(w, "cmd/a", "k", "2", "late");
    work(w);
    assert_int_equal(told_count, 4);
    for (int i = 1; i < 4; i++)
        expect_told(i, i + 1, i, POSTBAG_ORDER_NEXT);
}

static void test_deferral_holds_up_no_other_key_nor_the_missing_one(
    void **state)
{
    struct inbox_world *w = begin(state);

    send_all(w, "13");
    send(w, "cmd/a", "other", "9", "o");
    send(w, "cmd/a", NULL, "", "n");
    work(w);
    assert_int_equal(told_count, 3);
    assert_int_equal(waiting(w), 1);
}

static void test_deferral_ends_as_a_gap_after_its_time(void **state)
{
    struct inbox_world *w = begin(state);

    send_all(w, "1347");
    world_pass_ms(w, WAIT_MS - 1);
    work(w);
    assert_int_equal(told_count, 1);
    world_pass_ms(w, 1);
    work(w);
    assert_int_equal(told_count, 4);
    expect_told(1, 3, 1, POSTBAG_ORDER_GAP);
    expect_told(2, 4, 3, POSTBAG_ORDER_NEXT);
    expect_told(3, 7, 4, POSTBAG_ORDER_GAP);
}

/* The lowest goes first, and what it does not let go on waits out its time. */
static void test_deferral_of_a_higher_version_ends_behind_the_lower(
    void **state)
{
    struct inbox_world *w = begin(state);

    send_all(w, "17");
    world_pass_ms(w, WAIT_MS / 2);
    send(w, "cmd/a", "k", "4", "lower");
    send(w, "cmd/a", "k", "9", "higher");
    world_pass_ms(w, WAIT_MS / 2);
    work(w);
    assert_int_equal(told_count, 3);
    expect_told(1, 4, 1, POSTBAG_ORDER_GAP);
    expect_told(2, 7, 4, POSTBAG_ORDER_GAP);
    assert_int_equal(waiting(w), 1);
}

static void test_deferral_worker_wakes_when_it_ends(void **state)
{
    struct inbox_world *w = begin(state);
    int64_t next_us;
    int did;

    send_all(w, "13");
    work(w);
    assert_ok(postbag__worker_run_one(w->worker, &did, &next_us));
    assert_int_equal(next_us, w->mono_us + WAIT_MS * 1000);
}

static void test_deferral_ends_with_the_boot(void **state)
{
    struct inbox_world *w = begin(state);

    send_all(w, "13");
    w->boot = 2;
    world_restart(w);
    work(w);
    assert_int_equal(told_count, 2);
    expect_told(1, 3, 1, POSTBAG_ORDER_GAP);
}

static void test_deferral_ends_with_a_clock_that_begins_anew(void **state)
{
    struct inbox_world *w = begin(state);

    w->mono_us = INT64_C(10000000000);
    send_all(w, "13");
    w->mono_us = 1000;
    world_restart(w);
    work(w);
    assert_int_equal(told_count, 2);
    expect_told(1, 3, 1, POSTBAG_ORDER_GAP);
}

static void test_deferral_survives_a_restart_of_the_process(void **state)
{
    struct inbox_world *w = begin(state);

    send_all(w, "13");
    world_restart(w);
    work(w);
    assert_int_equal(waiting(w), 1);
    send(w, "cmd/a", "k", "2", "late");
    work(w);
    expect_told(2, 3, 2, POSTBAG_ORDER_NEXT);
}

static void test_deferral_of_too_many_lets_the_key_go_on(void **state)
{
    struct inbox_world *w = begin(state);

    send_all(w, "1864");
    assert_int_equal(waiting(w), ROWS);
    send(w, "cmd/a", "k", "3", "one more");
    assert_int_equal(waiting(w), 0);
    work(w);
    assert_int_equal(told_count, 5);
    expect_told(1, 3, 1, POSTBAG_ORDER_GAP);
    expect_told(2, 4, 3, POSTBAG_ORDER_NEXT);
    expect_told(3, 6, 4, POSTBAG_ORDER_GAP);
    expect_told(4, 8, 6, POSTBAG_ORDER_GAP);
}

/* The missing one could not get in. */
static void test_deferral_that_fills_the_inbox_lets_the_key_go_on(void **state)
{
    struct inbox_world *w = begin(state);

    temp_db_run(&w->t, "UPDATE inbox_sum SET max_rows = 3");
    send_all(w, "1");
    work(w);
    send_all(w, "35");
    assert_int_equal(waiting(w), 2);
    send(w, "cmd/a", "k", "7", "last");
    assert_int_equal(waiting(w), 0);
    work(w);
    send(w, "cmd/a", "k", "2", "missing");
    work(w);
    assert_int_equal(told_count, 5);
    expect_told(1, 3, 1, POSTBAG_ORDER_GAP);
    expect_told(4, 2, 7, POSTBAG_ORDER_BACK);
}

static void test_deferral_that_fills_the_bytes_lets_the_key_go_on(void **state)
{
    struct inbox_world *w = begin(state);

    temp_db_run(&w->t, "UPDATE inbox_sum SET max_bytes = 1");
    send_all(w, "1");
    work(w);
    send_all(w, "3");
    assert_int_equal(waiting(w), 0);
}

static void test_deferral_of_one_key_is_not_ended_by_another(void **state)
{
    struct inbox_world *w = begin(state);

    send_all(w, "1864");
    send(w, "cmd/a", "other", "1", "o1");
    send(w, "cmd/a", "other", "5", "o5");
    assert_int_equal(waiting(w), ROWS);
    work(w);
    expect_told(2, 5, 1, POSTBAG_ORDER_GAP);
}

static void test_deferral_redelivery_of_one_that_waits_is_a_duplicate(
    void **state)
{
    struct inbox_world *w = begin(state);

    send_all(w, "1");
    for (int i = 0; i < 2 * ROWS; i++)
        send(w, "cmd/a", "k", "3", "again");
    assert_int_equal(waiting(w), 1);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT seen FROM inbox WHERE state = 'deferred'"),
        2 * ROWS);
}

/* Two of one version wait; the rule for repeats is for the second. */
static void test_deferral_that_became_a_repeat_is_refused_if_asked_for(
    void **state)
{
    struct inbox_world *w = *state;

    set_rules(w, &defer);
    w->consumers.list[0].versions.repeat = ORDER_REFUSE;
    send_all(w, "1332");
    work(w);
    assert_int_equal(told_count, 3);
    assert_int_equal(refused(w, "version repeat"), 1);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM inbox WHERE state = 'dead'"
                           " AND processed_ms IS NOT NULL"),
        1);
}

static void test_deferral_goes_on_whatever_the_rule_is_by_then(void **state)
{
    static const struct order_rules accept = {
        .back = ORDER_REFUSE, .defer_ms = WAIT_MS, .defer_rows = ROWS};
    struct inbox_world *w = begin(state);

    send_all(w, "134");
    set_rules(w, &accept);
    send(w, "cmd/a", "k", "2", "late");
    send(w, "cmd/a", "k", "5", "next");
    work(w);
    assert_int_equal(told_count, 5);
    for (int i = 1; i < 5; i++)
        expect_told(i, i + 1, i, POSTBAG_ORDER_NEXT);
}

static void test_deferral_ends_as_a_gap_even_if_gaps_are_refused_by_then(
    void **state)
{
    static const struct order_rules refuse = {.gap = ORDER_REFUSE};
    struct inbox_world *w = begin(state);

    send_all(w, "13");
    set_rules(w, &refuse);
    world_pass_ms(w, WAIT_MS);
    work(w);
    assert_int_equal(told_count, 2);
    expect_told(1, 3, 1, POSTBAG_ORDER_GAP);
}

/* And for no longer than they, so that the new rule holds before long. */
static void test_deferral_accepted_gap_waits_behind_lower_ones_only(
    void **state)
{
    static const struct order_rules accept = {.defer_rows = ROWS};
    struct inbox_world *w = begin(state);

    send_all(w, "14");
    set_rules(w, &accept);
    world_pass_ms(w, WAIT_MS / 2);
    send(w, "cmd/a", "k", "6", "higher");
    assert_int_equal(waiting(w), 2);
    send(w, "cmd/a", "k", "3", "lower");
    work(w);
    expect_told(1, 3, 1, POSTBAG_ORDER_GAP);
    expect_told(2, 4, 3, POSTBAG_ORDER_NEXT);
    assert_int_equal(waiting(w), 1);
    world_pass_ms(w, WAIT_MS / 2);
    work(w);
    assert_int_equal(told_count, 4);
    expect_told(3, 6, 4, POSTBAG_ORDER_GAP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_deferral_goes_on_in_order_once_the_missing_one_came),
        TEST_IN(test_deferral_holds_up_no_other_key_nor_the_missing_one),
        TEST_IN(test_deferral_ends_as_a_gap_after_its_time),
        TEST_IN(test_deferral_of_a_higher_version_ends_behind_the_lower),
        TEST_IN(test_deferral_worker_wakes_when_it_ends),
        TEST_IN(test_deferral_ends_with_the_boot),
        TEST_IN(test_deferral_ends_with_a_clock_that_begins_anew),
        TEST_IN(test_deferral_survives_a_restart_of_the_process),
        TEST_IN(test_deferral_of_too_many_lets_the_key_go_on),
        TEST_IN(test_deferral_that_fills_the_inbox_lets_the_key_go_on),
        TEST_IN(test_deferral_that_fills_the_bytes_lets_the_key_go_on),
        TEST_IN(test_deferral_of_one_key_is_not_ended_by_another),
        TEST_IN(test_deferral_redelivery_of_one_that_waits_is_a_duplicate),
        TEST_IN(test_deferral_that_became_a_repeat_is_refused_if_asked_for),
        TEST_IN(test_deferral_goes_on_whatever_the_rule_is_by_then),
        TEST_IN(test_deferral_ends_as_a_gap_even_if_gaps_are_refused_by_then),
        TEST_IN(test_deferral_accepted_gap_waits_behind_lower_ones_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
