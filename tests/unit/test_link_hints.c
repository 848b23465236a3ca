/* SPDX-License-Identifier: MIT */
/* News from outside: of the network, of the clock, of new credentials. */
#include "link_wire.h"

/* ---- hints and clocks ---- */

/* Lost, and waiting for the whole of the first ceiling. */
static void wait_long(struct wire *w)
{
    (void)wait_after(w, 0, POSTBAG_ELINK, 0);
    assert_int_equal(w->l.state, LINK_WAITING);
}

/* Waiting after so many attempts that failed, the whole of each backoff. */
static void wait_long_failing(struct wire *w, int attempts)
{
    w->sim.random_byte = 0xff;
    postbag__link_start(&w->l, w->sim.mono_us);
    for (int i = 0; i < attempts; i++) {
        sim_pass_ms(&w->sim, (w->l.next_us - w->sim.mono_us) / 1000);
        assert_int_equal(step(w), LINK_SAME);
    }
    assert_int_equal(w->t->connects, attempts);
}

static void hint(struct wire *w, int is_up)
{
    postbag__link_note_hint(&w->l, is_up);
    assert_int_equal(step(w), LINK_SAME);
}

static void test_link_network_back_is_tried_now(void **state)
{
    struct wire *w = *state;

    w->t->connect_err = POSTBAG_ELINK;
    wait_long_failing(w, 5);
    hint(w, 1);
    assert_int_equal(w->l.state, LINK_WAITING);
    assert_int_equal(w->t->connects, 6);
    /* it failed: the backoff goes on from where it was */
    assert_int_equal(
        postbag__link_deadline(&w->l) - w->sim.mono_us, 32 * BASE_MS * 1000);
    w->t->connect_err = 0;
    hint(w, 1);
    assert_int_equal(w->l.state, LINK_CONNECTING);
    assert_int_equal(step(w), LINK_CAME_UP);
}

static void test_link_network_back_disturbs_nothing_that_runs(void **state)
{
    struct wire *w = *state;

    postbag__link_note_hint(&w->l, 1);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.state, LINK_OFF);
    come_up(w);
    hint(w, 1);
    assert_int_equal(w->l.state, LINK_UP);
    assert_int_equal(w->t->connects, 1);
}

static void test_link_network_gone_is_not_tried(void **state)
{
    struct wire *w = *state;

    wait_long(w);
    hint(w, 0);
    assert_int_equal(
        postbag__link_deadline(&w->l) - w->sim.mono_us, CAP_MS * 1000);
    sim_pass_ms(&w->sim, CAP_MS - 1);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->t->connects, 1);
    hint(w, 1);
    assert_int_equal(w->l.state, LINK_CONNECTING);
}

static void test_link_network_gone_strands_nobody(void **state)
{
    struct wire *w = *state;

    wait_long(w);
    hint(w, 0);
    sim_pass_ms(&w->sim, CAP_MS);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.state, LINK_CONNECTING);
}

static void test_link_network_gone_leaves_what_is_up(void **state)
{
    struct wire *w = *state;

    come_up(w);
    hint(w, 0);
    assert_int_equal(w->l.state, LINK_UP);
    fake_lose(w->t, POSTBAG_ELINK, 0);
    assert_int_equal(step(w), LINK_WENT_DOWN);
    assert_int_equal(
        postbag__link_deadline(&w->l) - w->sim.mono_us, CAP_MS * 1000);
}

/* Lost some time after the hint: it holds from the hint on, and the log does
 * not promise an earlier try. */
static void test_link_network_gone_holds_when_it_is_lost_later(void **state)
{
    struct wire *w = *state;

    come_up(w);
    hint(w, 0);
    sim_pass_ms(&w->sim, 1000);
    fake_lose(w->t, POSTBAG_ELINK, 0);
    assert_int_equal(step(w), LINK_WENT_DOWN);
    assert_has(w->log, "next try in 299000 ms, since the network is gone");
    sim_pass_ms(&w->sim, CAP_MS - 1001);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->t->connects, 1);
    sim_pass_ms(&w->sim, 1);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.state, LINK_CONNECTING);
}

static void test_link_network_gone_twice_holds_for_longer(void **state)
{
    struct wire *w = *state;

    wait_long(w);
    hint(w, 0);
    assert_string_equal(w->log, "<5>outbound link: told that the network is"
                                " gone; no new attempt for 300000 ms");
    sim_pass_ms(&w->sim, CAP_MS - 1);
    hint(w, 0);
    assert_has(w->log, "told again that the network is gone");
    w->log[0] = '\0';
    hint(w, 0);
    assert_string_equal(w->log, ""); /* nothing new */
    sim_pass_ms(&w->sim, CAP_MS - 1);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->t->connects, 1);
    sim_pass_ms(&w->sim, 1);
    hint(w, 0); /* another absence */
    assert_has(w->log, "told that the network is gone");
}

/* It could not come back. */
static void test_link_network_gone_is_no_time_to_leave(void **state)
{
    struct wire *w = *state;

    w->t->servers = 2;
    (void)wait_refused(w, POSTBAG_ELINK, 0);
    sim_pass_ms(&w->sim, BASE_MS);
    (void)step(w);
    assert_int_equal(step(w), LINK_CAME_UP);
    assert_int_equal(w->l.info.server, 1);
    sim_pass_ms(&w->sim, AWAY_S * 1000 - 1);
    hint(w, 0);
    sim_pass_ms(&w->sim, CAP_MS - 1);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.is_leaving, 0);
    sim_pass_ms(&w->sim, 1);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.is_leaving, 1);
}

/* ---- renewal ---- */

static void renew(struct wire *w)
{
    postbag__link_note_renewal(&w->l);
    assert_int_equal(step(w), LINK_SAME);
}

