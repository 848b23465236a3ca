/* SPDX-License-Identifier: MIT */
/*
 * A handler's effects, its messages and the mark of its command are one
 * transaction, whatever the handler, the storage or a crash does to it.
 */
#include <sys/wait.h>

#include "file_limit.h"
#include "inbox_script.h"

/* ---- outcomes --------------------------------------------------------- */

static void test_handling_done_commits_effect_mark_and_message(void **state)
{
    struct inbox_world *w = *state;

    script.put = 1;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 1);
    assert_int_equal(in_state(w, "done"), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM outbox"), 1);
    assert_int_equal(world_run_one(w), 0);
    assert_int_equal(script.ran, 1);
}

/* Else the connection would keep its snapshot and see no later command. */
static void test_handling_a_statement_left_open_holds_up_nothing(void **state)
{
    struct inbox_world *w = *state;

    script.open_sql = "SELECT n FROM app";
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(sqlite3_stmt_busy(script.open), 0);
    (void)sqlite3_finalize(script.open);
    script.open_sql = NULL;
    world_deliver(w, "2", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 2);
    assert_int_equal(in_state(w, "done"), 2);
}

/* json_object in a trigger is refused under trusted_schema=OFF. */
static void test_handling_runs_the_applications_own_triggers(void **state)
{
    struct inbox_world *w = *state;

    temp_db_run(&w->t, "CREATE TABLE told(json);"
                       "CREATE TRIGGER tell AFTER UPDATE ON app BEGIN"
                       " INSERT INTO told VALUES (json_object('a', 1)); END");
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM told"), 1);
    assert_int_equal(in_state(w, "done"), 1);
}

/* The relay need not sync the WAL for rows that a FULL commit brought. */
static void test_handling_done_tells_the_relay(void **state)
{
    struct inbox_world *w = *state;
    const struct postbag_port *port = postbag_linux_port();

    script.put = 1;
    world_deliver(w, "1", NULL);
    assert_int_equal(postbag__is_durable(&w->shared, 1), 0);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(postbag__is_durable(&w->shared, 1), 1);
    assert_int_equal(port->wait(port->ctx, w->shared.wake, 0), POSTBAG_WOKEN);
}

static void test_handling_retry_undoes_and_comes_back_later(void **state)
{
    struct inbox_world *w = *state;
    int64_t next_us;
    int did;

    script.outcome = POSTBAG_RETRY;
    script.put = 1;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 0);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM outbox"), 0);
    expect_error(w, "another try");
    assert_int_equal(
        postbag__worker_run_one(w->worker, &did, &next_us), POSTBAG_OK);
    assert_int_equal(did, 0);
    assert_true(next_us == w->mono_us + WORLD_RETRY_BASE_MS * 1000);
    world_pass_ms(w, WORLD_RETRY_BASE_MS - 1);
    assert_int_equal(world_run_one(w), 0);
    world_pass_ms(w, 1);
    script.outcome = POSTBAG_DONE;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.attempt, 2);
    assert_int_equal(effects(w), 1);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT attempts FROM inbox"
                           " WHERE state = 'done' AND error IS NULL"),
        2);
}

static void test_handling_retry_is_dead_after_max_attempts(void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_RETRY;
    world_deliver(w, "1", NULL);
    for (int i = 0; i < WORLD_MAX_ATTEMPTS; i++) {
        assert_int_equal(in_state(w, "due"), 1);
        assert_int_equal(world_run_one(w), 1);
        world_pass_ms(w, 4 * WORLD_RETRY_BASE_MS);
    }
    assert_int_equal(in_state(w, "dead"), 1);
    assert_int_equal(world_run_one(w), 0);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT attempts FROM inbox"), WORLD_MAX_ATTEMPTS);
    /* kept whole, for whoever repairs it */
    assert_int_equal(
        temp_db_get(&w->t, "SELECT payload = x'676f' FROM inbox"), 1);
}

static void test_handling_reject_undoes_and_is_dead(void **state)
{
    struct inbox_world *w = *state;

    script.outcome = POSTBAG_REJECT;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 0);
    assert_int_equal(in_state(w, "dead"), 1);
    expect_error(w, "rejected");
    assert_int_equal(world_run_one(w), 0);
}

/* ---- handlers that go astray ------------------------------------------- */

