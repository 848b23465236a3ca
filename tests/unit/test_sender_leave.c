/* SPDX-License-Identifier: MIT */
/* Connections that do not end by themselves, and those that are only slow. */
#include "sender.h"

#include "relay.h"
#include "unit.h"

static void test_leave_without_pubacks_is_stuck_after_the_timeout(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_put(r, "t", 2);
    relay_run_ms(r, 20 * 1000);
    fake_settle(r->out, 0, 0); /* progress: the time starts again */
    relay_run_ms(r, 29 * 1000);
    assert_int_equal(r->out->disconnects, 0);
    relay_idle_ms(r, 1500);
    assert_int_equal(r->out->aborts, 1);
    assert_has(r->log, "no PUBACK in time");
    relay_idle_ms(r, 2000);
    assert_string_equal(fake_topics(r->out, 0), "t1 t2 t2");
}

/* 64 KiB at 9600 bit/s take a minute. */
static void test_leave_large_message_on_a_slow_link_is_waited_for(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    r->out->is_transferring = 1;
    r->out->takes = 1200;
    relay_put(r, "t", 1);
    relay_run_ms(r, 600 * 1000);
    assert_int_equal(r->out->disconnects, 0);
    r->out->takes = 0;       /* it stands still */
    relay_idle_ms(r, 30100); /* one wait, and no second one */
    assert_int_equal(r->out->aborts, 1);
    assert_has(r->log, "no PUBACK in time");
}

static void test_leave_idle_link_is_never_stuck(void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);

    relay_idle_ms(r, 3600 * 1000);
    relay_put(r, "t", 1);
    relay_run_ms(r, 10 * 1000);
    assert_int_equal(r->out->disconnects, 0);
    assert_int_equal(r->out->count, 1);
}

/* So long, in pieces: a transport that takes nothing is asked often. */
static void run_seconds(struct relay *r, int count)
{
    for (int i = 0; i < count; i++)
        relay_run_ms(r, 1000);
}

/* One that says so for a while is waited for. */
static void test_leave_link_that_takes_nothing_and_does_not_end_is_left(
    void **state)
{
    struct bench *b = *state;
    struct relay *r = bench_up(b);
    int wait_s = (int)r->e.sender.options.ack_timeout_ms / 1000;

    r->out->auto_settle = 1;
    for (int turn = 1; turn <= 2; turn++) {
        r->out->send_err = POSTBAG_ELINK;
        relay_put(r, "t", 1);
        run_seconds(r, wait_s - 1);
        assert_int_equal(r->out->aborts, 0);
        if (turn == 2)
            run_seconds(r, 2);
        assert_int_equal(r->out->aborts, turn == 2);
        r->out->send_err = POSTBAG_OK;
        run_seconds(r, 5);
        assert_int_equal(r->out->count, turn);
    }
    assert_has(r->log, "it takes no message, and does not end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH(test_leave_without_pubacks_is_stuck_after_the_timeout),
        BENCH(test_leave_large_message_on_a_slow_link_is_waited_for),
        BENCH(test_leave_idle_link_is_never_stuck),
        BENCH(test_leave_link_that_takes_nothing_and_does_not_end_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
