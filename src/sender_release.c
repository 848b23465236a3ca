/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  While the link is down, rows may be dropped that were reserved and
 * not sent, so the reservation is lowered to what was sent.
 */
#include "sender.h"

static int lower(struct sender *s)
{
    int err = postbag__lease_begin(s->lease, DB_NORMAL);

    if (err != POSTBAG_OK)
        return err;
    for (int i = 0; i < POSTBAG__LANES && err == POSTBAG_OK; i++)
        if (s->lanes[i].sent_hi > s->lanes[i].begun)
            err = postbag__outbox_release(s->outbox, i, s->lanes[i].begun);
    if (err == POSTBAG_OK)
        return postbag__lease_commit(s->lease);
    postbag__lease_rollback(s->lease);
    return err;
}

int postbag__sender_take_back(struct sender *s)
{
    int is_needed = 0;
    int err;

    for (int i = 0; i < POSTBAG__LANES; i++)
        is_needed |= s->lanes[i].sent_hi > s->lanes[i].begun;
    err = is_needed ? lower(s) : POSTBAG_OK;
    if (err != POSTBAG_OK)
        return err;
    for (int i = 0; i < POSTBAG__LANES; i++)
        if (s->lanes[i].sent_hi > s->lanes[i].begun)
            s->lanes[i].sent_hi = s->lanes[i].begun;
    return POSTBAG_OK;
}
