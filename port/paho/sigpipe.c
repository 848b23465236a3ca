/* SPDX-License-Identifier: MIT */
/*
 * SIGPIPE must not end the process that hosts us.
 *
 * Paho writes without MSG_NOSIGNAL and has the signal ignored instead, once,
 * with the process's first connection.  An application may have other plans
 * for it, and we change no signal of the process.  So the signal is blocked on
 * the threads that write: on Paho's, which inherit what is blocked where the
 * first connection begins, and on ours while a handle is destroyed, which
 * writes a DISCONNECT.  A write raises it on its own thread, where it waits;
 * ours is cleared of it.
 */
#include <errno.h>
#include <time.h>

#include "paho_transport.h"

void postbag__paho_sigpipe_block(struct sigpipe *s)
{
    sigset_t pipe;
    sigset_t pending;
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    (void)sigpending(&pending);
    s->was_pending = sigismember(&pending, SIGPIPE) == 1;
    (void)pthread_sigmask(SIG_BLOCK, &pipe, &s->before);
}

void postbag__paho_sigpipe_restore(const struct sigpipe *s)
{
    const struct timespec now = {0};
    sigset_t pipe;
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    while (!s->was_pending && sigtimedwait(&pipe, NULL, &now) < 0 &&
           errno == EINTR)
        continue;
    (void)pthread_sigmask(SIG_SETMASK, &s->before, NULL);
}
