/* SPDX-License-Identifier: MIT */
/* Connecting again and again: when, how often, and what events change. */
#include "link_wire.h"

/* ---- connecting ---- */

static void test_link_comes_up_with_what_the_broker_said(void **state)
{
    struct wire *w = *state;

    w->t->link.receive_max = 7;
    w->t->link.session_present = 1;
    come_up(w);
    assert_int_equal(w->l.info.receive_max, 7);
    assert_int_equal(w->l.info.session_present, 1);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(postbag__link_deadline(&w->l), INT64_MAX);
}

static void test_link_hands_its_options_to_connect(void **state)
{
    struct wire *w = *state;

    w->options.session_expiry_s = 60;
    w->options.receive_max = 16;
    w->options.max_packet = 999;
    init(w);
    come_up(w);
    assert_int_equal(w->t->connect.session_expiry_s, 60);
    assert_int_equal(w->t->connect.receive_max, 16);
    assert_int_equal(w->t->connect.max_packet, 999);
    assert_int_equal(w->t->connect.timeout_ms, 10000);
}

static void test_link_without_a_transport_stays_off(void **state)
{
    struct wire *w = *state;

    w->l.transport = NULL;
    postbag__link_start(&w->l, w->sim.mono_us);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.state, LINK_OFF);
    assert_int_equal(postbag__link_deadline(&w->l), INT64_MAX);
    postbag__link_note_hint(&w->l, 0);
    assert_int_equal(step(w), LINK_SAME);
    assert_string_equal(w->log, "");
}

static void test_link_first_try_waits_a_random_part_of_the_jitter(void **state)
{
    struct wire *w = *state;
    int64_t least = INT64_MAX;
    int64_t most = 0;

    w->options.start_jitter_ms = 60000;
    for (int i = 0; i < 500; i++) {
        int64_t ms;

        init(w);
        postbag__link_start(&w->l, w->sim.mono_us);
        ms = (postbag__link_deadline(&w->l) - w->sim.mono_us) / 1000;
        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    assert_in_range(least, 0, 2000);
    assert_in_range(most, 58000, 59999);
}

static void test_link_attempt_without_an_answer_is_given_up(void **state)
{
    struct wire *w = *state;

    w->t->auto_up = 0;
    postbag__link_start(&w->l, w->sim.mono_us);
    (void)step(w);
    assert_int_equal(
        postbag__link_deadline(&w->l) - w->sim.mono_us, 10000 * 1000);
    sim_pass_ms(&w->sim, 9999);
    assert_int_equal(step(w), LINK_SAME);
    sim_pass_ms(&w->sim, 1);
    assert_int_equal(step(w), LINK_WENT_DOWN);
    assert_int_equal(w->t->aborts, 1);
    assert_string_equal(
        w->l.error, "no connection within 10000 ms (connect_timeout_ms)");
}

static void test_link_connect_that_begins_nothing_is_tried_again(void **state)
{
    struct wire *w = *state;

    w->t->connect_err = POSTBAG_ENOMEM;
    postbag__link_start(&w->l, w->sim.mono_us);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.state, LINK_WAITING);
    assert_int_equal(w->t->disconnects, 0);
    w->t->connect_err = 0;
    (void)next_try(w);
    assert_int_equal(step(w), LINK_CAME_UP);
}

/* ---- backing off ---- */

static int64_t ceiling_ms(int failures)
{
    int64_t ms = BASE_MS;

    for (int i = 1; i < failures && ms < CAP_MS; i++)
        ms *= 2;
    return ms < CAP_MS ? ms : CAP_MS;
}

static void test_link_backoff_stays_within_its_bounds(void **state)
{
    struct wire *w = *state;

    w->t->connect_err = POSTBAG_ELINK;
    for (int round = 0; round < 50; round++) {
        init(w);
        postbag__link_start(&w->l, w->sim.mono_us);
        (void)step(w);
        for (int failures = 1; failures < 14; failures++) {
            int64_t ms = next_try(w);

            assert_in_range(
                ms, ceiling_ms(failures) / 10, ceiling_ms(failures));
        }
    }
}

