/* SPDX-License-Identifier: MIT */
/*
 * A slow part holds nothing while it runs, and whatever happens meanwhile, the
 * effect of its command comes once: in order, or not at all.
 */
#include <pthread.h>

#include "failing_mem.h"
#include "inbox_life.h"

/* ---- what the slow part does ------------------------------------------- */

/* Of consumer a.  Its ctx is the script, which its handler shares. */
static struct {
    struct inbox_world *w;
    enum postbag_outcome outcome;
    void (*meanwhile)(
        struct inbox_world *w); /* the first time; NULL: nothing */
    int kill;
    int ran;
    unsigned attempt;
} slow;

static enum postbag_outcome run_slow(
    void *ctx, const struct postbag_command *cmd)
{
    void (*meanwhile)(struct inbox_world *) = slow.meanwhile;

    assert_ptr_equal(ctx, &script);
    slow.ran++;
    slow.attempt = cmd->attempt;
    slow.meanwhile = NULL;
    if (meanwhile != NULL)
        meanwhile(slow.w);
    if (slow.kill)
        (void)raise(SIGKILL);
    return slow.outcome;
}

static int set_up_slow(void **state)
{
    int err = set_up(state);
    struct inbox_world *w = *state;

    memset(&slow, 0, sizeof(slow));
    slow.w = w;
    w->consumers.list[0].slow = run_slow;
    return err;
}

static int run_and_fail(struct inbox_world *w)
{
    int64_t next_us;
    int did;
    int err = postbag__worker_run_one(w->worker, &did, &next_us);

    assert_int_not_equal(err, POSTBAG_OK);
    w->mono_us = next_us;
    return err;
}

static int64_t attempts(struct inbox_world *w)
{
    return temp_db_get(&w->t, "SELECT attempts FROM inbox WHERE id = '1'");
}

/* ---- nothing is held --------------------------------------------------- */

/* Each fails if the worker has a transaction or a statement open. */
static void write_and_checkpoint(struct inbox_world *w)
{
    w->t.db.busy_ms = 0;
    temp_db_run(&w->t, "BEGIN IMMEDIATE; UPDATE app SET n = n + 10; COMMIT");
    assert_int_equal(postbag__wal_truncate(&w->t.db), POSTBAG_OK);
}

static void test_handling_slow_holds_no_lock_and_no_snapshot(void **state)
{
    struct inbox_world *w = *state;

    slow.meanwhile = write_and_checkpoint;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(slow.ran, 1);
    assert_int_equal(script.ran, 1);
    assert_int_equal(effects(w), 11);
    assert_int_equal(in_state(w, "done"), 1);
    assert_int_equal(attempts(w), 1);
}

static void pass_the_gate(struct inbox_world *w)
{
    assert_int_equal(postbag__gate_enter(&w->shared, 0), POSTBAG_OK);
    postbag__gate_leave(&w->shared);
}

/* The gate lets in whoever comes when it is free. */
static void test_handling_slow_leaves_the_gate_and_comes_back(void **state)
{
    struct inbox_world *w = *state;

    assert_int_equal(
        w->port.gate_new(w->port.ctx, &w->shared.gate), POSTBAG_OK);
    slow.meanwhile = pass_the_gate;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 1);
    pass_the_gate(w);
    w->port.gate_free(w->port.ctx, w->shared.gate);
    w->shared.gate = NULL;
}

/* ---- what it is given -------------------------------------------------- */

/* Other statements of this connection and a writer of the table run between
 * the copy and the look at it. */
static enum postbag_outcome compare_all(
    void *ctx, const struct postbag_command *c)
{
    (void)ctx;
    temp_db_run(&slow.w->t, "UPDATE inbox SET seen = seen + 1");
    slow.ran++;
    assert_int_equal(c->struct_size, sizeof(*c));
    assert_string_equal(c->consumer, "a");
    assert_string_equal(c->source, "/scada");
    assert_memory_equal(c->id, "1", c->id_len);
    assert_int_equal(c->id_len, 1);
    assert_string_equal(c->topic, "cmd/a");
    assert_memory_equal(c->payload, "go\0on", c->payload_len);
    assert_int_equal(c->payload_len, 5);
    assert_string_equal(c->content_type, "text/plain");
    assert_string_equal(c->key, "k");
    assert_string_equal(c->response_topic, "re/1");
    assert_memory_equal(c->correlation, "\0\1", c->correlation_len);
    assert_int_equal(c->correlation_len, 2);
    assert_non_null(strstr(c->headers, "tracestate"));
    assert_string_equal(c->traceparent, "00-1");
    assert_string_equal(c->tracestate, "a=b");
    assert_string_equal(c->correlation_id, "c1");
    assert_int_equal(c->key_version, 7);
    assert_int_equal(c->order, POSTBAG_ORDER_FIRST);
    assert_int_equal(c->attempt, 1);
    assert_true(c->received_ms == slow.w->wall_ms);
    return POSTBAG_DONE;
}

