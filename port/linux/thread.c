/* SPDX-License-Identifier: MIT */
/*
 * Threads of low priority.
 *
 * SCHED_BATCH and a nice value, never SCHED_IDLE: a thread that is preempted
 * while it holds SQLite's write lock holds up the firmware, so it must get
 * some time at any load.  Lowering the priority may be refused (by a sandbox);
 * the thread then runs as it is.
 *
 * All signals are blocked: they are the application's business.
 */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "linux_port.h"

#define STACK_BYTES ((size_t)256 * 1024)

struct postbag_thread {
    pthread_t id;
    void (*run)(void *arg);
    void *arg;
    int niceness;
    char name[16]; /* what the kernel keeps, NUL included */
};

static void lower_priority(int niceness)
{
    const struct sched_param none = {0};

    /* Linux takes PRIO_PROCESS with 0 as the calling thread alone. */
    (void)setpriority(PRIO_PROCESS, 0, niceness);
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
}

static void *run_thread(void *arg)
{
    struct postbag_thread *t = arg;

    (void)pthread_setname_np(pthread_self(), t->name);
    lower_priority(t->niceness);
    t->run(t->arg);
    return NULL;
}

static int create(struct postbag_thread *t)
{
    const size_t least = (size_t)PTHREAD_STACK_MIN;
    pthread_attr_t attr;
    sigset_t all;
    sigset_t before;
    int failed = pthread_attr_init(&attr);

    if (failed)
        return POSTBAG_ENOMEM;
    failed = pthread_attr_setstacksize(
        &attr, least > STACK_BYTES ? least : STACK_BYTES);
    if (failed)
        goto out;
    /* The new thread inherits the mask, so there is no moment in which a
       signal could reach it. */
    (void)sigfillset(&all);
    failed = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (failed)
        goto out;
    failed = pthread_create(&t->id, &attr, run_thread, t);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
out:
    (void)pthread_attr_destroy(&attr);
    return failed ? POSTBAG_EIO : POSTBAG_OK;
}

int postbag__linux_thread_start(void *ctx, struct postbag_thread **out,
    const char *name, int niceness, void (*run)(void *arg), void *arg)
{
    struct postbag_thread *t = calloc(1, sizeof(*t));
    int err;

    (void)ctx;
    if (t == NULL)
        return POSTBAG_ENOMEM;
    t->run = run;
    t->arg = arg;
    t->niceness = niceness;
    (void)snprintf(t->name, sizeof(t->name), "%s", name);
    err = create(t);
    if (err != POSTBAG_OK) {
        free(t);
        return err;
    }
    *out = t;
    return POSTBAG_OK;
}

void postbag__linux_thread_join(void *ctx, struct postbag_thread *t)
{
    (void)ctx;
    (void)pthread_join(t->id, NULL);
    free(t);
}