static void test_link_backoff_uses_its_whole_range(void **state)
{
    static const struct {
        int byte, err;
        int64_t part; /* of ten */
    } all[] = {{0x00, 0, 1}, {0xff, 0, 10}, {0, POSTBAG_EIO, 5}};
    struct wire *w = *state;

    w->t->connect_err = POSTBAG_ELINK;
    for (size_t i = 0; i < COUNT(all); i++) {
        w->sim.random_byte = all[i].byte;
        w->sim.fails[SIM_RANDOM] = all[i].err;
        init(w);
        postbag__link_start(&w->l, w->sim.mono_us);
        sim_pass_ms(&w->sim, 1);
        (void)step(w);
        (void)next_try(w);
        /* the second ceiling; without chance the middle of the range */
        assert_in_range(next_try(w), 2 * BASE_MS * all[i].part / 10,
            2 * BASE_MS * all[i].part / 10 + (all[i].err != 0) * 101);
    }
}

/* Fail three times, come up, live so long, be lost; the failures then. */
static uint32_t failures_after(
    struct wire *w, int64_t life_ms, int was_used, int proved)
{
    init(w);
    w->t->connect_err = POSTBAG_ELINK;
    postbag__link_start(&w->l, w->sim.mono_us);
    (void)step(w);
    (void)next_try(w);
    (void)next_try(w);
    w->t->connect_err = 0;
    (void)next_try(w);
    assert_int_equal(step(w), LINK_CAME_UP);
    w->l.was_used = was_used;
    w->l.proved = proved;
    sim_pass_ms(&w->sim, life_ms);
    fake_lose(w->t, POSTBAG_ELINK, 0);
    assert_int_equal(step(w), LINK_WENT_DOWN);
    return w->l.failures;
}

static void test_link_backoff_restarts_only_after_a_stable_proved_link(
    void **state)
{
    struct wire *w = *state;

    assert_int_equal(failures_after(w, STABLE_MS, 1, 1), 1);
    assert_int_equal(failures_after(w, STABLE_MS - 1, 1, 1), 4);
    assert_int_equal(failures_after(w, STABLE_MS, 1, 0), 4);
}

/* There may be nothing to send for weeks. */
static void test_link_backoff_restarts_after_a_stable_quiet_link(void **state)
{
    struct wire *w = *state;

    assert_int_equal(failures_after(w, STABLE_MS, 0, 0), 1);
    assert_int_equal(failures_after(w, STABLE_MS - 1, 0, 0), 4);
}

/* ---- losing ---- */

static void test_link_eased_waits_as_after_fewer_failures(void **state)
{
    struct wire *w = *state;

    for (int i = 0; i < 5; i++)
        (void)wait_after(w, 1000, POSTBAG_ELINK, 0);
    postbag__link_ease(&w->l, w->sim.mono_us, 2);
    assert_int_equal(w->l.next_us - w->sim.mono_us, 2 * BASE_MS * 1000);
    assert_has(w->log, "next try in 2000 ms");
    assert_int_equal(wait_after(w, 1000, POSTBAG_ELINK, 0), 4 * BASE_MS);
    /* never slower */
    postbag__link_ease(&w->l, w->sim.mono_us, 9);
    assert_int_equal(w->l.next_us - w->sim.mono_us, 4 * BASE_MS * 1000);
}

static void test_link_eased_is_still_slow_to_who_says_so(void **state)
{
    struct wire *w = *state;

    for (int i = 0; i < 3; i++)
        (void)wait_after(w, 1000, POSTBAG_EREFUSED, 0x97);
    postbag__link_ease(&w->l, w->sim.mono_us, 1);
    assert_int_equal(w->l.next_us - w->sim.mono_us, SLOW_MS * 1000);
}

static void test_link_that_does_not_wait_is_not_eased(void **state)
{
    struct wire *w = *state;
    int64_t next_us;

    (void)wait_after(w, 1000, POSTBAG_ELINK, 0);
    (void)wait_after(w, 1000, POSTBAG_ELINK, 0);
    sim_pass_ms(&w->sim, CAP_MS);
    (void)step(w);
    next_us = w->l.next_us;
    postbag__link_ease(&w->l, w->sim.mono_us, 1);
    assert_int_equal(w->l.next_us, next_us);
    assert_int_equal(w->l.failures, 2);
}

static void test_link_lost_hangs_up_and_names_the_reason(void **state)
{
    struct wire *w = *state;

    come_up(w);
    fake_lose(w->t, POSTBAG_EREFUSED, 0x8b);
    assert_int_equal(step(w), LINK_WENT_DOWN);
    assert_string_equal(
        w->l.error, "lost by the script: server shutting down (0x8b)");
    assert_int_equal(w->t->aborts, 1);
    assert_int_equal(w->l.state, LINK_WAITING);
}

