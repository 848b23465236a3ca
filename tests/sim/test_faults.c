/* SPDX-License-Identifier: MIT */
/*
 * The ten faults that the design is measured by, T1 to T10: episodes turned
 * towards each, with the others around it; and what a stranger asks first.
 */
#include "unit.h"

#include "trials.h"

static void more(struct params *p, enum sim_mark fault, unsigned rate)
{
    p->rates[fault] = rate;
}

static void nothing(struct params *p)
{
    memset(p->rates, 0, sizeof(p->rates));
    p->has_operator = 0;
    p->config.max_rows = 0;
    p->config.overflow = NULL;
    p->ttl_ms = 0;
    p->coalesces = 0;
}

/* ---- T1: what was rolled back was never there ---- */

static void tune_T1(struct params *p, struct luck *l)
{
    (void)l;
    more(p, IO_ERROR, 50);
    more(p, KILL_IN_CALL, 50);
    more(p, LONG_LOCK, 5);
}

static void test_T1_rollback_leaves_no_outbox_row(void **state)
{
    (void)state;
    trials_run(&(struct trials){.test = __func__,
        .row = "T1_sim",
        .tune = tune_T1,
        .first_seed = 10000,
        .episodes = 6,
        .marks = {ROLLED_BACK, SAVEPOINT_BACK, MARKS}});
}

/* ---- T2: what was committed is sent ---- */

static void tune_T2(struct params *p, struct luck *l)
{
    (void)l;
    p->is_full_writer = 1;
    more(p, KILL, 10);
    more(p, KILL_IN_CALL, 50);
    more(p, POWER_CUT, 5);
    more(p, CUT_IN_CALL, 40);
}

static void test_T2_crash_after_commit_loses_no_message(void **state)
{
    (void)state;
    trials_run(&(struct trials){.test = __func__,
        .row = "T2_sim",
        .tune = tune_T2,
        .first_seed = 20000,
        .episodes = 6,
        .marks = {KILL, KILL_IN_CALL, POWER_CUT, CUT_IN_CALL, MARKS}});
}

/* ---- T3: several relays ---- */

static void tune_T3(struct params *p, struct luck *l)
{
    (void)l;
    p->processes = 3;
    p->config.lease_ms = 1000;
    more(p, FREEZE, 10);
    more(p, KILL, 5);
    more(p, NESTED, 100);
}

static void test_T3_two_relays_have_one_owner(void **state)
{
    (void)state;
    trials_run(&(struct trials){.test = __func__,
        .row = "T3_sim",
        .tune = tune_T3,
        .first_seed = 30000,
        .episodes = 6,
        .marks = {TAKEN_OVER, MARKS}});
}

/* ---- T4: the broker has it, and the process ends ---- */

static void tune_T4(struct params *p, struct luck *l)
{
    (void)l;
    p->most_messages = 300;
    more(p, KILL_AT_PUBLISH, 100);
    more(p, ACK_LOST, 50);
}

static void test_T4_crash_after_publish_sends_the_same_again(void **state)
{
    struct tally t;

    (void)state;
    t = trials_run(&(struct trials){.test = __func__,
        .row = "T4_sim",
        .tune = tune_T4,
        .first_seed = 40000,
        .episodes = 6,
        .marks = {KILL_AT_PUBLISH, MARKS}});
    assert_true(t.count[REPEATED] > 0);
}

/* ---- T5: the same command again and again ---- */

static void tune_T5(struct params *p, struct luck *l)
{
    (void)l;
    p->max_commands = 100;
    p->command_rate = 15;
    more(p, COMMAND_AGAIN, 300);
    more(p, SESSION_LOSS, 10);
    more(p, NESTED, 100);
}

static void test_T5_concurrent_duplicates_have_one_effect(void **state)
{
    (void)state;
    trials_run(&(struct trials){.test = __func__,
        .row = "T5_sim",
        .tune = tune_T5,
        .first_seed = 50000,
        .episodes = 6,
        .marks = {ACCEPTED_AGAIN, MARKS}});
}

/* ---- T6: a command is stored, or handled, and the process ends ---- */

static void tune_T6(struct params *p, struct luck *l)
{
    (void)l;
    p->max_commands = 100;
    p->command_rate = 15;
    more(p, KILL_AT_HOOK, 100);
    more(p, IO_ERROR, 300);
    more(p, HANDLER_RETRIES, 200);
}

static void test_T6_crash_before_the_ack_repeats_no_effect(void **state)
{
    (void)state;
    trials_run(&(struct trials){.test = __func__,
        .row = "T6_sim",
        .tune = tune_T6,
        .first_seed = 60000,
        .episodes = 6,
        .marks = {KILL_AT_HOOK, MARKS}});
}

/* ---- T7: the broker is away ---- */

static void tune_T7(struct params *p, struct luck *l)
{
    (void)l;
    more(p, OUTAGE, 10);
    more(p, REFUSE_CONNECT, 500);
    more(p, MUTE_CONNECT, 200);
}

static void test_T7_broker_down_is_asked_at_due_times(void **state)
{
    (void)state;
    trials_run(&(struct trials){.test = __func__,
        .row = "T7_sim",
        .tune = tune_T7,
        .first_seed = 70000,
        .episodes = 6,
        .marks = {OUTAGE, REFUSE_CONNECT, MUTE_CONNECT, MARKS}});
}

