/* SPDX-License-Identifier: MIT */
/* Whose turn it is: order, retry times, the thread, and two workers. */
#include "inbox_script.h"

#include <pthread.h>

/* ---- retry times ------------------------------------------------------ */

static void test_worker_duplicate_of_done_is_not_handled_again(void **state)
{
    struct inbox_world *w = *state;

    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 0);
    assert_int_equal(effects(w), 1);
}

static void test_worker_retry_waits_twice_as_long_each_time(void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_RETRY;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    world_pass_ms(w, WORLD_RETRY_BASE_MS);
    assert_int_equal(world_run_one(w), 1);
    world_pass_ms(w, 2 * WORLD_RETRY_BASE_MS - 1);
    assert_int_equal(world_run_one(w), 0);
    world_pass_ms(w, 1);
    assert_int_equal(world_run_one(w), 1);
}

static void test_worker_retry_time_of_other_boot_has_come(void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_RETRY;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    w->boot = 2;
    w->mono_us = 1000;
    world_restart(w);
    script.outcome = POSTBAG_DONE;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 1);
}

/* As in a container whose time namespace is made anew. */
static void test_worker_retry_time_of_a_clock_that_begins_anew_has_come(
    void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_RETRY;
    w->mono_us = INT64_C(10000000000);
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    w->mono_us = 1000;
    world_restart(w);
    script.outcome = POSTBAG_DONE;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 1);
}

/* ---- order ------------------------------------------------------------- */

static void test_worker_key_is_handled_in_order_of_arrival(void **state)
{
    struct inbox_world *w = *state;

    script.refuse = "1";
    world_deliver(w, "1", "k");
    world_deliver(w, "2", "k");
    world_deliver(w, "3", "other");
    world_deliver(w, "4", NULL);
    while (world_run_one(w))
        ;
    assert_string_equal(script.ids, "1 3 4 ");
    script.refuse = NULL;
    world_pass_ms(w, WORLD_RETRY_BASE_MS);
    while (world_run_one(w))
        ;
    assert_string_equal(script.ids, "1 3 4 1 2 ");
}

static void test_worker_dead_command_lets_its_key_go_on(void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_REJECT;
    world_deliver(w, "1", "k");
    world_deliver(w, "2", "k");
    assert_int_equal(world_run_one(w), 1);
    script.outcome = POSTBAG_DONE;
    assert_int_equal(world_run_one(w), 1);
    assert_string_equal(script.ids, "1 2 ");
}

static void test_worker_poison_of_one_consumer_holds_no_other(void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_RETRY;
    world_deliver(w, "1", "k");
    assert_int_equal(world_deliver_on(w, "cmd/b", "2", "k", "go"), POSTBAG_OK);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(world_run_one(w), 1);
    assert_string_equal(other.ids, "2 ");
}

static void test_worker_consumers_take_turns(void **state)
{
    struct inbox_world *w = *state;

    for (int i = 0; i < 4; i++) {
        char id[2] = {(char)('1' + i), '\0'};

        world_deliver(w, id, NULL);
        assert_int_equal(
            world_deliver_on(w, "cmd/b", id, NULL, "go"), POSTBAG_OK);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.ran, 2);
    assert_int_equal(other.ran, 2);
}

/* A row whose own time has come but whose elder's has not is no reason to
 * look again at once. */
static void test_worker_blocked_row_does_not_keep_it_awake(void **state)
{
    struct inbox_world *w = *state;
    int64_t next_us;
    int did;

    script.outcome = POSTBAG_RETRY;
    world_deliver(w, "1", "k");
    assert_int_equal(world_run_one(w), 1);
    world_deliver(w, "2", "k");
    temp_db_run(&w->t, "UPDATE inbox SET due_ms = 60000,"
                       " due_boot = (SELECT due_boot FROM inbox LIMIT 1)"
                       " WHERE id = '2'");
    assert_int_equal(
        postbag__worker_run_one(w->worker, &did, &next_us), POSTBAG_OK);
    assert_int_equal(did, 0);
    assert_true(next_us == w->mono_us + WORLD_RETRY_BASE_MS * 1000);
}

