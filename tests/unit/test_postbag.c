/* SPDX-License-Identifier: MIT */
/* The public handle: opening, stepping, commands, threads, stopping. */
#include <time.h>

#include "desk.h"
#include "postbag/slow.h"

/* ---- opening ---- */

static void test_postbag_open_that_fails_destroys_the_transports(void **state)
{
    struct desk *d = *state;
    struct postbag_fault why;

    add_inbound(d);
    d->c.window = 100000;
    assert_int_equal(postbag_open(&d->p, &d->c, &why), POSTBAG_EINVAL);
    assert_has(why.text, "option window");
    assert_null(d->p);
    assert_int_equal(d->destroyed, 2);
}

static void test_postbag_open_that_fails_later_destroys_them_too(void **state)
{
    struct desk *d = *state;
    struct postbag_fault why;

    add_inbound(d);
    d->sim.fails[SIM_STORAGE_CHECK] = POSTBAG_ESTORAGE;
    assert_int_equal(postbag_open(&d->p, &d->c, &why), POSTBAG_ESTORAGE);
    assert_null(d->p);
    assert_int_equal(d->destroyed, 2);
}

static void test_postbag_open_without_arguments_is_refused(void **state)
{
    struct desk *d = *state;

    assert_int_equal(postbag_open(&d->p, NULL, NULL), POSTBAG_EINVAL);
    assert_null(d->p);
    assert_int_equal(postbag_open(NULL, &d->c, NULL), POSTBAG_EINVAL);
    assert_int_equal(postbag_start(NULL), POSTBAG_EINVAL);
    assert_int_equal(postbag_step(NULL, NULL), POSTBAG_EINVAL);
    assert_int_equal(postbag_work(NULL, NULL), POSTBAG_EINVAL);
    assert_int_equal(postbag_stop(NULL, 0), POSTBAG_EINVAL);
    assert_int_equal(postbag_on(NULL, "c", "f", NULL, NULL), POSTBAG_EINVAL);
    assert_int_equal(
        postbag_on_slow(NULL, "c", "f", NULL, NULL, NULL), POSTBAG_EINVAL);
    postbag_wake(NULL);
    postbag_link_hint(NULL, 1);
    postbag_reconnect(NULL);
    postbag_close(NULL);
}

/* ---- stepping ---- */

static void test_postbag_step_relays_without_a_thread(void **state)
{
    struct desk *d = *state;

    open_it(d);
    put(d);
    assert_int_equal(d->out->connects, 0); /* nothing before the first step */
    step_ms(d, 2000);
    assert_int_equal(d->out->count, 1);
    assert_int_equal(cursor(d), 1);
    assert_int_equal(postbag_start(d->p), POSTBAG_ESTATE); /* no threads */
}

/* Without a time to come back at, the caller would be back at once. */
static void test_postbag_step_that_cannot_prepare_says_when_to_try_again(
    void **state)
{
    struct desk *d = *state;
    int64_t next_us = 0;

    add_inbound(d);
    open_it(d);
    assert_ok(postbag_on(d->p, "c", "f", NULL, NULL));
    d->sim.fails[SIM_WAKE_NEW] = POSTBAG_EIO;
    assert_int_equal(postbag_step(d->p, &next_us), POSTBAG_EIO);
    assert_int_equal(next_us, d->sim.mono_us + 500000);
    d->sim.fails[SIM_WAKE_NEW] = 0;
    assert_ok(postbag_step(d->p, &next_us));
}

static void test_postbag_stop_waits_for_pubacks_and_gives_up(void **state)
{
    struct desk *d = *state;
    int64_t before;

    open_it(d);
    d->out->auto_settle = 0;
    put(d);
    put(d);
    step_ms(d, 100);
    fake_settle(d->out, 0, 0);
    before = d->sim.mono_us;
    assert_int_equal(postbag_stop(d->p, 3000), POSTBAG_EAGAIN);
    assert_in_range(d->sim.mono_us - before, 3000 * 1000, 3100 * 1000);
    assert_int_equal(cursor(d), 1);
    assert_int_equal(d->out->disconnects, 1);
    assert_int_equal(d->out->aborts, 0);
}

static void test_postbag_stop_with_all_settled_saves_at_once(void **state)
{
    struct desk *d = *state;
    int64_t before;

    open_it(d);
    put(d);
    step_ms(d, 100);
    assert_int_equal(cursor(d), 0);
    before = d->sim.mono_us;
    assert_ok(postbag_stop(d->p, 3000));
    assert_int_equal(cursor(d), 1);
    assert_true(d->sim.mono_us - before < 200 * 1000);
}

