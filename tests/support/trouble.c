/* SPDX-License-Identifier: MIT */
/*
 * See trouble.h.  The program has an fdatasync of its own, which SQLite calls
 * instead of libc's.
 */
#include "trouble.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "postbag/error.h"
#include "postbag/linux.h"

static struct trouble trouble;
static struct postbag_port port;
static atomic_uint passed;
static atomic_uint syncs;

/* This thread's commit: the point within it, or NULL. */
static _Thread_local const char *committing;

void trouble_pass(const char *point)
{
    uint32_t nth = trouble.die_after == 0 ? 1 : trouble.die_after;

    if (trouble.die_at != NULL && strcmp(point, trouble.die_at) == 0 &&
        atomic_fetch_add(&passed, 1) + 1 == nth)
        (void)raise(SIGKILL);
}

static void at_hook(void *ctx, const char *point)
{
    (void)ctx;
    if (strcmp(point, "accept.stored") == 0)
        committing = "accept.sync";
    else if (strcmp(point, "handle.marked") == 0)
        committing = "handle.sync";
    else
        committing = NULL;
    trouble_pass(point);
}

/* One step of splitmix64 from a seed and a number. */
static uint32_t draw(uint32_t seed, uint32_t number)
{
    uint64_t z = ((uint64_t)seed << 32 | number) * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

/* libc's, or that of what is preloaded. */
static int next_fdatasync(int fd)
{
    __extension__ int (*next)(int) =
        (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");

    return next(fd);
}

int fdatasync(int fd)
{
    if (committing != NULL) {
        uint32_t number = atomic_fetch_add(&syncs, 1);

        trouble_pass(committing);
        if (draw(trouble.seed, number) % 1000 < trouble.fail_commits) {
            errno = EIO;
            return -1;
        }
    }
    return next_fdatasync(fd);
}

const struct postbag_port *trouble_port(const struct trouble *t)
{
    trouble = *t;
    port = *postbag_linux_port();
    port.hook = at_hook;
    return &port;
}

/* ---- the transport's call ---------------------------------------------- */

static const struct postbag_transport_ops *real_ops;
static struct postbag_transport_ops watched_ops;
static const struct postbag_transport_events *engines;
static struct postbag_transport_events watched_events;

static int tell_arrived(
    void *ctx, uint32_t generation, const struct postbag_frame *f)
{
    int64_t begun_us = port.mono_us(port.ctx);
    int err = engines->arrived(ctx, generation, f);

    dprintf(STDOUT_FILENO, "accept %s %lld\n", postbag_error_name(err),
        (long long)(port.mono_us(port.ctx) - begun_us));
    return err;
}

static int connect_watched(struct postbag_transport *t,
    const struct postbag_connect *c, const struct postbag_transport_events *up)
{
    engines = up;
    watched_events = *up;
    watched_events.arrived = tell_arrived;
    return real_ops->connect(t, c, &watched_events);
}

void trouble_watch(struct postbag_transport *inbound)
{
    if (!trouble.tell_accepts)
        return;
    real_ops = inbound->ops;
    watched_ops = *real_ops;
    watched_ops.connect = connect_watched;
    inbound->ops = &watched_ops;
}
