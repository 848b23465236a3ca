/* SPDX-License-Identifier: MIT */
/* The durable mark over the whole range of its 32 bits, and the gate. */
#include "shared.h"

#include "sim_port.h"
#include "unit.h"

static void test_durable_mark_covers_all_up_to_it(void **state)
{
    static const int64_t marks[] = {1, 1000, INT64_C(0x7fffffff),
        INT64_C(0x80000000), INT64_C(0xfffffffe), INT64_C(0xffffffff),
        INT64_C(0x100000000), INT64_C(0x100000001), INT64_C(0x17fffffff),
        INT64_C(0x7fffffffffffffff)};

    (void)state;
    for (size_t i = 0; i < COUNT(marks); i++) {
        struct shared s = {.port = NULL};

        /* the mark moves in steps below 2^31, as rows come */
        atomic_init(&s.durable, (unsigned)(marks[i] - 5) & 0xffffffffu);
        postbag__note_durable(&s, marks[i]);
        assert_true(postbag__is_durable(&s, marks[i] - 1000));
        assert_true(postbag__is_durable(&s, marks[i]));
        if (marks[i] == INT64_MAX)
            continue;
        assert_false(postbag__is_durable(&s, marks[i] + 1));
        assert_false(postbag__is_durable(&s, marks[i] + 1000));
    }
}

static void test_durable_mark_never_goes_back(void **state)
{
    struct shared s = {.port = NULL};

    (void)state;
    postbag__note_durable(&s, 100);
    postbag__note_durable(&s, 90);
    assert_true(postbag__is_durable(&s, 100));
    assert_false(postbag__is_durable(&s, 101));
}

static void test_durable_mark_goes_on_across_the_wrap(void **state)
{
    struct shared s = {.port = NULL};
    int64_t seq = INT64_C(0xfffffff0);

    (void)state;
    atomic_init(&s.durable, (unsigned)seq);
    for (int i = 0; i < 100; i++) {
        seq++;
        assert_false(postbag__is_durable(&s, seq));
        postbag__note_durable(&s, seq);
        assert_true(postbag__is_durable(&s, seq));
    }
    postbag__note_durable(&s, INT64_C(0xfffffff5)); /* late, of before */
    assert_true(postbag__is_durable(&s, seq));
}

static void test_durable_nothing_is_before_a_first_note(void **state)
{
    struct shared s = {.port = NULL};

    (void)state;
    assert_false(postbag__is_durable(&s, 1));
}

/* ---- the gate ---- */

static void test_gate_lets_one_in_until_it_is_left(void **state)
{
    struct sim_port sim;
    struct shared s = {.port = &sim.port};

    (void)state;
    sim_port_init(&sim);
    assert_ok(sim.port.gate_new(&sim, &s.gate));
    assert_ok(postbag__gate_enter(&s, 10));
    assert_int_equal(postbag__gate_enter(&s, 10), POSTBAG_EBUSY);
    postbag__gate_leave(&s);
    assert_ok(postbag__gate_enter(&s, 10));
    postbag__gate_leave(&s);
    sim.port.gate_free(&sim, s.gate);
}

static int64_t asked_until_us;

static int enter(void *ctx, struct postbag_gate *g, int64_t until_us)
{
    (void)ctx;
    (void)g;
    asked_until_us = until_us;
    return POSTBAG_OK;
}

static void test_gate_wait_ends_at_a_time_of_the_monotonic_clock(void **state)
{
    int no_gate;
    struct sim_port sim;
    struct shared s = {.port = &sim.port, .gate = (void *)&no_gate};

    (void)state;
    sim_port_init(&sim);
    sim.port.gate_enter = enter;
    assert_ok(postbag__gate_enter(&s, UINT32_MAX));
    assert_int_equal(asked_until_us, sim.mono_us + (int64_t)UINT32_MAX * 1000);
}

static void test_gate_that_is_not_there_is_open(void **state)
{
    struct shared s = {.port = NULL};

    (void)state;
    assert_ok(postbag__gate_enter(NULL, 10));
    postbag__gate_leave(NULL);
    assert_ok(postbag__gate_enter(&s, 10));
    postbag__gate_leave(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_durable_mark_covers_all_up_to_it),
        cmocka_unit_test(test_durable_mark_never_goes_back),
        cmocka_unit_test(test_durable_mark_goes_on_across_the_wrap),
        cmocka_unit_test(test_durable_nothing_is_before_a_first_note),
        cmocka_unit_test(test_gate_lets_one_in_until_it_is_left),
        cmocka_unit_test(test_gate_wait_ends_at_a_time_of_the_monotonic_clock),
        cmocka_unit_test(test_gate_that_is_not_there_is_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
