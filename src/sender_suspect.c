/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  What the death of a connection means for the row that was alone
 * in flight: nothing, set aside, or dead (suspicion.h).  What must survive a
 * crash, that it is suspect, stands in its error.
 */
#include "sender.h"

/* What postbag__held_is_suspect looks for begins the first. */
static const char set_aside[] =
    HELD_SUSPECT " the link died 3 times while it alone was in flight";
static const char guilty[] =
    "the link died while it alone was in flight: 3 times, and again after the"
    " broker had taken another message";

/* Without an attempt charged.  Not before others had a turn: what is suspect
 * may have to end a connection to be judged. */
static int postpone(struct sender *s, int64_t seq)
{
    const struct postbag_port *port = s->shared->port;
    struct due due = {.boot = s->boot};
    int err = postbag__lease_begin(s->lease, DB_FULL);

    if (err != POSTBAG_OK)
        return err;
    due.ms = port->mono_us(port->ctx) / 1000 + s->options.retry_cap_ms;
    err = postbag__held_postpone(s->held, seq, &due, set_aside);
    if (err != POSTBAG_OK) {
        postbag__lease_rollback(s->lease);
        return err;
    }
    err = postbag__lease_commit(s->lease);
    return err == POSTBAG_OK ? postbag__sender_look(s) : err;
}

static int set_row_aside(struct sender *s, int64_t seq)
{
    for (int i = 0; i < POSTBAG__LANES; i++) {
        struct entry *e = postbag__lane_find(&s->lanes[i], seq);

        if (e != NULL && e->state == ENTRY_READY)
            return postbag__sender_hold(s, i, e, "retry", set_aside);
    }
    return postpone(s, seq); /* a held row that others had not killed */
}

static int bury(struct sender *s, int64_t seq)
{
    struct row row;
    int attempts;
    int err = postbag__held_fetch(s->held, seq, &s->row_arena, &row, &attempts);

    if (err != 1)
        return err; /* an operator removed it: nothing to record */
    return postbag__sender_bury(s, &row, guilty);
}

int postbag__sender_judge(struct sender *s, int is_blamed)
{
    struct suspicion *suspicion = &s->suspicion;
    int is_suspect = 0;

    if (suspicion->lost == 1)
        is_suspect = postbag__held_is_suspect(s->held, suspicion->last);
    if (is_suspect < 0)
        return is_suspect;
    switch (postbag__suspicion_death(suspicion, is_blamed, is_suspect)) {
    case SUSPICION_SET_ASIDE:
        return set_row_aside(s, suspicion->last);
    case SUSPICION_AGAIN:
        return postpone(s, suspicion->last);
    case SUSPICION_GUILTY:
        return bury(s, suspicion->last);
    case SUSPICION_NONE:
        break;
    }
    return POSTBAG_OK;
}

/* Others first, since only they can prove the connection; but at the bound
 * none are sent. */
int postbag__sender_may_try_suspect(const struct sender *s)
{
    if (s->suspicion.was_acked || s->bound.is_reached)
        return 1;
    for (int i = 0; i < POSTBAG__LANES; i++)
        if (s->lanes[i].count > 0 || s->lanes[i].scanned < s->newest)
            return 0;
    return 1;
}
