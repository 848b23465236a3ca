/* SPDX-License-Identifier: MIT */
/*
 * The alarm clock of one waiting thread: an eventfd that wake() rings, an
 * inotify queue (watch.c), and the time.
 *
 * The eventfd keeps a ring that comes between two waits.  wake(): any thread;
 * wait() and wake_watch(): the one thread that waits.
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "linux_port.h"
#include "watch.h"

struct postbag_wake {
    int bell; /* eventfd */
    struct watch watch;
};

int postbag__linux_wake_new(void *ctx, struct postbag_wake **out)
{
    struct postbag_wake *w = malloc(sizeof(*w));

    (void)ctx;
    if (w == NULL)
        return POSTBAG_ENOMEM;
    postbag__linux_watch_init(&w->watch);
    w->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->bell < 0) {
        free(w);
        return POSTBAG_EIO;
    }
    *out = w;
    return POSTBAG_OK;
}

void postbag__linux_wake_free(void *ctx, struct postbag_wake *w)
{
    (void)ctx;
    if (w == NULL)
        return;
    postbag__linux_watch_free(&w->watch);
    (void)close(w->bell);
    free(w);
}

int postbag__linux_wake_watch(
    void *ctx, struct postbag_wake *w, const char *path)
{
    (void)ctx;
    return postbag__linux_watch_set(&w->watch, path);
}

void postbag__linux_wake(void *ctx, struct postbag_wake *w)
{
    const uint64_t one = 1;
    ssize_t put;

    (void)ctx;
    /* Fails only when the counter is at its end: then it rings already. */
    put = write(w->bell, &one, sizeof(one));
    (void)put;
}

/* true: it rang since the last time. */
static bool silence(struct postbag_wake *w)
{
    uint64_t rings;

    return read(w->bell, &rings, sizeof(rings)) == sizeof(rings);
}

/* Sleep for left_us at most; returns what ended it, 0 for nothing. */
static unsigned sleep_once(struct postbag_wake *w, int64_t left_us)
{
    struct timespec left = {
        .tv_sec = (time_t)(left_us / 1000000),
        .tv_nsec = (long)(left_us % 1000000) * 1000,
    };
    /* ppoll skips a negative descriptor: nothing is watched */
    struct pollfd fds[2] = {
        {.fd = w->bell, .events = POLLIN},
        {.fd = w->watch.fd, .events = POLLIN},
    };
    unsigned why = 0;

    /* of its errors only EINTR can happen here: look at the clock again */
    if (ppoll(fds, 2, &left, NULL) <= 0)
        return 0;
    if (fds[0].revents != 0 && silence(w))
        why |= POSTBAG_WOKEN;
    if (fds[1].revents != 0 && postbag__linux_watch_drain(&w->watch))
        why |= POSTBAG_FILE_CHANGED;
    return why;
}

unsigned postbag__linux_wait(
    void *ctx, struct postbag_wake *w, int64_t until_us)
{
    int64_t left_us;
    unsigned why;

    (void)ctx;
    if (postbag__linux_watch_ready(&w->watch))
        return POSTBAG_FILE_CHANGED;
    do {
        left_us = postbag__linux_left_us(until_us);
        why = sleep_once(w, left_us);
    } while (why == 0 && left_us > 0);
    return why;
}
