/* SPDX-License-Identifier: MIT */
/* The receiver's process is killed; two receivers take the same command. */
#include "inbox_world.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static enum postbag_outcome never(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    (void)ctx;
    (void)cmd;
    (void)w;
    fail_msg("the receiver does not run handlers");
    return POSTBAG_RETRY;
}

static int set_up(void **state)
{
    struct inbox_world *w = world_new();

    world_add(w, "a", "cmd/a/#", never, NULL);
    world_add(w, "b", "cmd/+", never, NULL);
    world_open_receiver(w, 100);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    world_free(*state);
    return 0;
}

/* Only consumer b. */
static int deliver(struct inbox_world *w, const char *id, const char *payload)
{
    return world_deliver_on(w, "cmd/x", id, NULL, payload);
}

static int64_t rows(struct inbox_world *w)
{
    return temp_db_get(&w->t, "SELECT count(*) FROM inbox");
}

/* ---- crash ------------------------------------------------------------- */

static const char *crash_point;

static void crash(void *ctx, const char *point)
{
    (void)ctx;
    if (strcmp(point, crash_point) == 0)
        (void)raise(SIGKILL);
}

/* A process of its own accepts one command and dies at the point; its exit
 * status if it does not.  The acknowledged one leaves through exit(0). */
static int accept_and_die(struct inbox_world *w, const char *point)
{
    pid_t child;
    int status;

    crash_point = point;
    postbag__receiver_close(w->receiver);
    w->receiver = NULL;
    postbag__db_close(&w->t.db);
    child = fork();
    if (child == 0) {
        w->port.hook = crash;
        world_open_receiver(w, 100);
        _exit(deliver(w, "1", "open") == POSTBAG_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(
        postbag__db_open(&w->t.db, w->t.path, DB_WRITE, DB_NORMAL, 1000),
        POSTBAG_OK);
    return status;
}

static void test_receiver_killed_before_commit_has_stored_nothing(void **state)
{
    int status = accept_and_die(*state, "accept.stored");

    assert_true(WIFSIGNALED(status));
    assert_int_equal(rows(*state), 0);
}

static void test_receiver_killed_after_commit_has_stored_all(void **state)
{
    int status = accept_and_die(*state, "accept.committed");

    assert_true(WIFSIGNALED(status));
    assert_int_equal(rows(*state), 1);
}

static void test_receiver_acknowledged_command_outlives_its_process(
    void **state)
{
    int status = accept_and_die(*state, "nowhere");

    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(rows(*state), 1);
}

/* ---- two receivers ----------------------------------------------------- */

enum { RACES = 100 };

struct racer {
    struct inbox_world *w;
    struct receiver *receiver;
    pthread_barrier_t *line;
    int failed;
};

/* Each id is delivered by both at the same moment. */
static void *race(void *arg)
{
    struct racer *me = arg;

    for (int i = 0; i < RACES; i++) {
        char id[12];
        const struct postbag_property p[] = {{"id", id}};
        const struct postbag_frame f = {
            .topic = "cmd/x", .properties = p, .property_count = 1};

        (void)snprintf(id, sizeof(id), "%d", i);
        (void)pthread_barrier_wait(me->line);
        if (postbag__receiver_accept(me->receiver, 1, &f) != POSTBAG_OK)
            me->failed++;
    }
    return NULL;
}

static void test_receiver_two_at_once_make_one_row_of_an_id(void **state)
{
    struct inbox_world *w = *state;
    pthread_barrier_t line;
    struct racer racers[2];
    pthread_t threads[2];

    assert_int_equal(pthread_barrier_init(&line, NULL, 2), 0);
    for (int i = 0; i < 2; i++) {
        postbag__receiver_close(w->receiver);
        world_open_receiver(w, 1000);
        racers[i] = (struct racer){w, w->receiver, &line, 0};
        w->receiver = NULL;
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    for (int i = 0; i < 2; i++) {
        struct receiver_counts c;

        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(racers[i].failed, 0);
        postbag__receiver_counts(racers[i].receiver, &c);
        assert_int_equal(c.accepted + c.duplicates, RACES);
        postbag__receiver_close(racers[i].receiver);
    }
    (void)pthread_barrier_destroy(&line);
    assert_int_equal(rows(w), RACES);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT count(*) FROM inbox WHERE seen = 2"), RACES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_receiver_killed_before_commit_has_stored_nothing),
        TEST(test_receiver_killed_after_commit_has_stored_all),
        TEST(test_receiver_acknowledged_command_outlives_its_process),
        TEST(test_receiver_two_at_once_make_one_row_of_an_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