static void test_link_renewal_connects_anew_to_the_same_server(void **state)
{
    struct wire *w = *state;

    w->t->servers = 2;
    (void)wait_refused(w, POSTBAG_ELINK, 0);
    sim_pass_ms(&w->sim, BASE_MS);
    (void)step(w);
    assert_int_equal(step(w), LINK_CAME_UP);
    renew(w);
    assert_int_equal(w->l.is_leaving, 1);
    assert_int_equal(
        postbag__link_deadline(&w->l) - w->sim.mono_us, 5 * 1000000);
    sim_pass_ms(&w->sim, 1000);
    renew(w); /* changes nothing */
    assert_int_equal(
        postbag__link_deadline(&w->l) - w->sim.mono_us, 4 * 1000000);
    postbag__link_leave(&w->l, w->sim.mono_us);
    assert_int_equal(w->t->disconnects - w->t->aborts, 1);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->t->connect.server, 1);
    assert_int_equal(step(w), LINK_CAME_UP);
    assert_int_equal(w->l.failures, 1); /* of before */
    assert_int_equal(w->l.is_leaving, 0);
}

static void test_link_renewal_ends_a_wait(void **state)
{
    struct wire *w = *state;

    wait_long(w);
    hint(w, 0);
    renew(w);
    assert_int_equal(w->l.state, LINK_CONNECTING);
    assert_int_equal(w->t->connects, 2);
    assert_int_equal(w->l.failures, 1);
}

static void test_link_renewal_leaves_an_attempt_alone(void **state)
{
    struct wire *w = *state;

    w->t->auto_up = 0;
    postbag__link_start(&w->l, w->sim.mono_us);
    (void)step(w);
    renew(w);
    assert_int_equal(w->l.state, LINK_CONNECTING);
    fake_come_up(w->t);
    assert_int_equal(step(w), LINK_CAME_UP);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.is_leaving, 0); /* nor is it kept for later */
    assert_int_equal(w->t->connects, 1);
}

static void test_link_renewal_before_a_start_is_of_no_use(void **state)
{
    struct wire *w = *state;

    renew(w);
    come_up(w);
    assert_has(w->log, "connected");
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.is_leaving, 0);
}

static void test_link_that_comes_up_knows_that_there_is_a_network(void **state)
{
    struct wire *w = *state;

    w->t->auto_up = 0;
    postbag__link_start(&w->l, w->sim.mono_us);
    (void)step(w);
    hint(w, 0);
    assert_int_equal(w->l.state, LINK_CONNECTING);
    fake_come_up(w->t);
    assert_int_equal(step(w), LINK_CAME_UP);
    fake_lose(w->t, POSTBAG_ELINK, 0);
    (void)step(w);
    assert_true(
        postbag__link_deadline(&w->l) - w->sim.mono_us <= BASE_MS * 1000);
}

/* A fleet that got its power back gets its network and its time, too. */
static void test_link_first_try_is_hurried_by_nothing(void **state)
{
    struct wire *w = *state;
    int64_t first_us;

    w->options.start_jitter_ms = 60000;
    w->sim.random_byte = 0xff;
    init(w);
    postbag__link_start(&w->l, w->sim.mono_us);
    first_us = postbag__link_deadline(&w->l);
    hint(w, 1);
    w->sim.wall_ms += INT64_C(400000000000);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(postbag__link_deadline(&w->l), first_us);
    assert_int_equal(w->t->connects, 0);
}

static void test_link_tries_now_when_the_clock_is_set(void **state)
{
    static const int64_t jumps_ms[] = {
        INT64_C(400000000000), -INT64_C(400000000000), 60001, -60001};
    struct wire *w = *state;

    w->t->connect_err = POSTBAG_ELINK;
    wait_long_failing(w, 4);
    for (size_t i = 0; i < COUNT(jumps_ms); i++) {
        unsigned before = w->t->connects;

        w->sim.wall_ms += jumps_ms[i];
        for (int k = 0; k < 10; k++)
            assert_int_equal(step(w), LINK_SAME);
        assert_int_equal(w->t->connects, before + 1);
    }
    w->sim.wall_ms += 60000;
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->t->connects, 8);
}

static void test_link_clock_set_while_the_network_is_gone_waits(void **state)
{
    struct wire *w = *state;

    wait_long(w);
    hint(w, 0);
    w->sim.wall_ms += INT64_C(400000000000);
    assert_int_equal(step(w), LINK_SAME);
    assert_has(w->log, "the clock was set");
    w->log[0] = '\0';
    assert_int_equal(step(w), LINK_SAME);
    assert_string_equal(w->log, ""); /* told once */
    assert_int_equal(w->t->connects, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_link_network_back_is_tried_now),
        TEST_IN(test_link_network_back_disturbs_nothing_that_runs),
        TEST_IN(test_link_network_gone_is_not_tried),
        TEST_IN(test_link_network_gone_strands_nobody),
        TEST_IN(test_link_network_gone_leaves_what_is_up),
        TEST_IN(test_link_network_gone_holds_when_it_is_lost_later),
        TEST_IN(test_link_network_gone_twice_holds_for_longer),
        TEST_IN(test_link_network_gone_is_no_time_to_leave),
        TEST_IN(test_link_renewal_connects_anew_to_the_same_server),
        TEST_IN(test_link_renewal_ends_a_wait),
        TEST_IN(test_link_renewal_leaves_an_attempt_alone),
        TEST_IN(test_link_renewal_before_a_start_is_of_no_use),
        TEST_IN(test_link_that_comes_up_knows_that_there_is_a_network),
        TEST_IN(test_link_first_try_is_hurried_by_nothing),
        TEST_IN(test_link_tries_now_when_the_clock_is_set),
        TEST_IN(test_link_clock_set_while_the_network_is_gone_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