/* ---- the thread, and two of them --------------------------------------- */

static void run_loop_until_done(struct inbox_world *w, int64_t wanted)
{
    const struct postbag_port *port = postbag_linux_port();
    int64_t deadline = port->mono_us(port->ctx) + 20000000;
    struct postbag_thread *thread;

    assert_int_equal(port->thread_start(port->ctx, &thread, "worker", 1,
                         postbag__worker_loop, w->worker),
        POSTBAG_OK);
    while (in_state(w, "done") < wanted) {
        if (port->mono_us(port->ctx) > deadline)
            fail_msg("the loop did not handle the commands");
        (void)port->wait(
            port->ctx, w->shared.wake, port->mono_us(port->ctx) + 1000);
    }
    postbag__worker_stop(w->worker);
    port->thread_join(port->ctx, thread);
}

static void test_worker_loop_handles_stops_and_starts_again(void **state)
{
    struct inbox_world *w = *state;

    world_deliver(w, "1", NULL);
    world_deliver(w, "2", NULL);
    run_loop_until_done(w, 2);
    world_deliver(w, "3", NULL);
    run_loop_until_done(w, 3);
    assert_string_equal(script.ids, "1 2 3 ");
}

static void test_worker_idle_loop_ends_at_once_when_stopped(void **state)
{
    struct inbox_world *w = *state;

    postbag__worker_stop(w->worker);
    postbag__worker_loop(w->worker);
    assert_int_equal(script.ran, 0);
}

/* Touches nothing that two threads share but the database. */
static enum postbag_outcome apply(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    (void)ctx;
    (void)cmd;
    return sqlite3_exec(postbag_writer_db(w), effect, NULL, NULL, NULL) ==
                   SQLITE_OK
               ? POSTBAG_DONE
               : POSTBAG_RETRY;
}

struct rival {
    struct worker *worker;
    int failed;
};

static void *work_to_the_end(void *arg)
{
    struct rival *me = arg;
    int did = 1;

    while (did) {
        int64_t next_us;

        if (postbag__worker_run_one(me->worker, &did, &next_us) != POSTBAG_OK)
            me->failed++;
    }
    return NULL;
}

/* Two processes may run workers on one database. */
static void test_worker_two_handle_each_command_once(void **state)
{
    enum { COMMANDS = 60 };
    struct inbox_world *w = *state;
    struct rival rivals[2];
    pthread_t threads[2];

    w->consumers.list[0].handler = apply;
    for (int i = 0; i < COMMANDS; i++) {
        char id[12];

        (void)snprintf(id, sizeof(id), "%d", i);
        world_deliver(w, id, i % 2 == 0 ? "k" : NULL);
    }
    for (int i = 0; i < 2; i++) {
        postbag__worker_close(w->worker);
        world_open_worker(w, "");
        rivals[i] = (struct rival){w->worker, 0};
        w->worker = NULL;
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, work_to_the_end, &rivals[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(rivals[i].failed, 0);
        postbag__worker_close(rivals[i].worker);
    }
    assert_int_equal(in_state(w, "done"), COMMANDS);
    assert_int_equal(effects(w), COMMANDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_worker_duplicate_of_done_is_not_handled_again),
        TEST(test_worker_retry_waits_twice_as_long_each_time),
        TEST(test_worker_retry_time_of_other_boot_has_come),
        TEST(test_worker_retry_time_of_a_clock_that_begins_anew_has_come),
        TEST(test_worker_key_is_handled_in_order_of_arrival),
        TEST(test_worker_dead_command_lets_its_key_go_on),
        TEST(test_worker_poison_of_one_consumer_holds_no_other),
        TEST(test_worker_consumers_take_turns),
        TEST(test_worker_blocked_row_does_not_keep_it_awake),
        TEST(test_worker_loop_handles_stops_and_starts_again),
        TEST(test_worker_idle_loop_ends_at_once_when_stopped),
        TEST(test_worker_two_handle_each_command_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
