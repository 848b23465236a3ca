/* SPDX-License-Identifier: MIT */
/* The public handle and its two links: what it is told reaches both. */
#include "desk.h"

#include "live_path.h"

/* ---- inbound ---- */

static void test_postbag_failed_subscription_is_tried_again(void **state)
{
    struct desk *d = *state;

    add_inbound(d);
    d->in->subscribe_err = POSTBAG_ELINK;
    open_with_commands(d);
    step_ms(d, 60000);
    assert_in_range(d->in->subscribes, 4, 200);
    d->in->subscribe_err = 0;
    step_ms(d, 300 * 1000);
    assert_true(d->in->is_up);
}

/* Up and silent: no command would ever come. */
static void test_postbag_subscription_without_an_answer_is_left(void **state)
{
    struct desk *d = *state;

    add_inbound(d);
    d->in->is_suback_kept_back = 1;
    d->c.ack_timeout_ms = 5000;
    open_with_commands(d);
    step_ms(d, 6000);
    assert_int_equal(d->in->aborts, 1);
    assert_true(d->in->connects <= 2);
    d->in->is_suback_kept_back = 0;
    step_ms(d, 300 * 1000);
    assert_true(d->in->is_up);
    unsigned connects = d->in->connects;
    step_ms(d, 300 * 1000);
    assert_int_equal(d->in->connects, connects);
}

/* A session with many kept commands: they come before the SUBACK. */
static void test_postbag_subscription_is_waited_for_while_commands_come(
    void **state)
{
    struct desk *d = *state;
    char payload[] = "x";

    add_inbound(d);
    d->in->is_suback_kept_back = 1;
    d->c.ack_timeout_ms = 5000;
    open_with_commands(d);
    step_ms(d, 1000);
    for (int i = 0; i < 10; i++) {
        const struct postbag_frame f = {
            .topic = "cmd", .payload = payload, .payload_len = 1};

        assert_int_equal(
            d->in->up->arrived(d->in->up->ctx, d->in->connect.generation, &f),
            POSTBAG_OK);
        step_ms(d, 4000);
    }
    assert_int_equal(d->in->aborts, 0);
    assert_int_equal(d->in->connects, 1);
    step_ms(d, 7000);
    assert_int_equal(d->in->aborts, 1);
}

static const char *live_state(const struct desk *d)
{
    static char text[2000];
    char path[300];
    FILE *f;

    assert_ok(
        postbag__live_path(d->t.folder, d->t.path, "main", path, sizeof(path)));
    f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    (void)fclose(f);
    return text;
}

static void test_postbag_live_state_tells_a_link_without_its_subscriptions(
    void **state)
{
    struct desk *d = *state;

    add_inbound(d);
    d->c.run_dir = d->t.folder;
    d->in->is_suback_kept_back = 1;
    open_with_commands(d);
    step_ms(d, 5000);
    assert_has(live_state(d), "\nlink=up\n");
    assert_has(live_state(d), "\ninbound=subscribing\n");
    d->in->up->subscribed(d->in->up->ctx, d->in->connect.generation);
    step_ms(d, 5000);
    assert_has(live_state(d), "\ninbound=up\n");
}

/* However long such a broker keeps the connection, it is not called stable. */
static void test_postbag_subscriptions_unanswered_make_the_link_slow(
    void **state)
{
    struct desk *d = *state;

    add_inbound(d);
    d->in->is_suback_kept_back = 1;
    d->c.stable_ms = 2000;
    d->c.ack_timeout_ms = 5000;
    d->sim.random_byte = 0xff; /* the longest waits: 1, 2, 4, ... s */
    open_with_commands(d);
    step_ms(d, 600 * 1000);
    assert_in_range(d->in->connects, 3, 20);
}

/* Else an inbound link that breaks once a day would wait longer each day. */
static void test_postbag_inbound_backoff_restarts_without_commands(void **state)
{
    struct desk *d = *state;

    add_inbound(d);
    open_with_commands(d);
    for (unsigned day = 1; day <= 20; day++) {
        step_ms(d, 3600 * 1000);
        assert_int_equal(d->in->connects, day);
        fake_lose(d->in, POSTBAG_ELINK, 0);
        step_ms(d, 1500); /* the first ceiling is one second */
        assert_true(d->in->is_up);
    }
}

