/* SPDX-License-Identifier: MIT */
/* What the broker's reasons mean for the next try, and which server it goes
 * to. */
#include "link_wire.h"

/* ---- what the broker said ---- */

static void test_link_bad_credentials_are_not_tried_every_second(void **state)
{
    struct wire *w = *state;

    assert_int_equal(wait_refused(w, POSTBAG_EREFUSED, 0x86), SLOW_MS);
    assert_string_equal(
        w->l.error, "lost by the script: bad user name or password (0x86)");
    assert_int_equal(wait_refused(w, POSTBAG_EREFUSED, 4), 2 * SLOW_MS);
    assert_string_equal(
        w->l.error, "lost by the script: bad user name or password (0x04)");
    assert_int_equal(wait_refused(w, POSTBAG_ELINK, 0), 4 * BASE_MS);
}

static void test_link_slow_reasons_obey_the_cap(void **state)
{
    struct wire *w = *state;

    w->options.reconnect_cap_ms = 5000;
    init(w);
    assert_int_equal(wait_refused(w, POSTBAG_EREFUSED, 0x8a), 5000);
}

/* A code has its meaning in CONNACK until the link was up. */
static void test_link_connack_and_disconnect_are_told_apart(void **state)
{
    struct wire *w = *state;

    assert_int_equal(wait_after(w, 1000, POSTBAG_EREFUSED, 0x87), BASE_MS);
    assert_int_equal(w->l.verdict, LINK_BLAMES_ROWS);
    assert_int_equal(wait_refused(w, POSTBAG_EREFUSED, 0x87), 2 * SLOW_MS);
    assert_int_equal(w->l.verdict, LINK_SLOW);
}

static void test_link_lost_right_after_up_was_disconnected(void **state)
{
    struct wire *w = *state;

    postbag__link_start(&w->l, w->sim.mono_us);
    (void)step(w);
    fake_lose(w->t, POSTBAG_EREFUSED, 0x87);
    assert_int_equal(step(w), LINK_WENT_DOWN);
    assert_int_equal(w->l.verdict, LINK_BLAMES_ROWS);
}

static void test_link_taken_over_slows_down_however_long_it_lived(void **state)
{
    struct wire *w = *state;

    for (int n = 0; n < 5; n++) {
        static const int64_t waits[] = {60000, 120000, 240000, 300000, 300000};
        int64_t ms = wait_after(w, STABLE_MS * 2, POSTBAG_EREFUSED, 0x8e);

        assert_int_equal(ms, waits[n]);
    }
    assert_has(w->l.error, "another client uses this client id");
    assert_int_equal(w->l.server, 0);
    /* another loss of a stable link begins afresh */
    assert_int_equal(wait_after(w, STABLE_MS, POSTBAG_ELINK, 0), BASE_MS);
}

static void test_link_taken_over_is_told_with_the_transports_text(void **state)
{
    struct wire *w = *state;

    come_up(w);
    postbag__link_note_lost(&w->l, w->l.generation, POSTBAG_EREFUSED, 0x8e,
        "the broker disconnected us: 0x8e");
    (void)step(w);
    assert_string_equal(w->l.error,
        "another client uses this client id: the broker disconnected us: 0x8e");
}

static void test_link_that_learned_something_connects_again_at_once(
    void **state)
{
    struct wire *w = *state;

    w->t->servers = 3;
    assert_int_equal(wait_refused(w, POSTBAG_EAGAIN, 0), 0);
    assert_int_equal(w->l.failures, 0);
    assert_int_equal(w->l.server, 0);
    assert_int_equal(wait_after(w, STABLE_MS, POSTBAG_ELINK, 0), BASE_MS);
    assert_int_equal(wait_refused(w, POSTBAG_EAGAIN, 0), 0);
    assert_int_equal(wait_refused(w, POSTBAG_EAGAIN, 0), 2 * BASE_MS);
    assert_int_equal(w->l.server, 1);
    assert_int_equal(w->l.error_code, POSTBAG_ELINK);
}

static void test_link_learns_nothing_once_it_was_up(void **state)
{
    struct wire *w = *state;

    assert_int_equal(wait_after(w, 1, POSTBAG_EAGAIN, 0), BASE_MS);
    assert_int_equal(w->l.failures, 1);
}

/* ---- servers ---- */

static void test_link_goes_round_the_servers(void **state)
{
    struct wire *w = *state;

    w->t->servers = 3;
    w->t->connect_err = POSTBAG_ELINK;
    postbag__link_start(&w->l, w->sim.mono_us);
    (void)step(w);
    assert_int_equal(w->t->connect.server, 0);
    w->t->connect_err = 0;
    (void)wait_refused(w, POSTBAG_ELINK, 0);
    assert_int_equal(w->t->connect.server, 1);
    (void)wait_after(w, STABLE_MS - 1, POSTBAG_ELINK, 0);
    assert_int_equal(w->t->connect.server, 2);
    (void)wait_after(w, STABLE_MS, POSTBAG_ELINK, 0);
    assert_int_equal(w->t->connect.server, 3);
    assert_int_equal(w->l.info.server, 0);
    assert_int_equal(w->l.server, 0);
}

static void test_link_stays_at_a_server_that_was_stable(void **state)
{
    struct wire *w = *state;

    w->t->servers = 3;
    (void)wait_refused(w, POSTBAG_ELINK, 0);
    (void)wait_after(w, STABLE_MS, POSTBAG_ELINK, 0);
    (void)wait_after(w, STABLE_MS, POSTBAG_ELINK, 0);
    assert_int_equal(w->t->connect.server, 1);
    assert_has(w->log, "next try in");
}

