/* SPDX-License-Identifier: MIT */
/*
 * Eight threads in four processes claim the same id at once: one effect, the
 * others see a duplicate, none an error.  The same race with guards left out
 * shows that it would tell.
 */
#include "claim_desk.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES = 4, THREADS = 2, RACERS = PROCESSES * THREADS, ROUNDS = 50 };

/* How one racer serves a request: 1 if it is its own, 0 if a duplicate,
 * negative: an error. */
typedef int (*serve_fn)(struct desk *d, const char *id);

/* What the processes share. */
struct track {
    pthread_barrier_t start;
    pthread_barrier_t looked; /* of the control that looks before it acts */
    int outcome[RACERS][ROUNDS];
};

struct racer {
    struct track *track;
    const struct desk *home;
    serve_fn serve;
    int number, rounds;
};

static struct track *the_track;

/* ---- racers ------------------------------------------------------------ */

static int serve_by_claim(struct desk *d, const char *id)
{
    int err = postbag_begin(d->w);

    if (err != POSTBAG_OK)
        return err;
    err = desk_claim(d, id, "open");
    if (err == POSTBAG_OK && d->claim.is == POSTBAG_CLAIM_NEW) {
        desk_act(d, id);
        err = postbag_inbox_finish(d->w, d->claim.arrival, id, strlen(id));
    }
    if (err == POSTBAG_OK)
        err = postbag_commit(d->w);
    if (err != POSTBAG_OK) {
        postbag_rollback(d->w);
        return err;
    }
    if (d->claim.is == POSTBAG_CLAIM_NEW)
        return 1;
    return d->claim.is == POSTBAG_CLAIM_DONE &&
                   d->claim.result_len == strlen(id) &&
                   memcmp(d->claim.result, id, strlen(id)) == 0
               ? 0
               : -1;
}

/* Claims in the application's own plain transaction, which begins to write
 * with the claim. */
static int serve_by_plain_begin(struct desk *d, const char *id)
{
    int err;

    sql_run(d->db, "BEGIN");
    err = desk_claim(d, id, "open");
    if (err == POSTBAG_OK && d->claim.is == POSTBAG_CLAIM_NEW) {
        desk_act(d, id);
        err = postbag_inbox_finish(d->w, d->claim.arrival, id, strlen(id));
    }
    sql_run(d->db, "COMMIT");
    return err != POSTBAG_OK ? err : d->claim.is == POSTBAG_CLAIM_NEW;
}

/* Control: a table without the constraint, and a look before the write. */
static int serve_after_a_look(struct desk *d, const char *id)
{
    int is_known =
        sql_get(d->db, "SELECT count(*) FROM loose WHERE id = '%s'", id) > 0;

    (void)pthread_barrier_wait(&the_track->looked);
    if (is_known)
        return 0;
    sql_run(d->db,
        "BEGIN IMMEDIATE; INSERT INTO loose VALUES ('%s');"
        "INSERT INTO effect VALUES ('%s'); COMMIT",
        id, id);
    return 1;
}

/* ---- the race ---------------------------------------------------------- */

static void *run(void *arg)
{
    struct racer *r = arg;
    struct desk d = *r->home;

    desk_connect(&d);
    for (int i = 0; i < r->rounds; i++) {
        char id[16];

        (void)snprintf(id, sizeof(id), "r%d", i);
        (void)pthread_barrier_wait(&r->track->start);
        r->track->outcome[r->number][i] = r->serve(&d, id);
    }
    desk_leave(&d);
    return NULL;
}

static void run_process(struct racer all[THREADS])
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, &all[i]) != 0)
            _exit(1);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    _exit(0);
}

static void race(const struct desk *home, serve_fn serve, int rounds)
{
    pid_t pids[PROCESSES];

    for (int p = 0; p < PROCESSES; p++) {
        struct racer all[THREADS];

        for (int i = 0; i < THREADS; i++)
            all[i] =
                (struct racer){the_track, home, serve, p * THREADS + i, rounds};
        pids[p] = fork();
        assert_true(pids[p] >= 0);
        if (pids[p] == 0)
            run_process(all);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;

        assert_int_equal(waitpid(pids[p], &status, 0), pids[p]);
        assert_int_equal(status, 0);
    }
}

/* Rounds in which one racer had the effect and all others a duplicate. */
static int right_rounds(const struct desk *home, int rounds)
{
    struct desk d = *home;
    int right = 0;

    desk_connect(&d);
    for (int i = 0; i < rounds; i++) {
        int first = 0, again = 0;

        for (int n = 0; n < RACERS; n++) {
            first += the_track->outcome[n][i] == 1;
            again += the_track->outcome[n][i] == 0;
        }
        right += first == 1 && again == RACERS - 1 &&
                 sql_get(d.db, "SELECT count(*) FROM effect WHERE id = 'r%d'",
                     i) == 1;
    }
    desk_leave(&d);
    return right;
}

static int set_up(void **state)
{
    struct desk *d = calloc(1, sizeof(*d));
    pthread_barrierattr_t shared;

    assert_non_null(d);
    desk_make(d);
    the_track = mmap(NULL, sizeof(*the_track), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(the_track != MAP_FAILED);
    (void)pthread_barrierattr_init(&shared);
    (void)pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    assert_int_equal(
        pthread_barrier_init(&the_track->start, &shared, RACERS), 0);
    assert_int_equal(
        pthread_barrier_init(&the_track->looked, &shared, RACERS), 0);
    *state = d;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *d = *state;

    (void)munmap(the_track, sizeof(*the_track));
    tempdb_remove(&d->t);
    free(d);
    return 0;
}

static void test_claim_race_has_one_effect_and_no_error(void **state)
{
    struct desk *d = *state;

    race(d, serve_by_claim, ROUNDS);
    assert_int_equal(right_rounds(d, ROUNDS), ROUNDS);
}

static void test_claim_race_in_plain_transactions_has_one_effect(void **state)
{
    struct desk *d = *state;

    race(d, serve_by_plain_begin, ROUNDS);
    assert_int_equal(right_rounds(d, ROUNDS), ROUNDS);
}

static void test_claim_race_catches_a_look_before_the_write(void **state)
{
    struct desk *d = *state;
    struct desk own = *d;

    desk_connect(&own);
    sql_run(own.db, "CREATE TABLE loose(id)");
    desk_leave(&own);
    race(d, serve_after_a_look, 3);
    assert_int_equal(right_rounds(d, 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN(test_claim_race_has_one_effect_and_no_error),
        TEST_IN(test_claim_race_in_plain_transactions_has_one_effect),
        TEST_IN(test_claim_race_catches_a_look_before_the_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
