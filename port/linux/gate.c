/* SPDX-License-Identifier: MIT */
/*
 * The gate: a lock handed on in the order of arrival.
 *
 *     holder -> first waiter -> ... -> last waiter
 *
 * Leaving hands the gate to the first waiter while it still sleeps; nobody
 * can slip in between, so who leaves and enters again at once goes to the end
 * of the queue.  Hence: the queue is empty whenever the gate is free.
 *
 * A waiter lives on its thread's stack and is signalled under the mutex, so
 * that it is still there.  Any thread.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "linux_port.h"

struct waiter {
    struct waiter *next;
    pthread_cond_t called;
    bool holds;
};

struct postbag_gate {
    pthread_mutex_t mutex;
    struct waiter *first;
    struct waiter **end; /* where the next waiter is linked in */
    bool held;
};

int postbag__linux_gate_new(void *ctx, struct postbag_gate **out)
{
    struct postbag_gate *g = calloc(1, sizeof(*g));

    (void)ctx;
    if (g == NULL)
        return POSTBAG_ENOMEM;
    if (pthread_mutex_init(&g->mutex, NULL) != 0) {
        free(g);
        return POSTBAG_ENOMEM;
    }
    g->end = &g->first;
    *out = g;
    return POSTBAG_OK;
}

void postbag__linux_gate_free(void *ctx, struct postbag_gate *g)
{
    (void)ctx;
    if (g == NULL)
        return;
    (void)pthread_mutex_destroy(&g->mutex);
    free(g);
}

static void join_queue(struct postbag_gate *g, struct waiter *me)
{
    *g->end = me;
    g->end = &me->next;
}

static void leave_queue(struct postbag_gate *g, struct waiter *me)
{
    struct waiter **at = &g->first;

    while (*at != me)
        at = &(*at)->next;
    *at = me->next;
    if (g->end == &me->next)
        g->end = at;
}

/* Sleep until called or for so long, with the mutex held around it. */
static void sleep_for(
    struct postbag_gate *g, struct waiter *me, int64_t left_us)
{
    struct timespec at = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    /* rounded up: waking early would mean a second, tiny sleep */
    left_us += at.tv_nsec / 1000 + 1;
    at.tv_sec += (time_t)(left_us / 1000000);
    at.tv_nsec = (long)(left_us % 1000000) * 1000;
    /* Why it returned is seen from `holds` and from the clock. */
    (void)pthread_cond_timedwait(&me->called, &g->mutex, &at);
}

/* true: the gate was handed over. */
static bool wait_turn(
    struct postbag_gate *g, struct waiter *me, int64_t until_us)
{
    join_queue(g, me);
    while (!me->holds) {
        int64_t left_us = postbag__linux_left_us(until_us);

        if (left_us == 0) {
            leave_queue(g, me);
            return false;
        }
        sleep_for(g, me, left_us);
    }
    return true;
}

static int make_condition(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int failed = pthread_condattr_init(&attr);

    if (failed)
        return POSTBAG_ENOMEM;
    failed = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (!failed)
        failed = pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    return failed ? POSTBAG_ENOMEM : POSTBAG_OK;
}

int postbag__linux_gate_enter(
    void *ctx, struct postbag_gate *g, int64_t until_us)
{
    struct waiter me = {0};
    int err = POSTBAG_OK;

    (void)ctx;
    (void)pthread_mutex_lock(&g->mutex);
    if (!g->held) {
        g->held = true;
        goto out;
    }
    err = make_condition(&me.called);
    if (err != POSTBAG_OK)
        goto out;
    if (!wait_turn(g, &me, until_us))
        err = POSTBAG_EBUSY;
    (void)pthread_cond_destroy(&me.called);
out:
    (void)pthread_mutex_unlock(&g->mutex);
    return err;
}

void postbag__linux_gate_leave(void *ctx, struct postbag_gate *g)
{
    struct waiter *next;

    (void)ctx;
    (void)pthread_mutex_lock(&g->mutex);
    next = g->first;
    if (next == NULL) {
        g->held = false;
    } else {
        leave_queue(g, next);
        next->holds = true;
        (void)pthread_cond_signal(&next->called);
    }
    (void)pthread_mutex_unlock(&g->mutex);
}