static void test_handling_slow_is_given_the_whole_command(void **state)
{
    const struct postbag_property p[] = {{"id", "1"}, {"source", "/scada"},
        {"partitionkey", "k"}, {"keyversion", "7"}, {"traceparent", "00-1"},
        {"tracestate", "a=b"}, {"correlationid", "c1"}};
    const struct postbag_frame f = {.topic = "cmd/a",
        .payload = "go\0on",
        .payload_len = 5,
        .content_type = "text/plain",
        .response_topic = "re/1",
        .correlation = "\0\1",
        .correlation_len = 2,
        .properties = p,
        .property_count = sizeof(p) / sizeof(p[0])};
    struct inbox_world *w = *state;

    w->consumers.list[0].slow = compare_all;
    assert_int_equal(
        postbag__receiver_accept(w->receiver, w->generation, &f), POSTBAG_OK);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(slow.ran, 1);
    assert_int_equal(effects(w), 1);
}

static enum postbag_outcome compare_none(
    void *ctx, const struct postbag_command *c)
{
    (void)ctx;
    slow.ran++;
    assert_string_equal(c->source, "");
    assert_int_equal(c->payload_len, 0);
    assert_null(c->content_type);
    assert_null(c->key);
    assert_null(c->response_topic);
    assert_null(c->correlation);
    assert_null(c->traceparent);
    return POSTBAG_DONE;
}

static void test_handling_slow_is_given_null_for_what_is_not_there(void **state)
{
    const struct postbag_property id = {"id", "1"};
    const struct postbag_frame f = {
        .topic = "cmd/a", .properties = &id, .property_count = 1};
    struct inbox_world *w = *state;

    w->consumers.list[0].slow = compare_none;
    assert_int_equal(
        postbag__receiver_accept(w->receiver, w->generation, &f), POSTBAG_OK);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(slow.ran, 1);
    assert_int_equal(effects(w), 1);
}

static void test_handling_slow_without_memory_is_not_charged(void **state)
{
    struct inbox_world *w = *state;

    world_deliver(w, "1", NULL);
    mem_is_out = 1;
    assert_int_equal(run_and_fail(w), POSTBAG_ENOMEM);
    mem_is_out = 0;
    assert_int_equal(slow.ran, 0);
    world_pass_ms(w, WORLD_RETRY_BASE_MS); /* of the charge ahead */
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(slow.attempt, 1);
    assert_int_equal(script.attempt, 1);
    assert_int_equal(attempts(w), 1);
    assert_int_equal(effects(w), 1);
}

/* ---- outcomes ---------------------------------------------------------- */

static void test_handling_slow_retry_is_charged_and_comes_later(void **state)
{
    struct inbox_world *w = *state;

    slow.outcome = POSTBAG_RETRY;
    world_deliver(w, "1", NULL);
    for (int i = 1; i <= WORLD_MAX_ATTEMPTS; i++) {
        assert_int_equal(in_state(w, "due"), 1);
        assert_int_equal(world_run_one(w), 1);
        assert_int_equal(attempts(w), i);
        assert_int_equal(world_run_one(w), 0);
        world_pass_ms(w, 4 * WORLD_RETRY_BASE_MS);
    }
    assert_int_equal(in_state(w, "dead"), 1);
    expect_error(w, "slow part asked for another try");
    assert_int_equal(slow.ran, WORLD_MAX_ATTEMPTS);
    assert_int_equal(script.ran, 0);
}

static void test_handling_slow_reject_is_dead(void **state)
{
    struct inbox_world *w = *state;

    slow.outcome = POSTBAG_REJECT;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(in_state(w, "dead"), 1);
    assert_int_equal(attempts(w), 1);
    expect_error(w, "slow part rejected");
    assert_int_equal(script.ran, 0);
}

static void test_handling_slow_runs_again_when_its_handler_retries(void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_RETRY;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 0);
    script.outcome = POSTBAG_DONE;
    world_pass_ms(w, WORLD_RETRY_BASE_MS);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(slow.ran, 2);
    assert_int_equal(slow.attempt, 2);
    assert_int_equal(script.attempt, 2);
    assert_int_equal(effects(w), 1);
    assert_int_equal(attempts(w), 2);
}

static void pass_a_minute(struct inbox_world *w)
{
    world_pass_ms(w, 60000);
}

static void test_handling_slow_begun_in_time_is_brought_to_its_end(void **state)
{
    const struct postbag_property id = {"id", "1"};
    const struct postbag_frame f = {.topic = "cmd/a",
        .properties = &id,
        .property_count = 1,
        .expiry_s = 10};
    struct inbox_world *w = *state;

    slow.meanwhile = pass_a_minute;
    assert_int_equal(
        postbag__receiver_accept(w->receiver, w->generation, &f), POSTBAG_OK);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 1);
    assert_int_equal(in_state(w, "done"), 1);
}

/* ---- somebody else has it ---------------------------------------------- */

static void discard(struct inbox_world *w)
{
    temp_db_run(&w->t, "UPDATE inbox SET state = 'done', error = 'discarded',"
                       " payload = NULL, due_ms = NULL, due_boot = NULL");
}