static void test_link_refused_while_connecting_waits(void **state)
{
    struct wire *w = *state;

    w->t->auto_up = 0;
    postbag__link_start(&w->l, w->sim.mono_us);
    (void)step(w);
    fake_lose(w->t, POSTBAG_EREFUSED, 0x87);
    assert_int_equal(step(w), LINK_WENT_DOWN);
    assert_int_equal(w->l.state, LINK_WAITING);
}

static void test_link_lost_right_after_up_is_lost(void **state)
{
    struct wire *w = *state;

    postbag__link_start(&w->l, w->sim.mono_us);
    (void)step(w);
    fake_lose(w->t, POSTBAG_ELINK, 0);
    assert_int_equal(step(w), LINK_WENT_DOWN);
    assert_int_equal(w->t->disconnects, 1);
}

static void test_link_events_of_an_older_connection_are_ignored(void **state)
{
    struct wire *w = *state;
    const struct postbag_link info = {.mqtt_version = 5};
    uint32_t old;

    come_up(w);
    old = w->l.generation;
    fake_lose(w->t, POSTBAG_ELINK, 0);
    (void)step(w);
    w->t->auto_up = 0;
    (void)next_try(w);
    assert_int_not_equal(w->l.generation, old);
    postbag__link_note_up(&w->l, old, &info);
    postbag__link_note_lost(&w->l, old, POSTBAG_ELINK, 0, NULL);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.state, LINK_CONNECTING);
}

static void test_link_generation_is_never_zero_in_a_token(void **state)
{
    struct wire *w = *state;

    w->l.generation = 0xffff;
    come_up(w);
    assert_int_equal(w->t->connect.generation, 0x10001);
}

static void test_link_fail_hangs_up_only_what_is_there(void **state)
{
    struct wire *w = *state;

    postbag__link_fail(&w->l, w->sim.mono_us, "x");
    assert_int_equal(w->l.state, LINK_OFF);
    come_up(w);
    postbag__link_fail(&w->l, w->sim.mono_us, "no PUBACK in time");
    assert_int_equal(w->t->aborts, 1);
    assert_string_equal(w->l.error, "no PUBACK in time");
    postbag__link_fail(&w->l, w->sim.mono_us, "again");
    assert_int_equal(w->t->disconnects, 1);
}

static void test_link_stop_says_goodbye_and_may_start_again(void **state)
{
    struct wire *w = *state;

    come_up(w);
    postbag__link_stop(&w->l);
    assert_int_equal(w->t->disconnects, 1);
    assert_int_equal(w->t->aborts, 0);
    postbag__link_stop(&w->l);
    assert_int_equal(w->t->disconnects, 1);
    come_up(w);
    postbag__link_start(&w->l, w->sim.mono_us);
    assert_int_equal(w->l.state, LINK_UP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_link_comes_up_with_what_the_broker_said),
        TEST_IN(test_link_hands_its_options_to_connect),
        TEST_IN(test_link_without_a_transport_stays_off),
        TEST_IN(test_link_first_try_waits_a_random_part_of_the_jitter),
        TEST_IN(test_link_attempt_without_an_answer_is_given_up),
        TEST_IN(test_link_connect_that_begins_nothing_is_tried_again),
        TEST_IN(test_link_backoff_stays_within_its_bounds),
        TEST_IN(test_link_backoff_uses_its_whole_range),
        TEST_IN(test_link_backoff_restarts_only_after_a_stable_proved_link),
        TEST_IN(test_link_backoff_restarts_after_a_stable_quiet_link),
        TEST_IN(test_link_eased_waits_as_after_fewer_failures),
        TEST_IN(test_link_eased_is_still_slow_to_who_says_so),
        TEST_IN(test_link_that_does_not_wait_is_not_eased),
        TEST_IN(test_link_lost_hangs_up_and_names_the_reason),
        TEST_IN(test_link_refused_while_connecting_waits),
        TEST_IN(test_link_lost_right_after_up_is_lost),
        TEST_IN(test_link_events_of_an_older_connection_are_ignored),
        TEST_IN(test_link_generation_is_never_zero_in_a_token),
        TEST_IN(test_link_fail_hangs_up_only_what_is_there),
        TEST_IN(test_link_stop_says_goodbye_and_may_start_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