static void test_postbag_close_without_a_stop_loses_nothing(void **state)
{
    struct desk *d = *state;

    open_it(d);
    put(d);
    step_ms(d, 100);
    postbag_close(d->p);
    d->p = NULL;
    d->out = fake_transport_new();
    d->out->auto_settle = 1;
    d->c.transport = &d->out->base;
    d->destroyed = 0;
    d->out->destroyed = &d->destroyed;
    open_it(d);
    step_ms(d, 2000);
    assert_int_equal(cursor(d), 1);
}

static void test_postbag_wake_rings(void **state)
{
    struct desk *d = *state;

    open_it(d);
    postbag_wake(d->p);
    assert_int_equal(d->sim.calls[SIM_WAKE], 1);
}

/* ---- commands ---- */

static void test_postbag_on_needs_an_inbound_transport(void **state)
{
    struct desk *d = *state;

    open_it(d);
    assert_int_equal(postbag_on(d->p, "a", "cmd/#", handle, d), POSTBAG_ESTATE);
}

static void test_postbag_on_is_for_before_the_first_step(void **state)
{
    struct desk *d = *state;
    int64_t next_us;

    add_inbound(d);
    open_it(d);
    assert_int_equal(
        postbag_on(d->p, "a", "cmd/#/x", handle, d), POSTBAG_EINVAL);
    assert_ok(postbag_on(d->p, "a", "cmd/#", handle, d));
    assert_ok(postbag_step(d->p, &next_us));
    assert_int_equal(postbag_on(d->p, "b", "cmd/#", handle, d), POSTBAG_ESTATE);
}

static void test_postbag_command_is_stored_then_handled_once(void **state)
{
    const struct postbag_property id = {"id", "1"};
    const struct postbag_frame f = {.topic = "cmd/a",
        .payload = "go",
        .payload_len = 2,
        .properties = &id,
        .property_count = 1};
    struct desk *d = *state;
    int did = 0;

    add_inbound(d);
    open_with_commands(d);
    step_ms(d, 100);
    assert_int_equal(d->in->subscribes, 1);
    assert_true(d->in->connect.session_expiry_s > 0);
    for (int i = 0; i < 2; i++)
        assert_ok(
            d->in->up->arrived(d->in->up->ctx, d->in->connect.generation, &f));
    assert_int_equal(d->handled, 0);
    assert_ok(postbag_work(d->p, &did));
    assert_int_equal(did, 1);
    assert_ok(postbag_work(d->p, &did));
    assert_int_equal(did, 0);
    assert_int_equal(d->handled, 1);
}

static void test_postbag_step_that_cannot_prepare_says_when_to_come_again(
    void **state)
{
    struct desk *d = *state;
    int64_t next_us = -1;

    add_inbound(d);
    open_with_commands(d);
    d->sim.fails[SIM_WAKE_NEW] = POSTBAG_ENOMEM;
    assert_int_equal(postbag_step(d->p, &next_us), POSTBAG_ENOMEM);
    assert_true(next_us == d->sim.mono_us + 500 * 1000);
    d->sim.fails[SIM_WAKE_NEW] = POSTBAG_OK;
    assert_ok(postbag_step(d->p, &next_us));
}

static enum postbag_outcome note_slow(
    void *ctx, const struct postbag_command *cmd)
{
    struct desk *d = ctx;

    assert_string_equal(cmd->topic, "cmd/a");
    assert_int_equal(d->handled, 0);
    d->handled = 10;
    return POSTBAG_DONE;
}

static void test_postbag_slow_part_goes_before_its_handler(void **state)
{
    const struct postbag_frame f = {.topic = "cmd/a"};
    struct desk *d = *state;
    int did = 0;

    add_inbound(d);
    d->c.no_identity = "unprotected";
    open_it(d);
    assert_int_equal(
        postbag_on_slow(d->p, "s", "cmd/#", NULL, handle, d), POSTBAG_EINVAL);
    assert_int_equal(postbag_on_slow(d->p, "s", "cmd/#", note_slow, NULL, d),
        POSTBAG_EINVAL);
    assert_ok(postbag_on_slow(d->p, "s", "cmd/#", note_slow, handle, d));
    step_ms(d, 100);
    assert_ok(
        d->in->up->arrived(d->in->up->ctx, d->in->connect.generation, &f));
    assert_ok(postbag_work(d->p, &did));
    assert_int_equal(did, 1);
    assert_int_equal(d->handled, 11);
}

/* ---- threads ---- */

