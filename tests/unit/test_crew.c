/* SPDX-License-Identifier: MIT */
/* Each slow consumer has a worker of its own: it holds up no other. */
#include <pthread.h>

#include "crew.h"
#include "inbox_world.h"

#include <sqlite3.h>

/* ---- slow parts that wait for the test --------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int begun, may_end, ended, handled;

static void note(int *what)
{
    (void)pthread_mutex_lock(&lock);
    (*what)++;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

static void wait_for(const int *what, int wanted)
{
    struct timespec until;
    int rc = 0;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    (void)pthread_mutex_lock(&lock);
    while (*what < wanted && rc == 0)
        rc = pthread_cond_timedwait(&changed, &lock, &until);
    (void)pthread_mutex_unlock(&lock);
    assert_int_equal(rc, 0);
}

static enum postbag_outcome wait_to_end(
    void *ctx, const struct postbag_command *cmd)
{
    (void)ctx;
    (void)cmd;
    note(&begun);
    wait_for(&may_end, 1);
    note(&ended);
    return POSTBAG_DONE;
}

static enum postbag_outcome add_effect(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    (void)ctx;
    (void)cmd;
    assert_int_equal(sqlite3_exec(postbag_writer_db(w),
                         "UPDATE app SET n = n + 1", NULL, NULL, NULL),
        SQLITE_OK);
    note(&handled);
    return POSTBAG_DONE;
}

/* ---- the crew ---------------------------------------------------------- */

static struct crew *crew;

static void add(
    struct inbox_world *w, const char *name, const char *filter, int is_slow)
{
    const struct consumer one = {.name = name,
        .filter = filter,
        .handler = add_effect,
        .slow = is_slow ? wait_to_end : NULL};

    assert_ok(postbag__consumers_add(&w->consumers, &one, NULL));
}

