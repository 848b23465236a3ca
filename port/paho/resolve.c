/* SPDX-License-Identifier: MIT */
/*
 * Names are looked up here and not by Paho, which would hold its one mutex
 * meanwhile: a resolver that hangs would stop every connection of the process.
 *
 * getaddrinfo cannot be told to stop.  So it runs on a detached thread that
 * nobody ever waits for, at most one per transport.  Who does not want its
 * answer any more says so (forget), and who asks again for the same name while
 * it hangs gets the answer of that one.
 *
 * The lock stands for the life of a connection: it is held while one begins or
 * ends and while an answer is handed over, which may begin one.  So after
 * disconnect, which takes it, no answer can start anything.  It is the
 * outermost lock and it lives here, because the thread may be there still when
 * its transport is gone: whoever of the two is last frees.
 */
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "paho_transport.h"

/* Of which glibc takes less than a quarter, with files and DNS. */
#define STACK_BYTES 131072u

struct resolver {
    pthread_mutex_t lock; /* guards what follows */
    unsigned owners;      /* the transport, and the thread */
    unsigned is_asking;   /* the thread exists */
    char host[HOST_BYTES];
    resolver_answer *answer; /* NULL: nobody waits for it */
    void *ctx;
};

struct resolver *postbag__paho_resolver_new(void)
{
    struct resolver *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return NULL;
    /* with default attributes this does not fail on Linux */
    (void)pthread_mutex_init(&r->lock, NULL);
    r->owners = 1;
    return r;
}

void postbag__paho_resolver_lock(struct resolver *r)
{
    pthread_mutex_lock(&r->lock);
}

void postbag__paho_resolver_unlock(struct resolver *r)
{
    pthread_mutex_unlock(&r->lock);
}

/* Takes the lock, which is held. */
static void leave(struct resolver *r)
{
    unsigned owners = --r->owners;
    pthread_mutex_unlock(&r->lock);
    if (owners > 0)
        return;
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

void postbag__paho_resolver_free(struct resolver *r)
{
    pthread_mutex_lock(&r->lock);
    leave(r);
}

/* ---- the thread ---------------------------------------------------------- */

static void say(int error, int cause, char *out, size_t size)
{
    char number[24] = "";
    if (error == EAI_SYSTEM)
        (void)snprintf(number, sizeof(number), " (errno %d)", cause);
    (void)snprintf(out, size, "%s%s", gai_strerror(error), number);
}

/* host does not change while is_asking. */
static void *look_up(void *arg)
{
    struct resolver *r = arg;
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char why[TEXT_BYTES];
    int error = getaddrinfo(r->host, NULL, &hints, &list);
    say(error, errno, why, sizeof(why));
    pthread_mutex_lock(&r->lock);
    r->is_asking = 0;
    if (r->answer != NULL)
        r->answer(r->ctx, error == 0 ? list : NULL, why);
    r->answer = NULL;
    leave(r);
    if (error == 0)
        freeaddrinfo(list);
    return NULL;
}

/* Signals are for the application's threads. */
static int start_thread(struct resolver *r)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    if (pthread_attr_init(&attributes) != 0)
        return POSTBAG_ENOMEM;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, look_up, r);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return error == 0 ? POSTBAG_OK : POSTBAG_ENOMEM;
}

/* ---- questions, with the lock held --------------------------------------- */

const char *postbag__paho_resolver_busy(
    const struct resolver *r, const char *host)
{
    return r->is_asking && strcasecmp(r->host, host) != 0 ? r->host : NULL;
}

int postbag__paho_resolver_ask(
    struct resolver *r, const char *host, resolver_answer *answer, void *ctx)
{
    r->answer = answer;
    r->ctx = ctx;
    if (r->is_asking)
        return POSTBAG_OK;
    (void)snprintf(r->host, sizeof(r->host), "%s", host);
    int err = start_thread(r);
    if (err != POSTBAG_OK) {
        r->answer = NULL;
        return err;
    }
    r->is_asking = 1;
    r->owners++;
    return POSTBAG_OK;
}

void postbag__paho_resolver_forget(struct resolver *r)
{
    r->answer = NULL;
}
