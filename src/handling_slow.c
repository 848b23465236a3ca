/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  The slow part of a command: what takes long is done before the
 * transaction of its effects, so that it holds up nobody.
 *
 *     choose, (charge ahead), copy -> ROLLBACK, leave the gate
 *     slow part                       no transaction, no snapshot, no lock
 *     gate -> BEGIN IMMEDIATE -> choose the same row once more
 *
 * Whether the effect may still happen is decided under the write lock, by the
 * row's state: who else had it meanwhile (an operator, another process) has
 * changed that.  A row that lost its place to an older one of its key, which an
 * operator had requeued, waits for its turn.
 */
#include <string.h>

#include "error.h"
#include "handling.h"

/* For the gate and for SQLite's lock: what gives up here does all again. */
enum { AGAIN_LOCK_WAIT_MS = 10000 };

static size_t length(const char *text)
{
    return text == NULL ? 0 : strlen(text);
}

/* Out of SQLite, whose statement would keep its snapshot for as long. */
static int copy(struct arena *a, struct postbag_command *c)
{
    const char **const texts[] = {&c->source, &c->topic, &c->content_type,
        &c->key, &c->response_topic, &c->headers, &c->traceparent,
        &c->tracestate, &c->correlation_id};
    enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };
    ptrdiff_t at[TEXTS], id, payload, correlation;

    postbag__arena_reset(a);
    for (size_t i = 0; i < TEXTS; i++)
        at[i] = postbag__arena_add(a, *texts[i], length(*texts[i]));
    id = postbag__arena_add(a, c->id, c->id_len);
    payload = postbag__arena_add(a, c->payload, c->payload_len);
    correlation = postbag__arena_add(a, c->correlation, c->correlation_len);
    if (a->err != POSTBAG_OK)
        return a->err;
    for (size_t i = 0; i < TEXTS; i++)
        *texts[i] = postbag__arena_at(a, at[i]);
    c->id = postbag__arena_at(a, id);
    c->payload = postbag__arena_at(a, payload);
    c->correlation = postbag__arena_at(a, correlation);
    return POSTBAG_OK;
}

static int begin_again(struct handling *h)
{
    int err = postbag__handling_enter(h, AGAIN_LOCK_WAIT_MS);

    if (err != POSTBAG_OK)
        return err;
    h->db.busy_ms = AGAIN_LOCK_WAIT_MS;
    err = postbag__begin(&h->db, DB_FULL);
    h->db.busy_ms = HANDLING_LOCK_WAIT_MS;
    return err;
}

int postbag__handling_slow(struct handling *h, const struct consumer *who,
    struct inbox_row *row, enum postbag_outcome *outcome_out, int *found_out)
{
    struct postbag_command copied = row->command;
    int err = copy(&h->slow, &copied);

    *found_out = 0;
    postbag__inbox_release(&h->inbox);
    postbag__rollback(&h->db);
    if (err != POSTBAG_OK)
        return postbag__fail(&h->db.fault, err, "no memory for a command");
    postbag__handling_leave(h);
    *outcome_out = who->slow(who->ctx, &copied);
    err = begin_again(h);
    return err == POSTBAG_OK ? postbag__inbox_again(&h->inbox, row, found_out)
                             : err;
}
