/* SPDX-License-Identifier: MIT */
/*
 * A handler that ends the process: its command is charged an attempt and ends
 * among the dead, others go on, and who lives pays next to nothing for it.
 */
#include "file_limit.h"
#include "inbox_life.h"

/* ---- lives ------------------------------------------------------------- */

/* Of the command with this id the handler ends the process. */
static char deadly;

static enum postbag_outcome die_or(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    if (cmd->id_len == 1 && *(const char *)cmd->id == deadly) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)raise(SIGSEGV);
    }
    return handle(ctx, cmd, w);
}

static int set_up_lives(void **state)
{
    int err = set_up(state);
    struct inbox_world *w = *state;

    for (size_t i = 0; i < w->consumers.count; i++)
        w->consumers.list[i].handler = die_or;
    deadly = 'x';
    return err;
}

/* Lives until one is survived; how many were not. */
static int count_deaths(struct inbox_world *w)
{
    int deaths = 0;

    while (!live(w, SIGSEGV)) {
        assert_true(++deaths < 100);
        world_pass_ms(w, 4 * WORLD_RETRY_BASE_MS);
    }
    return deaths;
}

static void test_handling_trial_killer_is_dead_after_max_attempts(void **state)
{
    struct inbox_world *w = *state;

    world_deliver(w, "x", "k");
    world_deliver(w, "1", "k");
    assert_int_equal(count_deaths(w), WORLD_MAX_ATTEMPTS);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT attempts FROM inbox WHERE id = 'x'"
                           " AND state = 'dead' AND payload NOT NULL"
                           " AND error LIKE 'the process ended while%'"),
        WORLD_MAX_ATTEMPTS);
    /* and its key goes on */
    assert_int_equal(effects(w), 1);
    assert_int_equal(in_state(w, "done"), 1);
}

/* After a crash it waits like any other retry, so that each life does some
 * work first. */
static void test_handling_trial_killer_holds_up_no_others(void **state)
{
    struct inbox_world *w = *state;

    world_deliver(w, "x", "k");
    world_deliver(w, "1", "other");
    assert_int_equal(world_deliver_on(w, "cmd/b", "2", "k", "go"), POSTBAG_OK);
    assert_int_equal(live(w, SIGSEGV), 0);
    assert_int_equal(live(w, SIGSEGV), 1);
    assert_int_equal(in_state(w, "done"), 2);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT attempts FROM inbox WHERE id = 'x'"
                           " AND state = 'due'"),
        1);
}

/* Others that were never tried are handled before it in each life, and one
 * that is tried again and again, too; it is charged all the same. */
static void test_handling_trial_killer_behind_others_is_found(void **state)
{
    struct inbox_world *w = *state;

    script.refuse = "0";
    world_deliver(w, "0", "a");
    world_deliver(w, "1", "b");
    world_deliver(w, "2", "b");
    world_deliver(w, "x", "c");
    assert_int_equal(count_deaths(w), 1 + WORLD_MAX_ATTEMPTS);
    assert_int_equal(
        temp_db_get(&w->t,
            "SELECT count(*) FROM inbox WHERE id = 'x'"
            " AND state = 'dead' AND error LIKE 'the process ended%'"),
        1);
    assert_int_equal(effects(w), 2);
}

/* ---- what it costs those who live --------------------------------------- */

/* What another process sees of the command while its handler runs. */
static int64_t attempts_seen;

static enum postbag_outcome look_at_attempts(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    struct inbox_world *world = ctx;
    char sql[100];

    (void)w;
    (void)snprintf(sql, sizeof(sql),
        "SELECT attempts FROM inbox WHERE arrival = %lld",
        (long long)cmd->arrival);
    attempts_seen = temp_db_get(&world->t, sql);
    script.attempt = cmd->attempt;
    return script.outcome;
}

static void expect_charged_ahead(struct inbox_world *w, int64_t attempts)
{
    attempts_seen = -1;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(attempts_seen, attempts);
}

static void test_handling_trial_only_the_suspicious_are_charged(void **state)
{
    struct inbox_world *w = *state;

    for (size_t i = 0; i < w->consumers.count; i++) {
        w->consumers.list[i].handler = look_at_attempts;
        w->consumers.list[i].ctx = w;
    }
    world_deliver(w, "1", NULL);
    expect_charged_ahead(w, 1);
    world_deliver(w, "2", NULL);
    expect_charged_ahead(w, 0);
    script.outcome = POSTBAG_RETRY;
    world_deliver(w, "3", NULL);
    expect_charged_ahead(w, 0);
    world_pass_ms(w, WORLD_RETRY_BASE_MS);
    script.outcome = POSTBAG_DONE;
    expect_charged_ahead(w, 2);
    assert_int_equal(script.attempt, 2);
    /* another consumer has not come back from anything yet */
    assert_int_equal(world_deliver_on(w, "cmd/b", "4", NULL, "go"), POSTBAG_OK);
    expect_charged_ahead(w, 1);
    assert_int_equal(in_state(w, "done"), 4);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT sum(attempts) FROM inbox"), 1 + 1 + 2 + 1);
}

/* ---- the storage -------------------------------------------------------- */

static void fill_disk(void *ctx, const char *point)
{
    (void)ctx;
    if (strcmp(point, "handle.begun") == 0)
        limit_files(1);
    else if (strcmp(point, "handle.committed") == 0)
        limit_files(RLIM_INFINITY);
}

static void test_handling_trial_failed_commit_is_not_charged(void **state)
{
    struct inbox_world *w = *state;
    int64_t next_us;
    int did;

    world_deliver(w, "1", NULL);
    w->port.hook = fill_disk;
    assert_int_equal(
        postbag__worker_run_one(w->worker, &did, &next_us), POSTBAG_EIO);
    w->port.hook = NULL;
    assert_int_equal(script.ran, 1);
    assert_int_equal(effects(w), 0);
    world_pass_ms(w, 4 * WORLD_RETRY_BASE_MS);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.attempt, 1);
    assert_int_equal(effects(w), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT attempts FROM inbox"), 1);
}

/* Nothing is known of a charge whose commit failed, so nothing runs on it. */
static void test_handling_trial_no_handler_without_its_charge(void **state)
{
    struct inbox_world *w = *state;
    int64_t next_us;
    int did;
    int err;

    world_deliver(w, "1", NULL);
    limit_files(1);
    err = postbag__worker_run_one(w->worker, &did, &next_us);
    limit_files(RLIM_INFINITY);
    assert_int_equal(err, POSTBAG_EIO);
    assert_int_equal(script.ran, 0);
    w->mono_us = next_us;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.attempt, 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT attempts FROM inbox"), 1);
}

#define LIVES(name) \
    cmocka_unit_test_setup_teardown(name, set_up_lives, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVES(test_handling_trial_killer_is_dead_after_max_attempts),
        LIVES(test_handling_trial_killer_holds_up_no_others),
        LIVES(test_handling_trial_killer_behind_others_is_found),
        TEST(test_handling_trial_only_the_suspicious_are_charged),
        TEST(test_handling_trial_failed_commit_is_not_charged),
        TEST(test_handling_trial_no_handler_without_its_charge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
