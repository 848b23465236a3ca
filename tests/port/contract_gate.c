/* SPDX-License-Identifier: MIT */
/* The contract of the gate, and of threads. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "contract_groups.h"
#include "contract_support.h"

#define PLAYERS 4
#define ENTRIES 4000

/* ---- The gate, one thread ----------------------------------------------- */

static struct postbag_gate *make(void)
{
    struct postbag_gate *g = NULL;

    assert_int_equal(port->gate_new(port->ctx, &g), POSTBAG_OK);
    assert_non_null(g);
    return g;
}

static int enter(struct postbag_gate *g, int64_t until_us)
{
    return port->gate_enter(port->ctx, g, until_us);
}

static void leave(struct postbag_gate *g)
{
    port->gate_leave(port->ctx, g);
}

static void drop(struct postbag_gate *g)
{
    port->gate_free(port->ctx, g);
}

static void test_gate_free_lets_in_at_any_time(void **state)
{
    struct postbag_gate *g = make();

    (void)state;
    assert_int_equal(enter(g, in_ms(PATIENCE_MS)), POSTBAG_OK);
    leave(g);
    assert_int_equal(enter(g, 0), POSTBAG_OK);
    leave(g);
    assert_int_equal(enter(g, INT64_MIN), POSTBAG_OK);
    leave(g);
    drop(g);
}

static void test_gate_held_is_busy_not_early(void **state)
{
    struct postbag_gate *g = make();
    int64_t until_us;

    (void)state;
    assert_int_equal(enter(g, 0), POSTBAG_OK);
    assert_int_equal(enter(g, 0), POSTBAG_EBUSY);
    until_us = now_us() + 15300;
    assert_int_equal(enter(g, until_us), POSTBAG_EBUSY);
    assert_true(now_us() >= until_us);
    leave(g);
    assert_int_equal(enter(g, 0), POSTBAG_OK);
    leave(g);
    drop(g);
}

static void test_gate_held_costs_the_waiter_no_work(void **state)
{
    struct postbag_gate *g = make();
    clock_t from = clock();

    (void)state;
    assert_int_equal(enter(g, 0), POSTBAG_OK);
    assert_int_equal(enter(g, in_ms(200)), POSTBAG_EBUSY);
    assert_true(clock() - from < CLOCKS_PER_SEC / 10);
    leave(g);
    drop(g);
}

/* ---- The gate, many threads --------------------------------------------- */

struct match {
    struct postbag_gate *gate;
    atomic_uint ready;
    /* guarded by the gate */
    unsigned entries;
    unsigned repeats; /* entries of the one who had left just before */
    unsigned by[PLAYERS];
    unsigned last;
};

struct player {
    struct match *match;
    unsigned number;
    int64_t patience_us; /* 0: no end */
    unsigned gave_up;
};

/* Hold it long enough for others to queue up. */
static void hold_a_little(void)
{
    int64_t until_us = now_us() + 20;

    while (now_us() < until_us)
        ;
}

static void record(struct match *m, unsigned number)
{
    m->entries++;
    m->by[number]++;
    m->repeats += m->last == number;
    m->last = number;
}

static void play(void *arg)
{
    struct player *p = arg;
    struct match *m = p->match;
    bool over = false;

    atomic_fetch_add(&m->ready, 1);
    while (!over) {
        int64_t until_us =
            p->patience_us ? now_us() + p->patience_us : INT64_MAX;

        if (enter(m->gate, until_us) != POSTBAG_OK) {
            p->gave_up++;
            continue;
        }
        record(m, p->number);
        hold_a_little();
        over = m->entries >= ENTRIES;
        leave(m->gate);
    }
}

/* All players, from the moment when each is at the gate. */
static void play_match(struct match *m, struct player players[PLAYERS])
{
    struct postbag_thread *threads[PLAYERS];
    int64_t until_us = in_ms(PATIENCE_MS);
    unsigned i;

    m->gate = make();
    m->last = PLAYERS;
    assert_int_equal(enter(m->gate, 0), POSTBAG_OK);
    for (i = 0; i < PLAYERS; i++) {
        players[i].match = m;
        players[i].number = i;
        threads[i] = start(play, &players[i]);
    }
    while (atomic_load(&m->ready) < PLAYERS)
        assert_true(now_us() < until_us);
    leave(m->gate);
    for (i = 0; i < PLAYERS; i++)
        join(threads[i]);
    drop(m->gate);
}

