/* SPDX-License-Identifier: MIT */
/* What an operator makes of a command whose version was never taken: those
 * after it do not miss it. */
#include "inbox_repair.h"
#include "inbox_versions.h"

static const struct order_rules refuse = {
    .gap = ORDER_REFUSE, .repeat = ORDER_REFUSE, .back = ORDER_REFUSE};
static const struct order_rules defer = {.gap = ORDER_DEFER,
    .repeat = ORDER_REFUSE,
    .back = ORDER_REFUSE,
    .defer_ms = 1000,
    .defer_rows = 10};

static struct inbox_world *begin(void **state, const struct order_rules *rules)
{
    struct inbox_world *w = *state;

    set_rules(w, rules);
    return w;
}

static struct postbag_inbox_choice by_id(const char *id)
{
    const struct postbag_inbox_choice c = {.id = id, .id_len = strlen(id)};

    return c;
}

/* id NULL: all that are dead. */
static void requeue(struct inbox_world *w, const char *id, int64_t count)
{
    const struct postbag_inbox_choice all = {0};
    const struct postbag_inbox_choice which = id == NULL ? all : by_id(id);
    int64_t n;

    assert_ok(postbag__begin(&w->t.db, DB_FULL));
    assert_ok(postbag__inbox_requeue(&w->t.db, &which, &n));
    assert_ok(postbag__commit(&w->t.db));
    assert_int_equal(n, count);
}

static void discard(struct inbox_world *w, const char *id)
{
    const struct moment now = {.wall_ms = 7, .mono_ms = 8, .boot = {9}};
    const struct postbag_inbox_choice which = by_id(id);
    int64_t n;

    assert_ok(postbag__begin(&w->t.db, DB_FULL));
    assert_ok(postbag__inbox_discard(&w->t.db, &which, &now, &n));
    assert_ok(postbag__commit(&w->t.db));
    assert_int_equal(n, 1);
}

static int64_t last_version(struct inbox_world *w)
{
    return temp_db_get(&w->t, "SELECT last_version FROM inbox_key");
}

/* What is delivered again is a duplicate of the dead one. */
static void test_inbox_repair_requeued_gap_ends_the_refusals(void **state)
{
    struct inbox_world *w = begin(state, &refuse);

    send_all(w, "132");
    requeue(w, "1-3", 1);
    assert_int_equal(last_version(w), 3);
    send(w, "cmd/a", "k", "4", "next");
    work(w);
    assert_int_equal(refused(w, "version gap"), 0);
    assert_int_equal(told_count, 4);
}

static void test_inbox_repair_all_requeued_take_the_highest(void **state)
{
    struct inbox_world *w = begin(state, &refuse);

    send_all(w, "1635");
    send(w, "cmd/a", "other", "4", "o4");
    requeue(w, NULL, 3);
    work(w);
    assert_int_equal(told_count, 5);
    send(w, "cmd/a", "k", "7", "next");
    send(w, "cmd/a", "other", "5", "o5");
    work(w);
    assert_int_equal(told_count, 7);
    expect_told(5, 7, 6, POSTBAG_ORDER_NEXT);
}

static void test_inbox_repair_requeued_step_back_lowers_nothing(void **state)
{
    struct inbox_world *w = begin(state, &refuse);

    send_all(w, "53");
    requeue(w, "1-3", 1);
    assert_int_equal(last_version(w), 5);
}

/* It was taken before its handler rejected it, and the sender began anew. */
static void test_inbox_repair_requeued_once_taken_raises_nothing(void **state)
{
    struct inbox_world *w = *state;

    send_all(w, "9");
    temp_db_run(&w->t, "UPDATE inbox SET state = 'dead', processed_ms = 1");
    send(w, "cmd/a", "k", "1", "anew");
    requeue(w, NULL, 1);
    assert_int_equal(last_version(w), 1);
}

static void test_inbox_repair_discarded_gap_ends_the_refusals(void **state)
{
    struct inbox_world *w = begin(state, &refuse);

    send_all(w, "1342");
    discard(w, "1-3");
    discard(w, "2-4");
    send(w, "cmd/a", "k", "5", "next");
    work(w);
    assert_int_equal(told_count, 3);
    expect_told(2, 5, 4, POSTBAG_ORDER_NEXT);
}

static void test_inbox_repair_discarded_wait_is_no_gap(void **state)
{
    struct inbox_world *w = begin(state, &defer);

    send_all(w, "134");
    discard(w, "1-3");
    work(w);
    assert_int_equal(told_count, 1);
    send(w, "cmd/a", "k", "2", "late");
    work(w);
    assert_int_equal(told_count, 3);
    expect_told(1, 2, 1, POSTBAG_ORDER_NEXT);
    expect_told(2, 4, 3, POSTBAG_ORDER_NEXT);
}

/* What others lack is not what it lacks itself. */
static void test_inbox_repair_version_after_a_discarded_one_is_no_repeat(
    void **state)
{
    struct inbox_world *w = begin(state, &refuse);

    send_all(w, "132");
    discard(w, "1-3");
    send(w, "cmd/a", "k", "3", "under another id");
    send(w, "cmd/a", "k", "5", "gap");
    work(w);
    assert_int_equal(told_count, 3);
    expect_told(2, 3, 2, POSTBAG_ORDER_NEXT);
    assert_int_equal(refused(w, "version gap"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_inbox_repair_requeued_gap_ends_the_refusals),
        TEST_IN(test_inbox_repair_all_requeued_take_the_highest),
        TEST_IN(test_inbox_repair_requeued_step_back_lowers_nothing),
        TEST_IN(test_inbox_repair_requeued_once_taken_raises_nothing),
        TEST_IN(test_inbox_repair_discarded_gap_ends_the_refusals),
        TEST_IN(test_inbox_repair_discarded_wait_is_no_gap),
        TEST_IN(test_inbox_repair_version_after_a_discarded_one_is_no_repeat),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