static void open_all(struct inbox_world *w)
{
    const struct worker_config c = {
        .db_path = w->t.path,
        .port = &w->port,
        .consumers = &w->consumers,
        .shared = &w->shared,
        .retry_base_ms = WORLD_RETRY_BASE_MS,
        .retry_cap_ms = 4 * WORLD_RETRY_BASE_MS,
        .max_attempts = WORLD_MAX_ATTEMPTS,
    };
    struct postbag_fault why = {0};

    if (postbag__crew_open(&crew, &c, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
    world_open_receiver(w, 1000);
}

/* Threads sleep by the real clock. */
static int set_up(void **state)
{
    struct inbox_world *w = world_new();

    w->port = *postbag_linux_port();
    begun = may_end = ended = handled = 0;
    temp_db_run(&w->t, "CREATE TABLE app(n INTEGER NOT NULL);"
                       "INSERT INTO app VALUES (0)");
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    postbag__crew_stop(crew);
    postbag__crew_close(crew);
    crew = NULL;
    world_free(*state);
    return 0;
}

static void deliver(struct inbox_world *w, const char *topic, const char *id)
{
    size_t count;
    struct postbag_wake *const *wakes = postbag__crew_wakes(crew, &count);

    assert_ok(world_deliver_on(w, topic, id, NULL, "go"));
    for (size_t i = 0; i < count; i++)
        w->port.wake(w->port.ctx, wakes[i]);
}

static int64_t effects(struct inbox_world *w)
{
    return temp_db_get(&w->t, "SELECT n FROM app");
}

/* ---- threads ----------------------------------------------------------- */

static void test_crew_slow_part_holds_up_no_other_consumer(void **state)
{
    struct inbox_world *w = *state;

    add(w, "a", "cmd/a", 1);
    add(w, "b", "cmd/b", 0);
    add(w, "c", "cmd/c", 1);
    open_all(w);
    assert_ok(postbag__crew_start(crew));
    deliver(w, "cmd/a", "1");
    wait_for(&begun, 1);
    deliver(w, "cmd/b", "2");
    wait_for(&handled, 1);
    deliver(w, "cmd/c", "3"); /* and two slow ones beside each other */
    wait_for(&begun, 2);
    assert_int_equal(ended, 0);
    note(&may_end);
    wait_for(&handled, 3);
    postbag__crew_stop(crew);
    assert_int_equal(effects(w), 3);
}

static void *let_end_later(void *arg)
{
    const struct timespec pause = {.tv_nsec = 50000000};

    (void)arg;
    (void)nanosleep(&pause, NULL);
    note(&may_end);
    return NULL;
}

static void test_crew_stop_waits_for_a_slow_part_and_its_effect(void **state)
{
    struct inbox_world *w = *state;
    pthread_t other;

    add(w, "a", "cmd/a", 1);
    open_all(w);
    assert_ok(postbag__crew_start(crew));
    deliver(w, "cmd/a", "1");
    wait_for(&begun, 1);
    assert_int_equal(pthread_create(&other, NULL, let_end_later, NULL), 0);
    postbag__crew_stop(crew);
    assert_int_equal(effects(w), 1);
    assert_int_equal(pthread_join(other, NULL), 0);
}

static int starts_left;

static int start_some(void *ctx, struct postbag_thread **out, const char *name,
    int niceness, void (*run)(void *arg), void *arg)
{
    return starts_left-- > 0 ? postbag_linux_port()->thread_start(
                                   ctx, out, name, niceness, run, arg)
                             : POSTBAG_EIO;
}

static void test_crew_that_lacks_a_thread_can_start_again(void **state)
{
    struct inbox_world *w = *state;

    add(w, "a", "cmd/a", 1);
    add(w, "b", "cmd/b", 0);
    w->port.thread_start = start_some;
    starts_left = 1;
    open_all(w);
    assert_int_equal(postbag__crew_start(crew), POSTBAG_EIO);
    postbag__crew_stop(crew);
    starts_left = 2;
    note(&may_end);
    assert_ok(postbag__crew_start(crew));
    deliver(w, "cmd/a", "1");
    deliver(w, "cmd/b", "2");
    wait_for(&handled, 2);
}

/* ---- without threads --------------------------------------------------- */

static void test_crew_without_threads_lets_all_take_turns(void **state)
{
    struct inbox_world *w = *state;
    int did = 1;

    add(w, "a", "cmd/a", 1);
    add(w, "b", "cmd/b", 0);
    open_all(w);
    note(&may_end);
    for (int i = 0; i < 2; i++) {
        const char id[] = {(char)('1' + i), '\0'};

        deliver(w, "cmd/a", id);
        deliver(w, "cmd/b", id);
    }
    for (int i = 1; i <= 4; i++) {
        assert_ok(postbag__crew_run_one(crew, &did));
        assert_int_equal(did, 1);
        assert_int_equal(handled, i);
        assert_int_equal(begun, i / 2);
    }
    assert_ok(postbag__crew_run_one(crew, &did));
    assert_int_equal(did, 0);
}

static void test_crew_has_a_worker_for_the_quick_and_for_each_slow(void **state)
{
    struct inbox_world *w = *state;
    size_t count;

    add(w, "a", "cmd/a", 1);
    add(w, "b", "cmd/b", 0);
    add(w, "c", "cmd/c", 1);
    add(w, "d", "cmd/d", 0);
    open_all(w);
    (void)postbag__crew_wakes(crew, &count);
    assert_int_equal(count, 3);
}

static void test_crew_of_no_database_is_not_opened(void **state)
{
    struct inbox_world *w = *state;
    struct postbag_fault why;
    const struct worker_config c = {.db_path = "/nowhere/at/all.db",
        .port = &w->port,
        .consumers = &w->consumers,
        .shared = &w->shared};

    add(w, "a", "cmd/a", 1);
    assert_int_not_equal(postbag__crew_open(&crew, &c, &why), POSTBAG_OK);
    assert_null(crew);
    postbag__crew_stop(NULL);
    postbag__crew_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_crew_has_a_worker_for_the_quick_and_for_each_slow),
        TEST(test_crew_slow_part_holds_up_no_other_consumer),
        TEST(test_crew_stop_waits_for_a_slow_part_and_its_effect),
        TEST(test_crew_that_lacks_a_thread_can_start_again),
        TEST(test_crew_without_threads_lets_all_take_turns),
        TEST(test_crew_of_no_database_is_not_opened),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
