/* SPDX-License-Identifier: MIT */
/*
 * One lane's ring: a few cases by hand, then millions of random operations
 * against a plain array that forgets nothing.  TEST_SEED=n repeats a run.
 */
#include "lane.h"

#include <stdlib.h>
#include <time.h>

#include "failing_mem.h"
#include "unit.h"

enum { SIZE = 7 }; /* not a power of two */

static int set_up(void **state)
{
    static struct lane l;

    mem_is_out = 0;
    assert_ok(postbag__lane_init(&l, SIZE));
    postbag__lane_restart(&l, 100, 120);
    *state = &l;
    return 0;
}

static int tear_down(void **state)
{
    postbag__lane_free(*state);
    return 0;
}

static void settle(struct lane *l, int64_t seq)
{
    postbag__lane_settle(l, postbag__lane_find(l, seq), OUTCOME_DELIVERED);
}

static void test_lane_begins_behind_the_saved_cursor(void **state)
{
    const struct lane *l = *state;

    assert_int_equal(l->acked, 100);
    assert_int_equal(l->saved, 100);
    assert_int_equal(l->scanned, 100);
    assert_int_equal(l->sent_hi, 120);
    assert_int_equal(l->count, 0);
}

static void test_lane_settled_out_of_order_waits_for_its_head(void **state)
{
    struct lane *l = *state;

    for (int64_t seq = 101; seq <= 103; seq++)
        (void)postbag__lane_push(l, seq, 10, 0);
    settle(l, 103);
    settle(l, 102);
    assert_int_equal(l->acked, 100);
    settle(l, 101);
    assert_int_equal(l->acked, 103);
    assert_int_equal(l->count, 0);
}

static void test_lane_empty_moves_over_rows_that_are_not_its_own(void **state)
{
    struct lane *l = *state;

    postbag__lane_scanned_to(l, 150);
    assert_int_equal(l->acked, 150);
    (void)postbag__lane_push(l, 151, 10, 0);
    postbag__lane_scanned_to(l, 180);
    assert_int_equal(l->acked, 150);
    settle(l, 151);
    assert_int_equal(l->acked, 180);
}

static void test_lane_scan_never_goes_back(void **state)
{
    struct lane *l = *state;

    postbag__lane_scanned_to(l, 150);
    postbag__lane_scanned_to(l, 140);
    assert_int_equal(l->scanned, 150);
    assert_int_equal(l->acked, 150);
}

static void test_lane_gain_counts_each_outcome(void **state)
{
    static const enum outcome outcomes[] = {
        OUTCOME_DELIVERED, OUTCOME_PASSED, OUTCOME_HELD, OUTCOME_DELIVERED};
    struct lane *l = *state;

    for (size_t i = 0; i < COUNT(outcomes); i++)
        postbag__lane_settle(
            l, postbag__lane_push(l, 101 + (int64_t)i, 10, 0), outcomes[i]);
    assert_int_equal(l->gain.rows, 4);
    assert_int_equal(l->gain.bytes, 40);
    assert_int_equal(l->gain.delivered, 2);
    assert_int_equal(l->gain.passed, 1);
}

/* Each run of replaced rows is its own, as far as there is room. */
static void test_lane_gain_tells_ranges_of_replaced_rows_apart(void **state)
{
    enum { LAST = POSTBAG__LANE_RANGES - 1 };
    struct lane *l = *state;
    const struct lost *ranges = l->gain.replaced;

    for (int64_t seq = 101; seq <= 100 + 3 * (LAST + 4); seq++)
        postbag__lane_settle(l, postbag__lane_push(l, seq, 10, 0),
            seq % 3 == 0 ? OUTCOME_DELIVERED : OUTCOME_REPLACED);
    assert_int_equal(ranges[0].lo, 101);
    assert_int_equal(ranges[0].hi, 101);
    assert_int_equal(ranges[1].lo, 103);
    assert_int_equal(ranges[1].hi, 104);
    assert_int_equal(ranges[1].n, 2);
    assert_int_equal(ranges[1].bytes, 20);
    assert_int_equal(ranges[LAST].lo, 100 + 3 * LAST);
    assert_int_equal(ranges[LAST].hi, 100 + 3 * (LAST + 4));
    assert_int_equal(l->gain.delivered, LAST + 4);
    assert_int_equal(l->gain.dropped, 2 * (LAST + 4));
}

static void test_lane_gain_waits_for_the_cursor(void **state)
{
    struct lane *l = *state;

    (void)postbag__lane_push(l, 101, 10, 0);
    (void)postbag__lane_push(l, 102, 10, 0);
    settle(l, 102);
    assert_int_equal(l->gain.rows, 0);
}

static void test_lane_release_makes_flying_rows_ready_and_no_other(void **state)
{
    struct lane *l = *state;

    for (int64_t seq = 101; seq <= 103; seq++)
        postbag__lane_push(l, seq, 10, 0)->state = ENTRY_FLYING;
    (void)postbag__lane_push(l, 104, 10, 0);
    settle(l, 102);
    postbag__lane_release(l);
    assert_int_equal(postbag__lane_find(l, 101)->state, ENTRY_READY);
    assert_int_equal(postbag__lane_find(l, 102)->state, ENTRY_SETTLED);
    assert_int_equal(postbag__lane_find(l, 103)->state, ENTRY_READY);
    assert_int_equal(postbag__lane_find(l, 104)->state, ENTRY_READY);
}

