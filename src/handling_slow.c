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
#include "command.h"
#include "error.h"
#include "handling.h"

/* For the gate and for SQLite's lock: what gives up here does all again. */
enum { AGAIN_LOCK_WAIT_MS = 10000 };

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
    int err = postbag__command_copy(&h->slow, &copied);

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