/* Each player finds the match over once: ENTRIES and PLAYERS - 1 more.  Were
   two inside at once the sums would differ (and ThreadSanitizer complain). */
static void expect_all_counted(const struct match *m)
{
    unsigned sum = 0;
    unsigned i;

    for (i = 0; i < PLAYERS; i++)
        sum += m->by[i];
    assert_int_equal(m->entries, ENTRIES + PLAYERS - 1);
    assert_int_equal(sum, m->entries);
}

/* With a queue in order nobody enters twice while somebody waits.  A thread
   that the scheduler stopped before it could queue up misses its turn, so
   some repeats are fair; a plain mutex makes nearly all entries repeats. */
static void test_gate_hammered_is_exclusive_and_fair(void **state)
{
    struct match m = {0};
    struct player players[PLAYERS] = {0};
    unsigned i;

    (void)state;
    need_threads();
    play_match(&m, players);
    expect_all_counted(&m);
    assert_true(m.repeats < ENTRIES / 4);
    for (i = 0; i < PLAYERS; i++)
        assert_true(m.by[i] > ENTRIES / PLAYERS / 4);
}

/* Two players give up and come back all the time, from any place in the
   queue; the two others get in all the same. */
static void test_gate_some_give_up_queue_stays_intact(void **state)
{
    struct match m = {0};
    struct player players[PLAYERS] = {
        {.patience_us = 7}, {0}, {.patience_us = 45}, {0}};

    (void)state;
    need_threads();
    play_match(&m, players);
    expect_all_counted(&m);
    assert_true(players[0].gave_up > 0);
    assert_int_equal(players[1].gave_up + players[3].gave_up, 0);
    assert_true(m.by[1] > ENTRIES / PLAYERS / 4);
    assert_true(m.by[3] > ENTRIES / PLAYERS / 4);
}

static void leave_for_holder(void *arg)
{
    leave(arg);
}

static void test_gate_left_by_another_thread_is_free(void **state)
{
    struct postbag_gate *g = make();
    struct postbag_thread *t;

    (void)state;
    need_threads();
    assert_int_equal(enter(g, 0), POSTBAG_OK);
    t = start(leave_for_holder, g);
    assert_int_equal(enter(g, in_ms(PATIENCE_MS)), POSTBAG_OK);
    join(t);
    leave(g);
    drop(g);
}

int run_gate_contract(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate_free_lets_in_at_any_time),
        cmocka_unit_test(test_gate_held_is_busy_not_early),
        cmocka_unit_test(test_gate_held_costs_the_waiter_no_work),
        cmocka_unit_test(test_gate_hammered_is_exclusive_and_fair),
        cmocka_unit_test(test_gate_some_give_up_queue_stays_intact),
        cmocka_unit_test(test_gate_left_by_another_thread_is_free),
    };

    return cmocka_run_group_tests_name("port: gate", tests, NULL, NULL);
}

/* ---- Threads ------------------------------------------------------------ */

struct seen {
    int runs;
    sigset_t mask;
};

static void look(void *arg)
{
    struct seen *s = arg;

    s->runs++;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
}

static void test_thread_started_and_joined_ran_once(void **state)
{
    struct seen s = {0};
    struct postbag_thread *t;
    int niceness;

    (void)state;
    need_threads();
    for (niceness = 0; niceness <= 19; niceness++) {
        assert_int_equal(
            port->thread_start(port->ctx, &t, "test", niceness, look, &s),
            POSTBAG_OK);
        join(t);
        assert_int_equal(s.runs, niceness + 1);
    }
}

static void test_thread_started_has_all_signals_blocked(void **state)
{
    /* qemu keeps the two highest to itself */
    const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,
        SIGCHLD, SIGALRM, SIGPIPE, SIGWINCH, SIGRTMIN, SIGRTMAX - 2};
    struct seen s = {0};
    sigset_t before;
    sigset_t after;
    size_t i;

    (void)state;
    need_threads();
    (void)pthread_sigmask(SIG_BLOCK, NULL, &before);
    join(start(look, &s));
    (void)pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        assert_int_equal(sigismember(&s.mask, signals[i]), 1);
        assert_int_equal(
            sigismember(&after, signals[i]), sigismember(&before, signals[i]));
    }
}

int run_thread_contract(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_started_and_joined_ran_once),
        cmocka_unit_test(test_thread_started_has_all_signals_blocked),
    };

    return cmocka_run_group_tests_name("port: threads", tests, NULL, NULL);
}