static void test_handling_handler_cannot_end_the_transaction(void **state)
{
    static const char *const all[] = {"COMMIT", "ROLLBACK", "BEGIN",
        "SAVEPOINT s", "ATTACH ':memory:' AS m", "END"};
    struct inbox_world *w = *state;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char id[2] = {(char)('1' + (int)i), '\0'};

        script.sql = all[i];
        world_deliver(w, id, NULL);
        assert_int_equal(world_run_one(w), 1);
        if (script.rc != SQLITE_AUTH)
            fail_msg("%s gave %d", all[i], script.rc);
    }
    assert_int_equal(in_state(w, "done"), 6);
}

/* The statement ends the transaction by its conflict clause, which nothing
 * denies; what the handler writes after it would commit on its own. */
static void test_handling_lost_transaction_leaves_no_effect(void **state)
{
    struct inbox_world *w = *state;

    temp_db_run(&w->t, "CREATE UNIQUE INDEX one ON app(n)");
    script.sql = "INSERT OR ROLLBACK INTO app VALUES (0)";
    script.put = 0;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.rc & 0xff, SQLITE_CONSTRAINT);
    assert_int_equal(in_state(w, "due"), 1);
    expect_error(w, "rolled back");
    script.sql = "INSERT OR ROLLBACK INTO app VALUES (5), (5)";
    world_pass_ms(w, WORLD_RETRY_BASE_MS);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM app"), 1);
}

static enum postbag_outcome lose_then_write(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    sqlite3 *db = postbag_writer_db(w);

    (void)ctx;
    (void)cmd;
    (void)sqlite3_exec(
        db, "INSERT OR ROLLBACK INTO app VALUES (0)", NULL, NULL, NULL);
    assert_int_equal(sqlite3_get_autocommit(db), 1);
    assert_int_equal(sqlite3_exec(db, effect, NULL, NULL, NULL),
        SQLITE_CONSTRAINT_COMMITHOOK);
    return POSTBAG_DONE;
}

static void test_handling_write_after_lost_transaction_is_refused(void **state)
{
    struct inbox_world *w = *state;

    temp_db_run(&w->t, "CREATE UNIQUE INDEX one ON app(n)");
    w->consumers.list[0].handler = lose_then_write;
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 0);
    assert_int_equal(in_state(w, "due"), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT attempts FROM inbox"), 1);
}

/* The commit fails for what the handler wrote, so the handler is charged. */
static void test_handling_effect_that_cannot_commit_is_a_retry(void **state)
{
    struct inbox_world *w = *state;

    temp_db_run(&w->t, "CREATE TABLE parent(id INTEGER PRIMARY KEY);"
                       "CREATE TABLE child(id INTEGER REFERENCES parent"
                       " DEFERRABLE INITIALLY DEFERRED)");
    world_deliver(w, "0", NULL);
    assert_int_equal(world_run_one(w), 1);
    /* on the worker's connection, between two commands */
    assert_int_equal(
        sqlite3_exec(script.db, "PRAGMA foreign_keys = ON", NULL, NULL, NULL),
        SQLITE_OK);
    script.sql = "INSERT INTO child VALUES (77)";
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.rc, SQLITE_OK);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT attempts FROM inbox WHERE id = '1'"
                           " AND state = 'due' AND error LIKE '%FOREIGN%'"),
        1);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM child"), 0);
}

/* ---- storage errors ---------------------------------------------------- */

static void test_handling_busy_database_charges_nothing_and_pauses(void **state)
{
    struct inbox_world *w = *state;
    int64_t next_us;
    int did;

    world_deliver(w, "1", NULL);
    temp_db_run(&w->t, "BEGIN IMMEDIATE");
    assert_int_equal(
        postbag__worker_run_one(w->worker, &did, &next_us), POSTBAG_EBUSY);
    assert_int_equal(did, 0);
    assert_true(next_us > w->mono_us);
    temp_db_run(&w->t, "COMMIT");
    assert_int_equal(world_run_one(w), 0);
    w->mono_us = next_us;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.attempt, 1);
    assert_int_equal(effects(w), 1);
}

/* Only the commit itself fails: the disk has room again right after it. */
static void lift_limit(void *ctx, const char *point)
{
    (void)ctx;
    if (strcmp(point, "handle.committed") == 0)
        limit_files(RLIM_INFINITY);
}