/* ---- T8: what can never be sent ---- */

static void tune_T8(struct params *p, struct luck *l)
{
    (void)l;
    more(p, REFUSE, 300);
    more(p, REFUSE_FOR_GOOD, 100);
    more(p, THROTTLE, 100);
    more(p, POISON, 30);
}

static void test_T8_poison_becomes_a_dead_letter(void **state)
{
    (void)state;
    trials_run(&(struct trials){.test = __func__,
        .row = "T8_sim",
        .tune = tune_T8,
        .first_seed = 80000,
        .episodes = 6,
        .marks = {DEAD, MARKS}});
}

/* ---- T9: a relay that sleeps for longer than its lease ---- */

static void tune_T9(struct params *p, struct luck *l)
{
    (void)l;
    nothing(p);
    p->processes = 2;
    p->leaps = 2;
    p->config.lease_ms = 1000;
    more(p, FREEZE, 50);
    more(p, BLACK_HOLE, 5);
}

static void test_T9_expired_lease_is_taken_over(void **state)
{
    (void)state;
    trials_run(&(struct trials){.test = __func__,
        .row = "T9_sim",
        .tune = tune_T9,
        .first_seed = 90000,
        .episodes = 6,
        .marks = {TAKEN_OVER, MARKS}});
}

/* ---- T10: the order of a key ---- */

static void tune_T10(struct params *p, struct luck *l)
{
    (void)l;
    p->keys = 2;
    p->most_messages = 1000;
    p->batch = 40;
    more(p, REFUSE, 200);
    more(p, HANG_UP, 20);
    more(p, ACKS_REORDERED, 500);
}

static void test_T10_order_of_a_key_survives_refusals(void **state)
{
    (void)state;
    trials_run(&(struct trials){.test = __func__,
        .row = "T10_sim",
        .tune = tune_T10,
        .first_seed = 100000,
        .episodes = 6,
        .marks = {HELD, BEHIND, REPEATED, MARKS}});
}

/* ---- what a stranger asks first ---- */

static void tune_no_relay(struct params *p, struct luck *l)
{
    (void)l;
    nothing(p);
    p->has_no_relay = 1;
}

static void test_commit_without_relay_leaves_the_row_unsent(void **state)
{
    struct tally t;

    (void)state;
    t = trials_run(&(struct trials){.test = __func__,
        .row = "S_no_relay",
        .tune = tune_no_relay,
        .first_seed = 110000,
        .episodes = 4,
        .marks = {COMMIT_HELD, MARKS}});
    assert_int_equal(t.sent_before_healed, 0);
    assert_true(t.waited_before_healed > 0);
    assert_int_equal(t.count[PUBLISHED], t.stood);
}

static void tune_no_fault(struct params *p, struct luck *l)
{
    (void)l;
    nothing(p);
    p->processes = 1;
}

static void test_relay_gives_the_broker_one_event_per_id(void **state)
{
    struct tally t;

    (void)state;
    t = trials_run(&(struct trials){.test = __func__,
        .row = "S_one_event",
        .tune = tune_no_fault,
        .first_seed = 120000,
        .episodes = 4,
        .marks = {PUBLISHED, MARKS}});
    assert_int_equal(t.count[PUBLISHED], t.stood);
    assert_int_equal(t.publishes, t.stood);
}

static void tune_publish_and_crash(struct params *p, struct luck *l)
{
    (void)l;
    nothing(p);
    more(p, KILL_AT_PUBLISH, 200);
}

/* A subscriber that drops ids that it knows sees each once. */
static void test_crash_after_publish_has_no_second_effect(void **state)
{
    struct tally t;

    (void)state;
    t = trials_run(&(struct trials){.test = __func__,
        .row = "S_crash_before_mark",
        .tune = tune_publish_and_crash,
        .first_seed = 130000,
        .episodes = 4,
        .marks = {KILL_AT_PUBLISH, MARKS}});
    assert_int_equal(t.count[PUBLISHED], t.stood);
    assert_true(t.publishes > t.stood);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_T1_rollback_leaves_no_outbox_row),
        cmocka_unit_test(test_T2_crash_after_commit_loses_no_message),
        cmocka_unit_test(test_T3_two_relays_have_one_owner),
        cmocka_unit_test(test_T4_crash_after_publish_sends_the_same_again),
        cmocka_unit_test(test_T5_concurrent_duplicates_have_one_effect),
        cmocka_unit_test(test_T6_crash_before_the_ack_repeats_no_effect),
        cmocka_unit_test(test_T7_broker_down_is_asked_at_due_times),
        cmocka_unit_test(test_T8_poison_becomes_a_dead_letter),
        cmocka_unit_test(test_T9_expired_lease_is_taken_over),
        cmocka_unit_test(test_T10_order_of_a_key_survives_refusals),
        cmocka_unit_test(test_commit_without_relay_leaves_the_row_unsent),
        cmocka_unit_test(test_relay_gives_the_broker_one_event_per_id),
        cmocka_unit_test(test_crash_after_publish_has_no_second_effect),
    };

    trials_filter(argc, argv);
    episode_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