static void test_handling_slow_of_a_discarded_command_is_in_vain(void **state)
{
    struct inbox_world *w = *state;

    slow.meanwhile = discard;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.ran, 0);
    expect_error(w, "discarded");
    assert_int_equal(world_run_one(w), 0);
    world_deliver(w, "2", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_string_equal(script.ids, "2 ");
}

static void test_handling_slow_that_failed_in_vain_kills_nothing(void **state)
{
    struct inbox_world *w = *state;

    slow.meanwhile = discard;
    slow.outcome = POSTBAG_REJECT;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(in_state(w, "done"), 1);
    expect_error(w, "discarded");
}

/* As another process with the same consumer does. */
static void handle_in_another_worker(struct inbox_world *w)
{
    struct worker *mine = w->worker;

    world_pass_ms(w, WORLD_RETRY_BASE_MS); /* of the charge ahead */
    world_open_worker(w, "");
    assert_int_equal(world_run_one(w), 1);
    postbag__worker_close(w->worker);
    w->worker = mine;
}

static void test_handling_slow_in_two_workers_has_one_effect(void **state)
{
    struct inbox_world *w = *state;

    slow.meanwhile = handle_in_another_worker;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(slow.ran, 2);
    assert_int_equal(script.ran, 1);
    assert_int_equal(effects(w), 1);
    assert_int_equal(in_state(w, "done"), 1);
    assert_int_equal(world_run_one(w), 0);
}

static void requeue_the_elder(struct inbox_world *w)
{
    temp_db_run(&w->t, "UPDATE inbox SET state = 'due', attempts = 0,"
                       " processed_ms = NULL WHERE id = '0'");
}

static void test_handling_slow_lets_a_requeued_elder_go_first(void **state)
{
    struct inbox_world *w = *state;

    world_deliver(w, "0", "k");
    temp_db_run(&w->t, "UPDATE inbox SET state = 'dead'");
    world_deliver(w, "1", "k");
    slow.meanwhile = requeue_the_elder;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.ran, 0);
    while (world_run_one(w))
        ;
    assert_string_equal(script.ids, "0 1 ");
    assert_int_equal(slow.ran, 3);
    /* what ran in vain does not count */
    assert_int_equal(attempts(w), 1);
}

/* ---- the process ends -------------------------------------------------- */

static void test_handling_slow_killer_is_dead_after_max_attempts(void **state)
{
    struct inbox_world *w = *state;
    int deaths = 0;

    slow.kill = 1;
    world_deliver(w, "1", "k");
    while (!live(w, SIGKILL)) {
        assert_true(++deaths < 100);
        world_pass_ms(w, 4 * WORLD_RETRY_BASE_MS);
    }
    assert_int_equal(deaths, WORLD_MAX_ATTEMPTS);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT attempts FROM inbox WHERE state = 'dead'"
                           " AND error LIKE 'the process ended while%'"),
        WORLD_MAX_ATTEMPTS);
}

/* ---- the lock is busy when it ends ------------------------------------- */

static pthread_t owner;

static void *let_go(void *arg)
{
    const struct timespec longer = {
        .tv_sec = 1, .tv_nsec = 400000000}; /* than for a quick one */

    (void)nanosleep(&longer, NULL);
    temp_db_run(&((struct inbox_world *)arg)->t, "COMMIT");
    return NULL;
}

static void lock_for_long(struct inbox_world *w)
{
    temp_db_run(&w->t, "BEGIN IMMEDIATE");
    assert_int_equal(pthread_create(&owner, NULL, let_go, w), 0);
}

static void test_handling_slow_waits_for_a_lock_longer_than_others(void **state)
{
    struct inbox_world *w = *state;

    slow.meanwhile = lock_for_long;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(pthread_join(owner, NULL), 0);
    assert_int_equal(slow.ran, 1);
    assert_int_equal(effects(w), 1);
}

#define SLOW(name) cmocka_unit_test_setup_teardown(name, set_up_slow, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SLOW(test_handling_slow_holds_no_lock_and_no_snapshot),
        SLOW(test_handling_slow_leaves_the_gate_and_comes_back),
        SLOW(test_handling_slow_is_given_the_whole_command),
        SLOW(test_handling_slow_is_given_null_for_what_is_not_there),
        SLOW(test_handling_slow_without_memory_is_not_charged),
        SLOW(test_handling_slow_retry_is_charged_and_comes_later),
        SLOW(test_handling_slow_reject_is_dead),
        SLOW(test_handling_slow_runs_again_when_its_handler_retries),
        SLOW(test_handling_slow_begun_in_time_is_brought_to_its_end),
        SLOW(test_handling_slow_of_a_discarded_command_is_in_vain),
        SLOW(test_handling_slow_that_failed_in_vain_kills_nothing),
        SLOW(test_handling_slow_in_two_workers_has_one_effect),
        SLOW(test_handling_slow_lets_a_requeued_elder_go_first),
        SLOW(test_handling_slow_killer_is_dead_after_max_attempts),
        SLOW(test_handling_slow_waits_for_a_lock_longer_than_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