static void test_lane_restart_forgets_rows_and_gain(void **state)
{
    struct lane *l = *state;

    (void)postbag__lane_push(l, 101, 10, 0);
    settle(l, 101);
    (void)postbag__lane_push(l, 102, 10, 0);
    postbag__lane_restart(l, 100, 130);
    assert_int_equal(l->acked, 100);
    assert_int_equal(l->sent_hi, 130);
    assert_int_equal(l->gain.rows, 0);
    assert_null(postbag__lane_find(l, 102));
}

static void test_lane_without_memory_is_no_memory(void **state)
{
    struct lane l;

    (void)state;
    mem_is_out = 1;
    assert_int_equal(postbag__lane_init(&l, SIZE), POSTBAG_ENOMEM);
    postbag__lane_free(&l);
}

/* ---- against a model ---- */

/* Every row ever pushed since the restart; those before `first` have left. */
struct model {
    struct entry rows[4096];
    size_t first, count;
    int64_t acked, scanned;
    struct lane_gain gain;
};

static uint64_t random_state;

static uint32_t below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static void model_restart(struct model *m, int64_t acked)
{
    memset(m, 0, sizeof(*m));
    m->acked = acked;
    m->scanned = acked;
}

static void model_advance(struct model *m)
{
    for (; m->first < m->count; m->first++) {
        const struct entry *e = &m->rows[m->first];

        if (e->state != ENTRY_SETTLED)
            return;
        m->acked = e->seq;
        m->gain.rows++;
        m->gain.bytes += e->bytes;
        m->gain.delivered += e->outcome == OUTCOME_DELIVERED;
        m->gain.passed += e->outcome == OUTCOME_PASSED;
    }
    m->acked = m->scanned;
}

static void push(struct lane *l, struct model *m)
{
    struct entry *e = &m->rows[m->count++];

    m->scanned += 1 + below(3);
    e->seq = m->scanned;
    e->bytes = below(1000);
    e->key = (uint16_t)below(5);
    (void)postbag__lane_push(l, e->seq, e->bytes, e->key);
}

static void settle_one(struct lane *l, struct model *m)
{
    size_t i = m->first + below((uint32_t)(m->count - m->first));
    enum outcome outcome = (enum outcome)below(3);

    if (m->rows[i].state == ENTRY_SETTLED)
        return;
    m->rows[i].state = ENTRY_SETTLED;
    m->rows[i].outcome = (unsigned)outcome & 0x7fu;
    model_advance(m);
    postbag__lane_settle(l, postbag__lane_find(l, m->rows[i].seq), outcome);
}

static void fly_one(struct lane *l, struct model *m)
{
    size_t i = m->first + below((uint32_t)(m->count - m->first));

    if (m->rows[i].state != ENTRY_READY)
        return;
    m->rows[i].state = ENTRY_FLYING;
    postbag__lane_find(l, m->rows[i].seq)->state = ENTRY_FLYING;
}

static void release(struct lane *l, struct model *m)
{
    for (size_t i = m->first; i < m->count; i++)
        if (m->rows[i].state == ENTRY_FLYING)
            m->rows[i].state = ENTRY_READY;
    postbag__lane_release(l);
}

static void scan(struct lane *l, struct model *m)
{
    m->scanned += below(3);
    model_advance(m);
    postbag__lane_scanned_to(l, m->scanned);
}

static void compare(struct lane *l, const struct model *m)
{
    assert_int_equal(l->count, m->count - m->first);
    assert_int_equal(l->acked, m->acked);
    assert_int_equal(l->scanned, m->scanned);
    assert_memory_equal(&l->gain, &m->gain, sizeof(l->gain));
    for (uint32_t i = 0; i < l->count; i++) {
        const struct entry *e = postbag__lane_at(l, i);
        const struct entry *should = &m->rows[m->first + i];

        assert_int_equal(e->seq, should->seq);
        assert_int_equal(e->bytes, should->bytes);
        assert_int_equal(e->key, should->key);
        assert_int_equal(e->state, should->state);
        assert_ptr_equal(postbag__lane_find(l, e->seq), e);
    }
    assert_null(postbag__lane_find(l, m->acked));
    assert_null(postbag__lane_find(l, m->scanned + 1));
}

static void operate(struct lane *l, struct model *m)
{
    int is_empty = m->first == m->count;

    switch (below(8)) {
    case 0:
    case 1:
    case 2:
        if (!postbag__lane_is_full(l))
            push(l, m);
        break;
    case 3:
    case 4:
        if (!is_empty)
            settle_one(l, m);
        break;
    case 5:
        if (!is_empty)
            fly_one(l, m);
        break;
    case 6:
        scan(l, m);
        break;
    default:
        release(l, m);
        break;
    }
}