/* ---- hints ---- */

/* Both links wait for more than a minute. */
static void lose_both(struct desk *d)
{
    add_inbound(d);
    d->c.reconnect_base_ms = 300000;
    d->out->connect_err = d->in->connect_err = POSTBAG_ELINK;
    d->sim.random_byte = 0xff;
    open_with_commands(d);
    step_ms(d, 60 * 1000);
    assert_int_equal(d->out->connects + d->in->connects, 2);
    d->out->connect_err = d->in->connect_err = 0;
}

static void test_postbag_hint_that_the_network_is_back_connects_both(
    void **state)
{
    struct desk *d = *state;

    lose_both(d);
    postbag_link_hint(d->p, 1);
    assert_int_equal(d->sim.is_woken, 1);
    step_ms(d, 10);
    assert_true(d->out->is_up && d->in->is_up);
}

static void test_postbag_hint_that_the_network_is_gone_holds_both(void **state)
{
    struct desk *d = *state;

    lose_both(d);
    postbag_link_hint(d->p, 0);
    step_ms(d, 299 * 1000); /* their waits are over by now */
    assert_int_equal(d->out->connects + d->in->connects, 2);
    step_ms(d, 2 * 1000);
    assert_true(d->out->is_up && d->in->is_up);
}

static void test_postbag_reconnect_replaces_both_connections(void **state)
{
    struct desk *d = *state;

    add_inbound(d);
    open_with_commands(d);
    step_ms(d, 1000);
    assert_true(d->out->is_up && d->in->is_up);
    d->out->auto_settle = 0;
    put(d);
    step_ms(d, 1000);
    assert_int_equal(d->out->in_flight, 1);
    postbag_reconnect(d->p);
    assert_int_equal(d->sim.is_woken, 1);
    put(d);
    step_ms(d, 1000);
    assert_int_equal(d->in->connects, 2);
    assert_int_equal(d->out->disconnects, 0); /* waits for the PUBACK */
    assert_int_equal(d->out->count, 1);
    d->out->auto_settle = 1;
    (void)fake_settle_all(d->out, 0);
    step_ms(d, 3000);
    assert_int_equal(d->out->connects, 2);
    assert_int_equal(d->out->count, 2);
    assert_int_equal(d->out->aborts + d->in->aborts, 0);
    assert_true(d->out->is_up && d->in->is_up);
    assert_int_equal(cursor(d), 2);
}

static void test_postbag_inbound_link_goes_back_to_the_first_server(
    void **state)
{
    struct desk *d = *state;

    add_inbound(d);
    d->in->servers = 2;
    d->in->connect_err = POSTBAG_ELINK;
    open_with_commands(d);
    step_ms(d, 10);
    d->in->connect_err = 0;
    step_ms(d, 600 * 1000);
    assert_int_equal(d->in->connect.server, 1);
    step_ms(d, 1500);
    assert_int_equal(d->in->disconnects, 1);
    assert_int_equal(d->in->aborts, 0);
    assert_int_equal(d->in->connect.server, 0);
    assert_int_equal(d->in->subscribes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_postbag_failed_subscription_is_tried_again),
        TEST_IN(test_postbag_live_state_tells_a_link_without_its_subscriptions),
        TEST_IN(test_postbag_subscription_without_an_answer_is_left),
        TEST_IN(test_postbag_subscription_is_waited_for_while_commands_come),
        TEST_IN(test_postbag_subscriptions_unanswered_make_the_link_slow),
        TEST_IN(test_postbag_inbound_backoff_restarts_without_commands),
        TEST_IN(test_postbag_hint_that_the_network_is_back_connects_both),
        TEST_IN(test_postbag_hint_that_the_network_is_gone_holds_both),
        TEST_IN(test_postbag_reconnect_replaces_both_connections),
        TEST_IN(test_postbag_inbound_link_goes_back_to_the_first_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
