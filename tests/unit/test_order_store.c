/* SPDX-License-Identifier: MIT */
/* Versions of keys, from their arrival to their handler. */
#include "order_store.h"

#include "inbox_versions.h"

static void test_order_store_handler_is_told_of_each_step(void **state)
{
    struct inbox_world *w = *state;

    send_all(w, "12553");
    work(w);
    assert_int_equal(told_count, 5);
    expect_told(0, 1, 0, POSTBAG_ORDER_FIRST);
    expect_told(1, 2, 1, POSTBAG_ORDER_NEXT);
    expect_told(2, 5, 2, POSTBAG_ORDER_GAP);
    expect_told(3, 5, 5, POSTBAG_ORDER_REPEAT);
    expect_told(4, 3, 5, POSTBAG_ORDER_BACK);
}

/* A sender that began anew is behind once, not for as long as it lived. */
static void test_order_store_next_is_compared_with_the_one_that_went_back(
    void **state)
{
    struct inbox_world *w = *state;

    send_all(w, "912");
    work(w);
    expect_told(1, 1, 9, POSTBAG_ORDER_BACK);
    expect_told(2, 2, 1, POSTBAG_ORDER_NEXT);
}

static void test_order_store_duplicate_is_no_step(void **state)
{
    struct inbox_world *w = *state;

    send(w, "cmd/a", "k", "1", "x");
    send(w, "cmd/a", "k", "2", "y");
    send(w, "cmd/a", "k", "1", "x");
    send(w, "cmd/a", "k", "3", "z");
    work(w);
    assert_int_equal(told_count, 3);
    expect_told(2, 3, 2, POSTBAG_ORDER_NEXT);
}

static void test_order_store_keys_and_consumers_count_apart(void **state)
{
    struct inbox_world *w = *state;

    world_add(w, "b", "cmd/b", note, NULL);
    send(w, "cmd/a", "k", "1", "1");
    send(w, "cmd/a", "other", "7", "2");
    send(w, "cmd/b", "k", "2", "3");
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM inbox WHERE consumer = 'a'"
                           " AND key_version = 2 AND previous_version = 1"),
        1);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox"
                                        " WHERE previous_version IS NULL"),
        3);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox_key"), 3);
}

static void test_order_store_without_key_or_version_has_no_order(void **state)
{
    struct inbox_world *w = *state;

    send(w, "cmd/a", "k", "", "1");
    send(w, "cmd/a", NULL, "5", "2");
    work(w);
    assert_int_equal(told_count, 2);
    assert_int_equal(told[0].order, POSTBAG_ORDER_NONE);
    assert_int_equal(told[1].order, POSTBAG_ORDER_NONE);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox_key"), 0);
}

/* Until the missing one has come. */
static void test_order_store_gap_is_refused_on_and_on(void **state)
{
    static const struct order_rules rules = {.gap = ORDER_REFUSE};
    struct inbox_world *w = *state;

    set_rules(w, &rules);
    send_all(w, "1342");
    work(w);
    assert_int_equal(refused(w, "version gap"), 2);
    assert_int_equal(told_count, 2);
    expect_told(1, 2, 1, POSTBAG_ORDER_NEXT);
    send(w, "cmd/a", "k", "3", "again");
    work(w);
    expect_told(2, 3, 2, POSTBAG_ORDER_NEXT);
}

static void test_order_store_repeat_and_back_are_refused(void **state)
{
    static const struct order_rules rules = {
        .repeat = ORDER_REFUSE, .back = ORDER_REFUSE};
    struct inbox_world *w = *state;

    set_rules(w, &rules);
    send_all(w, "55346");
    work(w);
    assert_int_equal(refused(w, "version repeat"), 1);
    assert_int_equal(refused(w, "version back"), 2);
    assert_int_equal(told_count, 2);
    expect_told(1, 6, 5, POSTBAG_ORDER_NEXT);
}