/* On the real clock: until the cursor is there, at most 10 s. */
static void wait_for_cursor(struct desk *d, int64_t seq)
{
    const struct timespec pause = {.tv_nsec = 5000000};

    for (int i = 0; i < 2000 && cursor(d) < seq; i++)
        (void)nanosleep(&pause, NULL);
    assert_int_equal(cursor(d), seq);
}

static void test_postbag_thread_relays_what_a_writer_commits(void **state)
{
    struct desk *d = *state;
    struct postbag_writer_config wc = {
        .struct_size = sizeof(wc), .db = d->t.app, .port = &d->port};
    const struct postbag_message m = {.struct_size = sizeof(m), .topic = "t"};
    struct postbag_writer *w;
    int64_t next_us;
    int did;

    d->c.port = &d->port;
    d->c.ack_delay_ms = 1;
    open_it(d);
    wc.engine = d->p;
    assert_ok(postbag_writer_open(&w, &wc, NULL));
    assert_ok(postbag_start(d->p));
    assert_int_equal(postbag_start(d->p), POSTBAG_ESTATE);
    assert_int_equal(postbag_step(d->p, &next_us), POSTBAG_ESTATE);
    assert_int_equal(postbag_work(d->p, &did), POSTBAG_ESTATE);
    for (int i = 0; i < 10; i++) {
        assert_ok(postbag_begin(w));
        assert_ok(postbag_put(w, &m, NULL));
        assert_ok(postbag_commit(w));
    }
    wait_for_cursor(d, 10);
    assert_ok(postbag_stop(d->p, 5000));
    postbag_writer_close(w);
}

static void test_postbag_starts_again_after_a_stop(void **state)
{
    struct desk *d = *state;

    d->c.port = &d->port;
    d->c.ack_delay_ms = 1;
    open_it(d);
    for (int64_t round = 1; round <= 2; round++) {
        put(d);
        assert_ok(postbag_start(d->p));
        wait_for_cursor(d, round);
        assert_ok(postbag_stop(d->p, 5000));
    }
}

static int no_thread(void *ctx, struct postbag_thread **out, const char *name,
    int niceness, void (*run)(void *arg), void *arg)
{
    (void)ctx;
    (void)out;
    (void)name;
    (void)niceness;
    (void)run;
    (void)arg;
    return POSTBAG_EIO;
}

static void test_postbag_start_without_a_thread_can_be_repeated(void **state)
{
    struct desk *d = *state;

    d->c.port = &d->port;
    d->c.ack_delay_ms = 1;
    d->port.thread_start = no_thread;
    open_it(d);
    put(d);
    assert_int_equal(postbag_start(d->p), POSTBAG_EIO);
    d->port.thread_start = postbag_linux_port()->thread_start;
    assert_ok(postbag_start(d->p));
    wait_for_cursor(d, 1);
}

static void test_postbag_close_ends_a_running_thread(void **state)
{
    struct desk *d = *state;

    d->c.port = &d->port;
    d->c.ack_delay_ms = 1;
    open_it(d);
    put(d);
    assert_ok(postbag_start(d->p));
    wait_for_cursor(d, 1);
    postbag_close(d->p);
    d->p = NULL;
    assert_int_equal(d->destroyed, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_postbag_open_that_fails_destroys_the_transports),
        TEST_IN(test_postbag_open_that_fails_later_destroys_them_too),
        TEST_IN(test_postbag_open_without_arguments_is_refused),
        TEST_IN(test_postbag_step_relays_without_a_thread),
        TEST_IN(test_postbag_step_that_cannot_prepare_says_when_to_try_again),
        TEST_IN(test_postbag_stop_waits_for_pubacks_and_gives_up),
        TEST_IN(test_postbag_stop_with_all_settled_saves_at_once),
        TEST_IN(test_postbag_close_without_a_stop_loses_nothing),
        TEST_IN(test_postbag_wake_rings),
        TEST_IN(test_postbag_on_needs_an_inbound_transport),
        TEST_IN(test_postbag_on_is_for_before_the_first_step),
        TEST_IN(test_postbag_command_is_stored_then_handled_once),
        TEST_IN(test_postbag_step_that_cannot_prepare_says_when_to_come_again),
        TEST_IN(test_postbag_slow_part_goes_before_its_handler),
        TEST_IN(test_postbag_thread_relays_what_a_writer_commits),
        TEST_IN(test_postbag_starts_again_after_a_stop),
        TEST_IN(test_postbag_start_without_a_thread_can_be_repeated),
        TEST_IN(test_postbag_close_ends_a_running_thread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
