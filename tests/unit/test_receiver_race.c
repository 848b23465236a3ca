/* SPDX-License-Identifier: MIT */
/* Eight receivers, two threads in each of four processes, get the same command
 * at the same moment; and, as a control, eight that look before they insert. */
#include "inbox_world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PROCESSES = 4, THREADS = 2, IDS = 40, WAIT_MS = 20000 };

/* Of all processes. */
struct track {
    pthread_barrier_t line;
    atomic_int accepted, duplicates, failed;
};

typedef void (*acceptor)(struct inbox_world *w, struct track *track);

static enum postbag_outcome add_effect(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    (void)cmd;
    (void)w;
    (*(int *)ctx)++;
    return POSTBAG_DONE;
}

/* ---- the receiver ------------------------------------------------------ */

static int take(struct receiver *r, int number)
{
    char id[12];
    const struct postbag_property p[] = {{"id", id}};
    const struct postbag_frame f = {
        .topic = "cmd/x", .properties = p, .property_count = 1};

    (void)snprintf(id, sizeof(id), "%d", number);
    return postbag__receiver_accept(r, 1, &f);
}

static struct receiver *open_receiver(struct inbox_world *w)
{
    const struct receiver_config c = {
        .db_path = w->t.path,
        .port = &w->port,
        .consumers = &w->consumers,
        .accept_ms = WAIT_MS,
        .identity = w->identity,
        .no_identity = w->no_identity,
    };
    struct postbag_fault why = {0};
    struct receiver *r;

    if (postbag__receiver_open(&r, &c, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
    return r;
}

static void accept_all(struct inbox_world *w, struct track *track)
{
    struct receiver *r = open_receiver(w);
    struct receiver_counts c;

    for (int i = 0; i < IDS; i++) {
        (void)pthread_barrier_wait(&track->line);
        if (take(r, i) != POSTBAG_OK)
            atomic_fetch_add(&track->failed, 1);
    }
    postbag__receiver_counts(r, &c);
    atomic_fetch_add(&track->accepted, (int)c.accepted);
    atomic_fetch_add(&track->duplicates, (int)c.duplicates);
    postbag__receiver_close(r);
}

/* ---- the control ------------------------------------------------------- */

/* SELECT, then INSERT, and no constraint.  All have looked before one inserts:
 * on a busy machine they would not always meet. */
static int look_and_insert(struct db *db, struct track *track, int number)
{
    char sql[128];
    int64_t found = 0;
    int err;

    (void)snprintf(
        sql, sizeof(sql), "SELECT count(*) FROM naive WHERE id = %d", number);
    err = postbag__query_i64(db, sql, &found);
    (void)pthread_barrier_wait(&track->line);
    if (err != POSTBAG_OK || found > 0)
        return err;
    err = postbag__begin(db, DB_FULL);
    if (err != POSTBAG_OK)
        return err;
    (void)snprintf(sql, sizeof(sql), "INSERT INTO naive VALUES (%d)", number);
    err = postbag__exec(db, sql);
    return err == POSTBAG_OK ? postbag__commit(db) : err;
}

static void accept_all_naively(struct inbox_world *w, struct track *track)
{
    struct db db = {0};

    if (postbag__db_open(&db, w->t.path, DB_WRITE, DB_FULL, WAIT_MS) !=
        POSTBAG_OK)
        fail_msg("%s", db.fault.text);
    for (int i = 0; i < IDS; i++) {
        (void)pthread_barrier_wait(&track->line);
        if (look_and_insert(&db, track, i) != POSTBAG_OK)
            atomic_fetch_add(&track->failed, 1);
    }
    postbag__db_close(&db);
}

/* ---- the race ---------------------------------------------------------- */

struct lane {
    struct inbox_world *w;
    struct track *track;
    acceptor run;
};

static void *run_lane(void *arg)
{
    struct lane *l = arg;

    l->run(l->w, l->track);
    return NULL;
}

/* A process of its own. */
static void run_threads(struct lane *l)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run_lane, l) != 0)
            _exit(1);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    _exit(0);
}

static struct track *new_track(void)
{
    struct track *track = mmap(NULL, sizeof(*track), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;

    assert_ptr_not_equal(track, MAP_FAILED);
    assert_int_equal(pthread_barrierattr_init(&shared), 0);
    assert_int_equal(
        pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED), 0);
    assert_int_equal(
        pthread_barrier_init(&track->line, &shared, PROCESSES * THREADS), 0);
    (void)pthread_barrierattr_destroy(&shared);
    return track;
}

static void race(struct inbox_world *w, struct track *track, acceptor run)
{
    struct lane lane = {w, track, run};
    pid_t children[PROCESSES];

    postbag__db_close(&w->t.db);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_int_not_equal(children[i], -1);
        if (children[i] == 0)
            run_threads(&lane);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;

        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_ok(postbag__db_open(&w->t.db, w->t.path, DB_WRITE, DB_NORMAL, 1000));
    assert_int_equal(track->failed, 0);
}

static void end_track(struct track *track)
{
    (void)pthread_barrier_destroy(&track->line);
    (void)munmap(track, sizeof(*track));
}

static void test_receiver_eight_at_once_make_one_effect_of_an_id(void **state)
{
    struct inbox_world *w = world_new();
    struct track *track = new_track();
    int effects = 0;
    int did = 1;

    (void)state;
    world_add(w, "b", "cmd/+", add_effect, &effects);
    race(w, track, accept_all);
    assert_int_equal(track->accepted, IDS);
    assert_int_equal(track->duplicates, IDS * (PROCESSES * THREADS - 1));
    world_open_worker(w, "");
    while (did) {
        int64_t next_us;

        assert_ok(postbag__worker_run_one(w->worker, &did, &next_us));
    }
    assert_int_equal(effects, IDS);
    assert_int_equal(
        temp_db_get(&w->t, "SELECT min(seen) FROM inbox"), PROCESSES * THREADS);
    end_track(track);
    world_free(w);
}

static void test_receiver_race_shows_a_select_before_the_insert(void **state)
{
    struct inbox_world *w = world_new();
    struct track *track = new_track();

    (void)state;
    temp_db_run(&w->t, "CREATE TABLE naive(id INTEGER NOT NULL)");
    race(w, track, accept_all_naively);
    assert_true(temp_db_get(&w->t, "SELECT count(*) FROM naive") > IDS);
    end_track(track);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_receiver_eight_at_once_make_one_effect_of_an_id),
        cmocka_unit_test(test_receiver_race_shows_a_select_before_the_insert),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