/* It is handled by nobody, so that what comes next follows a gap. */
static void test_order_store_what_is_born_dead_is_not_taken(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_property p[] = {
        {"keyversion", "2"}, {"partitionkey", "k"}};
    const struct postbag_frame nameless = {.topic = "cmd/a",
        .payload = "go",
        .payload_len = 2,
        .properties = p,
        .property_count = 2};

    send(w, "cmd/a", "k", "1", "1");
    assert_ok(postbag__receiver_accept(w->receiver, 1, &nameless));
    send(w, "cmd/a", "k", "3", "3");
    work(w);
    expect_told(1, 3, 1, POSTBAG_ORDER_GAP);
}

static void test_order_store_is_remembered_across_a_restart(void **state)
{
    struct inbox_world *w = *state;

    send(w, "cmd/a", "k", "1", "1");
    world_restart(w);
    send(w, "cmd/a", "k", "3", "2");
    work(w);
    expect_told(1, 3, 1, POSTBAG_ORDER_GAP);
}

/* So that there are never more keys than commands. */
static void test_order_store_key_is_forgotten_with_its_last_command(
    void **state)
{
    struct inbox_world *w = *state;

    send_all(w, "12");
    temp_db_run(&w->t, "DELETE FROM inbox WHERE key_version = 1");
    assert_int_equal(
        temp_db_get(&w->t, "SELECT last_version FROM inbox_key"), 2);
    temp_db_run(&w->t, "DELETE FROM inbox");
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM inbox_key"), 0);
}

/* So that the missing one is not taken for the first. */
static void test_order_store_key_is_kept_while_one_waits(void **state)
{
    static const struct order_rules defer = {
        .gap = ORDER_DEFER, .defer_ms = 1000, .defer_rows = 3};
    struct inbox_world *w = *state;

    set_rules(w, &defer);
    send_all(w, "13");
    work(w);
    temp_db_run(&w->t, "DELETE FROM inbox WHERE key_version = 1");
    send(w, "cmd/a", "k", "4", "higher");
    send(w, "cmd/a", "k", "2", "late");
    work(w);
    assert_int_equal(told_count, 4);
    for (int i = 1; i < 4; i++)
        expect_told(i, i + 1, i, POSTBAG_ORDER_NEXT);
}

static void test_order_store_key_is_forgotten_once_none_waits(void **state)
{
    static const struct order_rules defer = {
        .gap = ORDER_DEFER, .defer_ms = 1000, .defer_rows = 3};
    static const char *const ends[] = {
        "DELETE FROM inbox WHERE state = 'deferred'",
        "UPDATE inbox SET state = 'done' WHERE state = 'deferred'"};
    struct inbox_world *w = *state;

    set_rules(w, &defer);
    for (int i = 0; i < 2; i++) {
        send_all(w, "13");
        temp_db_run(&w->t, "DELETE FROM inbox WHERE key_version = 1");
        assert_int_equal(
            temp_db_get(&w->t, "SELECT last_version FROM inbox_key"), 1);
        temp_db_run(&w->t, ends[i]);
        assert_int_equal(
            temp_db_get(&w->t, "SELECT count(*) FROM inbox_key"), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_order_store_handler_is_told_of_each_step),
        TEST_IN(test_order_store_next_is_compared_with_the_one_that_went_back),
        TEST_IN(test_order_store_duplicate_is_no_step),
        TEST_IN(test_order_store_keys_and_consumers_count_apart),
        TEST_IN(test_order_store_without_key_or_version_has_no_order),
        TEST_IN(test_order_store_gap_is_refused_on_and_on),
        TEST_IN(test_order_store_repeat_and_back_are_refused),
        TEST_IN(test_order_store_what_is_born_dead_is_not_taken),
        TEST_IN(test_order_store_is_remembered_across_a_restart),
        TEST_IN(test_order_store_key_is_forgotten_with_its_last_command),
        TEST_IN(test_order_store_key_is_kept_while_one_waits),
        TEST_IN(test_order_store_key_is_forgotten_once_none_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