static void test_lane_does_what_a_plain_array_does(void **state)
{
    static struct model m;
    const char *given = getenv("TEST_SEED");
    struct lane *l = *state;

    random_state = given == NULL ? (uint64_t)time(NULL)
                                 : (uint64_t)strtoull(given, NULL, 10);
    print_message("TEST_SEED=%llu\n", (unsigned long long)random_state);
    for (int round = 0; round < 100; round++) {
        int64_t acked = below(1000);

        model_restart(&m, acked);
        postbag__lane_restart(l, acked, acked);
        while (m.count < COUNT(m.rows)) {
            operate(l, &m);
            compare(l, &m);
        }
    }
}

static void test_lane_overtaken_is_the_head_if_a_later_one_arrived(void **state)
{
    struct lane *l = *state;

    postbag__lane_restart(l, 0, 0);
    assert_null(postbag__lane_overtaken(l));
    for (int64_t seq = 1; seq <= 3; seq++)
        (void)postbag__lane_push(l, seq, 1, 0);
    assert_null(postbag__lane_overtaken(l));
    postbag__lane_settle(l, postbag__lane_find(l, 3), OUTCOME_HELD);
    assert_null(postbag__lane_overtaken(l)); /* is found again */
    settle(l, 2);
    assert_ptr_equal(postbag__lane_overtaken(l), postbag__lane_find(l, 1));
    settle(l, 1);
    assert_null(postbag__lane_overtaken(l));
}

static void test_lane_has_follower_asks_for_a_later_one_unsettled(void **state)
{
    struct lane *l = *state;

    postbag__lane_restart(l, 0, 0);
    for (int64_t seq = 1; seq <= 5; seq++)
        (void)postbag__lane_push(l, seq, 1, seq == 3 || seq == 5 ? 0 : 7);
    assert_int_equal(
        postbag__lane_has_follower(l, postbag__lane_find(l, 2)), 1);
    assert_int_equal(
        postbag__lane_has_follower(l, postbag__lane_find(l, 3)), 0);
    settle(l, 4);
    assert_int_equal(
        postbag__lane_has_follower(l, postbag__lane_find(l, 2)), 0);
}

static void test_lane_has_older_asks_for_the_same_key_unsettled(void **state)
{
    struct lane *l = *state;

    postbag__lane_restart(l, 100, 0);
    (void)postbag__lane_push(l, 101, 10, 5);
    (void)postbag__lane_push(l, 102, 10, 7);
    (void)postbag__lane_push(l, 103, 10, 7);
    assert_int_equal(postbag__lane_has_older(l, 0), 0);
    assert_int_equal(postbag__lane_has_older(l, 1), 0);
    assert_int_equal(postbag__lane_has_older(l, 2), 1);
    postbag__lane_settle(l, postbag__lane_at(l, 1), OUTCOME_DELIVERED);
    assert_int_equal(postbag__lane_has_older(l, 2), 0);
}

/* outbox_lost has one reason for a range. */
static void test_lane_damage_and_age_are_two_ranges(void **state)
{
    struct lane *l = *state;

    for (int64_t seq = 101; seq <= 103; seq++)
        (void)postbag__lane_push(l, seq, 10, 0);
    assert_int_equal(postbag__lane_can_drop(l, postbag__lane_at(l, 1), 1), 0);
    assert_int_equal(postbag__lane_can_drop(l, postbag__lane_at(l, 0), 1), 1);
    postbag__lane_settle(l, postbag__lane_at(l, 0), OUTCOME_DAMAGED);
    assert_int_equal(postbag__lane_can_drop(l, postbag__lane_at(l, 0), 0), -1);
    assert_int_equal(postbag__lane_can_drop(l, postbag__lane_at(l, 0), 1), 1);
    postbag__lane_settle(l, postbag__lane_at(l, 0), OUTCOME_DAMAGED);
    assert_int_equal(l->gain.expired.n, 2);
    assert_int_equal(l->gain.dropped, 2);
    assert_true(l->gain.is_damage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_lane_begins_behind_the_saved_cursor),
        TEST_IN(test_lane_damage_and_age_are_two_ranges),
        TEST_IN(test_lane_settled_out_of_order_waits_for_its_head),
        TEST_IN(test_lane_empty_moves_over_rows_that_are_not_its_own),
        TEST_IN(test_lane_overtaken_is_the_head_if_a_later_one_arrived),
        TEST_IN(test_lane_has_follower_asks_for_a_later_one_unsettled),
        TEST_IN(test_lane_has_older_asks_for_the_same_key_unsettled),
        TEST_IN(test_lane_scan_never_goes_back),
        TEST_IN(test_lane_gain_counts_each_outcome),
        TEST_IN(test_lane_gain_tells_ranges_of_replaced_rows_apart),
        TEST_IN(test_lane_gain_waits_for_the_cursor),
        TEST_IN(test_lane_release_makes_flying_rows_ready_and_no_other),
        TEST_IN(test_lane_restart_forgets_rows_and_gain),
        TEST_IN(test_lane_without_memory_is_no_memory),
        TEST_IN(test_lane_does_what_a_plain_array_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
