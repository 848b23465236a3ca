/* SPDX-License-Identifier: MIT */
/*
 * Whose command is next, and the thread that asks.
 *
 *     look for a due row (no lock) -> handling.c -> next consumer's turn
 *          | none
 *     sleep until the earliest retry time, or until woken
 *
 * An error of the storage pauses the worker as a whole: no command is charged
 * an attempt for it.
 */
#include "worker.h"

#include <stdatomic.h>

#include "error.h"
#include "handling.h"
#include "mem.h"

enum {
    IDLE_MS = 5000,      /* a look at rows that others made due */
    PAUSE_BASE_MS = 100, /* after an error of the storage */
    PAUSE_CAP_MS = 10000
};

struct worker {
    const struct postbag_port *port;
    const struct consumers *consumers;
    struct handling handling;
    char *reply_topics;
    unsigned char *is_proven; /* by consumer, see handling.h */
    struct postbag_wake *wake;
    size_t turn;     /* the consumer to ask first */
    uint32_t failed; /* errors of the storage in a row */
    int64_t pause_until_us;
    atomic_int stop;
};

/* ---- open and close ---------------------------------------------------- */

static int start(struct worker *w, const struct worker_config *c)
{
    struct handling *h = &w->handling;
    int err = w->port->wake_new(w->port->ctx, &w->wake);

    if (err != POSTBAG_OK)
        return postbag__fail(&h->db.fault, err, "the port made no wake");
    w->reply_topics =
        postbag__copy(c->reply_topics == NULL ? "" : c->reply_topics);
    w->is_proven = postbag__alloc(c->consumers->count + 1);
    if (w->reply_topics == NULL || w->is_proven == NULL)
        return postbag__fail(
            &h->db.fault, POSTBAG_ENOMEM, "no memory for a worker");
    h->port = c->port;
    h->log = c->log;
    h->retry_base_ms = c->retry_base_ms;
    h->retry_cap_ms = c->retry_cap_ms;
    h->max_attempts = c->max_attempts;
    h->reply_topics = w->reply_topics;
    h->reply_dead = c->reply_dead != 0;
    return postbag__handling_open(h, c->db_path, c->shared);
}

int postbag__worker_open(struct worker **out, const struct worker_config *c,
    struct postbag_fault *why)
{
    struct worker *w = postbag__alloc(sizeof(*w));
    int err;

    *out = NULL;
    if (w == NULL)
        return postbag__fail(why, POSTBAG_ENOMEM, "no memory for a worker");
    w->port = c->port;
    w->consumers = c->consumers;
    err = start(w, c);
    if (err != POSTBAG_OK) {
        (void)postbag__pass(why, postbag__worker_fault(w));
        postbag__worker_close(w);
        return err;
    }
    *out = w;
    return POSTBAG_OK;
}

void postbag__worker_close(struct worker *w)
{
    if (w == NULL)
        return;
    postbag__handling_close(&w->handling);
    if (w->wake != NULL)
        w->port->wake_free(w->port->ctx, w->wake);
    postbag__free(w->reply_topics);
    postbag__free(w->is_proven);
    postbag__free(w);
}

struct postbag_wake *postbag__worker_wake(struct worker *w)
{
    return w->wake;
}

const struct postbag_fault *postbag__worker_fault(const struct worker *w)
{
    return &w->handling.db.fault;
}

/* ---- whose turn it is -------------------------------------------------- */

/* Is there something to do for this consumer?  Takes no lock. */
static int look(struct worker *w, const struct consumer *who, int *found_out)
{
    struct inbox_now at = postbag__handling_now(&w->handling);
    struct inbox_row row;
    int err = postbag__inbox_next(
        &w->handling.inbox, who->name, &at, &row, found_out);

    postbag__inbox_release(&w->handling.inbox);
    return err;
}

/* Consumers take turns, so that a busy one does not keep the others waiting. */
static int run_next(struct worker *w, int *did_out)
{
    const struct consumers *c = w->consumers;
    int err = POSTBAG_OK;

    for (size_t i = 0; i < c->count && err == POSTBAG_OK; i++) {
        size_t index = (w->turn + i) % c->count;
        int found = 0;

        err = postbag__handling_end_wait(&w->handling, &c->list[index]);
        if (err == POSTBAG_OK && c->list[index].handler != NULL)
            err = look(w, &c->list[index], &found);
        if (err == POSTBAG_OK && found)
            err = postbag__handling_run(
                &w->handling, &c->list[index], &w->is_proven[index], did_out);
        if (*did_out) {
            w->turn = (index + 1) % c->count;
            break;
        }
    }
    return err;
}

/* The earliest retry time that is to come, or a while. */
static int find_next(struct worker *w, int64_t *next_us)
{
    const struct consumers *c = w->consumers;
    struct inbox_now at = postbag__handling_now(&w->handling);
    int64_t next_ms = at.mono_ms + IDLE_MS;
    int err = POSTBAG_OK;

    for (size_t i = 0; i < c->count && err == POSTBAG_OK; i++) {
        int64_t due_ms = next_ms;

        err = postbag__inbox_earliest(
            &w->handling.inbox, c->list[i].name, &at, &due_ms);
        if (err == POSTBAG_ENOTFOUND)
            err = POSTBAG_OK;
        else if (due_ms < next_ms)
            next_ms = due_ms;
    }
    *next_us = next_ms * 1000;
    return err;
}

static int pause_after(struct worker *w, int err, int64_t *next_us_out)
{
    uint32_t pause_ms;

    w->failed++;
    pause_ms = postbag__handling_backoff_ms(
        &w->handling, w->failed, PAUSE_BASE_MS, PAUSE_CAP_MS);
    w->pause_until_us =
        w->port->mono_us(w->port->ctx) + (int64_t)pause_ms * 1000;
    *next_us_out = w->pause_until_us;
    return err;
}

int postbag__worker_run_one(
    struct worker *w, int *did_out, int64_t *next_us_out)
{
    const struct postbag_port *port = w->port;
    int64_t now_us = port->mono_us(port->ctx);
    int err;

    *did_out = 0;
    *next_us_out = now_us;
    if (now_us < w->pause_until_us) {
        *next_us_out = w->pause_until_us;
        return POSTBAG_OK;
    }
    err = run_next(w, did_out);
    if (err == POSTBAG_OK && !*did_out)
        err = find_next(w, next_us_out);
    if (err != POSTBAG_OK)
        return pause_after(w, err, next_us_out);
    w->failed = 0;
    return POSTBAG_OK;
}

/* ---- the thread -------------------------------------------------------- */

void postbag__worker_loop(void *worker)
{
    struct worker *w = worker;
    const struct postbag_port *port = w->port;

    while (!atomic_load(&w->stop)) {
        int64_t next_us;
        int did;
        int err = postbag__worker_run_one(w, &did, &next_us);

        if (err != POSTBAG_OK)
            postbag__log_fault(&w->handling.log, POSTBAG_LOG_WARNING,
                "a command could not be handled now", postbag__worker_fault(w));
        if (err != POSTBAG_OK || !did)
            (void)port->wait(port->ctx, w->wake, next_us);
    }
    atomic_store(&w->stop, 0);
}

void postbag__worker_stop(struct worker *w)
{
    const struct postbag_port *port = w->port;

    atomic_store(&w->stop, 1);
    port->wake(port->ctx, w->wake);
}