static void test_handling_failed_commit_charges_nothing_and_is_tried_again(
    void **state)
{
    struct inbox_world *w = *state;
    int64_t next_us;
    int did;
    int err;

    prove_handler(w);
    script.put = 1;
    world_deliver(w, "1", NULL);
    w->port.hook = lift_limit;
    limit_files(1);
    err = postbag__worker_run_one(w->worker, &did, &next_us);
    limit_files(RLIM_INFINITY);
    assert_int_equal(err, POSTBAG_EIO);
    assert_int_equal(script.ran, 1);
    assert_int_equal(effects(w), 0);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM outbox"), 0);
    assert_int_equal(postbag__is_durable(&w->shared, 1), 0);
    assert_int_equal(world_run_one(w), 0);
    w->mono_us = next_us;
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(script.attempt, 1);
    assert_int_equal(effects(w), 1);
}

/* ---- crash ------------------------------------------------------------- */

static const char *crash_point;

static void crash(void *ctx, const char *point)
{
    (void)ctx;
    if (strcmp(point, crash_point) == 0)
        (void)raise(SIGKILL);
}

static void close_all(struct inbox_world *w)
{
    postbag__receiver_close(w->receiver);
    postbag__worker_close(w->worker);
    postbag__db_close(&w->t.db);
    w->receiver = NULL;
    w->worker = NULL;
}

/* A process of its own handles one command and is killed at the point, or in
 * the handler. */
static void handle_and_die(struct inbox_world *w, const char *point)
{
    pid_t child;
    int status;

    script.put = 1;
    world_deliver(w, "1", NULL);
    close_all(w);
    crash_point = point;
    child = fork();
    if (child == 0) {
        w->port.hook = crash;
        world_open_worker(w, "");
        _exit(world_run_one(w));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(
        postbag__db_open(&w->t.db, w->t.path, DB_WRITE, DB_NORMAL, 1000),
        POSTBAG_OK);
    world_restart(w);
}

static void expect_nothing_happened(struct inbox_world *w)
{
    assert_int_equal(effects(w), 0);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM outbox"), 0);
    assert_int_equal(in_state(w, "due"), 1);
    script.kill = 0;
    /* it was the first of its process, so it reads like a failed try */
    assert_int_equal(temp_db_get(&w->t, "SELECT attempts FROM inbox"), 1);
    world_pass_ms(w, WORLD_RETRY_BASE_MS);
    assert_int_equal(world_run_one(w), 1);
    assert_int_equal(effects(w), 1);
}

static void test_handling_killed_in_handler_has_no_effect(void **state)
{
    script.kill = 1;
    handle_and_die(*state, "");
    expect_nothing_happened(*state);
}

static void test_handling_killed_before_commit_has_no_effect(void **state)
{
    handle_and_die(*state, "handle.marked");
    expect_nothing_happened(*state);
}

static void test_handling_killed_after_commit_has_one_effect(void **state)
{
    struct inbox_world *w = *state;

    handle_and_die(w, "handle.committed");
    assert_int_equal(effects(w), 1);
    assert_int_equal(temp_db_get(&w->t, "SELECT count(*) FROM outbox"), 1);
    world_deliver(w, "1", NULL);
    assert_int_equal(world_run_one(w), 0);
    assert_int_equal(effects(w), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_handling_done_commits_effect_mark_and_message),
        TEST(test_handling_done_tells_the_relay),
        TEST(test_handling_runs_the_applications_own_triggers),
        TEST(test_handling_a_statement_left_open_holds_up_nothing),
        TEST(test_handling_retry_undoes_and_comes_back_later),
        TEST(test_handling_retry_is_dead_after_max_attempts),
        TEST(test_handling_reject_undoes_and_is_dead),
        TEST(test_handling_handler_cannot_end_the_transaction),
        TEST(test_handling_lost_transaction_leaves_no_effect),
        TEST(test_handling_write_after_lost_transaction_is_refused),
        TEST(test_handling_effect_that_cannot_commit_is_a_retry),
        TEST(test_handling_busy_database_charges_nothing_and_pauses),
        TEST(test_handling_failed_commit_charges_nothing_and_is_tried_again),
        TEST(test_handling_killed_in_handler_has_no_effect),
        TEST(test_handling_killed_before_commit_has_no_effect),
        TEST(test_handling_killed_after_commit_has_one_effect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