static void test_link_without_an_answer_goes_to_the_next_server(void **state)
{
    struct wire *w = *state;

    w->t->servers = 2;
    come_up(w);
    w->l.was_used = 1;
    sim_pass_ms(&w->sim, STABLE_MS);
    postbag__link_fail(&w->l, w->sim.mono_us, "no PUBACK in time");
    (void)next_try(w);
    assert_int_equal(w->t->connect.server, 1);
}

static void test_link_sent_elsewhere_goes_there_at_once(void **state)
{
    struct wire *w = *state;

    w->t->servers = 3;
    assert_int_equal(wait_after(w, STABLE_MS, POSTBAG_EREFUSED, 0x9c), 0);
    assert_int_equal(w->l.server, 1);
    /* but is not sent round in circles at full speed */
    assert_int_equal(wait_refused(w, POSTBAG_EREFUSED, 0x9d), 2 * BASE_MS);
    assert_int_equal(w->l.server, 2);
    assert_int_equal(wait_after(w, 1, POSTBAG_EREFUSED, 0x9c), 0);
    assert_int_equal(w->l.server, 3);
}

/* Up at the second of two, since when the time runs. */
static void away(struct wire *w)
{
    w->t->servers = 2;
    (void)wait_refused(w, POSTBAG_ELINK, 0);
    sim_pass_ms(&w->sim, BASE_MS);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(step(w), LINK_CAME_UP);
    assert_has(w->log, "server 2");
    assert_int_equal(w->l.info.server, 1);
}

static void test_link_leaves_for_the_first_server_after_a_while(void **state)
{
    struct wire *w = *state;

    away(w);
    assert_int_equal(postbag__link_deadline(&w->l) - w->sim.mono_us,
        INT64_C(1000000) * AWAY_S);
    sim_pass_ms(&w->sim, AWAY_S * 1000 - 1);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.is_leaving, 0);
    sim_pass_ms(&w->sim, 1);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.is_leaving, 1);
    assert_int_equal(
        postbag__link_deadline(&w->l) - w->sim.mono_us, 5 * 1000000);
    postbag__link_leave(&w->l, w->sim.mono_us);
    assert_int_equal(w->t->disconnects - w->t->aborts, 1);
    assert_int_equal(w->l.is_leaving, 0);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->t->connect.server, 0);
    assert_int_equal(step(w), LINK_CAME_UP);
    assert_int_equal(postbag__link_deadline(&w->l), INT64_MAX);
}

static void test_link_goes_on_round_where_the_first_server_is_still_gone(
    void **state)
{
    struct wire *w = *state;

    away(w);
    w->l.proved = 1;
    sim_pass_ms(&w->sim, AWAY_S * 1000);
    (void)step(w);
    postbag__link_leave(&w->l, w->sim.mono_us);
    assert_int_equal(wait_refused(w, POSTBAG_ELINK, 0), BASE_MS);
    assert_int_equal(wait_after(w, 1, POSTBAG_ELINK, 0), 2 * BASE_MS);
    assert_int_equal(w->t->connect.server, 1);
}

/* ---- certificates ---- */

static void test_link_tells_when_a_certificate_ends(void **state)
{
    static const struct {
        int64_t left_s;
        const char *line;
    } all[] = {
        {31 * 86400, "<5>outbound link: connected (MQTT 5)"},
        {30 * 86400, "<4>outbound link: our certificate expires in 30 days"},
        {86399, "<4>outbound link: our certificate expires in 0 days"},
        {0, "<3>outbound link: our certificate has expired"},
        {-86400, "<3>outbound link: our certificate has expired"},
    };
    struct wire *w = *state;

    for (size_t i = 0; i < COUNT(all); i++) {
        w->t->link.own_certificate_end_s =
            w->sim.wall_ms / 1000 + all[i].left_s;
        come_up(w);
        assert_string_equal(w->log, all[i].line);
        postbag__link_stop(&w->l);
    }
    w->t->link.server_certificate_end_s = w->sim.wall_ms / 1000 + 86400;
    come_up(w);
    assert_string_equal(
        w->log, "<4>outbound link: the broker's certificate expires in 1 days");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_link_bad_credentials_are_not_tried_every_second),
        TEST_IN(test_link_slow_reasons_obey_the_cap),
        TEST_IN(test_link_connack_and_disconnect_are_told_apart),
        TEST_IN(test_link_lost_right_after_up_was_disconnected),
        TEST_IN(test_link_taken_over_slows_down_however_long_it_lived),
        TEST_IN(test_link_taken_over_is_told_with_the_transports_text),
        TEST_IN(test_link_that_learned_something_connects_again_at_once),
        TEST_IN(test_link_learns_nothing_once_it_was_up),
        TEST_IN(test_link_goes_round_the_servers),
        TEST_IN(test_link_stays_at_a_server_that_was_stable),
        TEST_IN(test_link_without_an_answer_goes_to_the_next_server),
        TEST_IN(test_link_sent_elsewhere_goes_there_at_once),
        TEST_IN(test_link_leaves_for_the_first_server_after_a_while),
        TEST_IN(test_link_goes_on_round_where_the_first_server_is_still_gone),
        TEST_IN(test_link_tells_when_a_certificate_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
