/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  What becomes too old while it waits makes room for others, also
 * while the link is down.  The cursor is a prefix of the log, so of a lane only
 * the head is looked at; the rest is seen when it comes to be the head, or to
 * be sent.
 */
#include "sender.h"

enum {
    MOST_ROWS = 256, /* of a lane, in one step */
    MOST_HELD = 64,
    SOON_US = 1000 * 1000,
    SEE_US = 5 * 1000 * 1000, /* a mark for what came since the last */
    /* the wall clock may be set meanwhile */
    LATEST_US = 60 * 1000 * 1000
};

int64_t postbag__sender_over_in_ms(
    const struct sender *s, const struct row *row, int64_t now_us)
{
    struct moment now = postbag__moment_at(s->shared->port, s->boot, now_us);

    return postbag__row_over_in_ms(
        row, &now, postbag__sightings_age_ms(&s->seen, row->seq, &now));
}

/* ---- when ---- */

void postbag__sender_plan_sweep(struct sender *s)
{
    const struct postbag_port *port = s->shared->port;
    int64_t soon_us = port->mono_us(port->ctx) + SOON_US;

    if (soon_us < s->sweep_us && postbag__sender_has_work(s))
        s->sweep_us = soon_us;
}

static void look_again_in(struct sender *s, int64_t now_us, int64_t ms)
{
    int64_t at_us = now_us + LATEST_US;

    if (ms < LATEST_US / 1000)
        at_us = now_us + ms * 1000;
    if (ms != INT64_MAX && at_us < s->sweep_us)
        s->sweep_us = at_us;
}

/* ---- the head of a lane ---- */

/* Up to which row is everything too old, or not ours?  0: the first of ours is
 * not.  Many that are not ours are passed, to see what is behind them. */
static int find_last(struct sender *s, int i, int64_t now_us, int64_t *last)
{
    struct ageing found;
    int64_t left_ms = 0;
    int rows = 0;
    int err;

    *last = 0;
    postbag__ttl_ahead(s->ttl, i, s->lanes[i].acked, MOST_ROWS);
    /* what came since the last look is planned by the next one */
    while ((err = postbag__ttl_ahead_next(s->ttl, i, &found)) == 1 &&
           found.row.seq <= s->newest) {
        if (found.is_ours)
            left_ms = postbag__sender_over_in_ms(s, &found.row, now_us);
        if (left_ms > 0)
            break;
        if (found.is_ours || ++rows == MOST_ROWS)
            *last = found.row.seq;
    }
    postbag__ttl_ahead_end(s->ttl, i);
    if (*last != 0)
        look_again_in(s, now_us, 0);
    else if (left_ms > 0)
        look_again_in(s, now_us, left_ms);
    return err < 0 ? err : POSTBAG_OK;
}

static int drop_entry(struct sender *s, int i, struct entry *e)
{
    struct row row;
    int err = postbag__outbox_fetch(s->outbox, e->seq, &s->row_arena, &row);

    if (err == POSTBAG_OK)
        return postbag__sender_expire(s, i, e);
    if (row.is_damaged)
        return postbag__sender_drop_damaged(s, i, e);
    if (err != POSTBAG_ENOTFOUND)
        return err;
    /* dropped before it was reserved, and counted then */
    postbag__lane_settle(&s->lanes[i], e, OUTCOME_GONE);
    return POSTBAG_OK;
}

/* The head, unless it is in flight. */
static struct entry *head_of(struct lane *l)
{
    struct entry *e = l->count > 0 ? postbag__lane_at(l, 0) : NULL;

    return e != NULL && e->state == ENTRY_READY ? e : NULL;
}

/* Reserved first, as what is sent is: whoever drops rows above the reservation
 * counts them himself. */
static int sweep_lane(struct sender *s, int i, int64_t now_us)
{
    struct lane *l = &s->lanes[i];
    struct entry *e;
    int64_t last = 0;
    int err;

    if (l->count > 0 && head_of(l) == NULL)
        return POSTBAG_OK;
    err = find_last(s, i, now_us, &last);
    if (err != POSTBAG_OK || last == 0)
        return err;
    err = postbag__sender_reserve(s, i, last);
    if (err == POSTBAG_OK)
        err = postbag__sender_scan(s, i);
    while (err == POSTBAG_OK && (e = head_of(l)) != NULL && e->seq <= last)
        err = drop_entry(s, i, e);
    return err;
}

/* ---- what is held ---- */

/* What is in flight waits for its answer, and what the saved cursor has not
 * passed would be found in the log again. */
static int may_drop(const struct sender *s, const struct row *row)
{
    return !postbag__window_has_held(&s->window, row->seq) &&
           row->seq <= s->lanes[row->priority].saved;
}

/* Those whose time is over, of the next few. */
static int find_held(
    struct sender *s, int64_t now_us, int64_t over[MOST_HELD], int *count_out)
{
    struct ageing found;
    int looked;
    int err = 1;

    *count_out = 0;
    for (looked = 0; looked < MOST_HELD; looked++) {
        int64_t left_ms;

        err = postbag__ttl_held(s->ttl, s->swept, &found);
        if (err != 1)
            break;
        s->swept = found.row.seq;
        left_ms = postbag__sender_over_in_ms(s, &found.row, now_us);
        if (left_ms == 0 && may_drop(s, &found.row))
            over[(*count_out)++] = found.row.seq;
        look_again_in(s, now_us, left_ms > 0 ? left_ms : SOON_US / 1000);
    }
    if (err == 1)
        look_again_in(s, now_us, SOON_US / 1000);
    else
        s->swept = 0;
    return err < 0 ? err : POSTBAG_OK;
}

static int drop_held(struct sender *s, const int64_t over[], int count)
{
    const struct postbag_port *port = s->shared->port;
    int64_t wall_ms = port->wall_ms(port->ctx);
    int err = postbag__lease_begin(s->lease, DB_FULL);

    if (err != POSTBAG_OK)
        return err;
    for (int i = 0; i < count && err == POSTBAG_OK; i++)
        err = postbag__held_drop(s->held, over[i], "ttl", wall_ms);
    if (err == POSTBAG_OK)
        err = postbag__lease_commit(s->lease);
    else
        postbag__lease_rollback(s->lease);
    if (err != POSTBAG_OK)
        return err;
    s->newly_over += (uint32_t)count;
    postbag__sender_look_after(s);
    return POSTBAG_OK;
}

static int sweep_held(struct sender *s, int64_t now_us)
{
    int64_t over[MOST_HELD];
    int count = 0;
    int err;

    if (s->held_stats.live == 0)
        return POSTBAG_OK;
    err = find_held(s, now_us, over, &count);
    return err == POSTBAG_OK && count > 0 ? drop_held(s, over, count) : err;
}

/* ---- what does not know its age ---- */

/* Every row of the log up to here is settled. */
static int64_t settled_upto(const struct sender *s)
{
    int64_t upto = INT64_MAX;

    for (int i = 0; i < POSTBAG__LANES; i++)
        if (s->lanes[i].acked < upto)
            upto = s->lanes[i].acked;
    return upto;
}

static int save_seen(struct sender *s)
{
    int err = postbag__lease_begin(s->lease, DB_NORMAL);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__ttl_save(s->ttl, &s->seen);
    if (err == POSTBAG_OK)
        err = postbag__lease_commit(s->lease);
    else
        postbag__lease_rollback(s->lease);
    if (err == POSTBAG_OK)
        s->is_seen_unsaved = 0;
    return err;
}

static void see(struct sender *s, int64_t newest, int64_t now_us)
{
    struct moment now = postbag__moment_at(s->shared->port, s->boot, now_us);
    int is_new = newest > postbag__sightings_newest(&s->seen, &now);

    s->is_seen_unsaved |= postbag__sightings_put_right(&s->seen, &now);
    if (is_new && now_us >= s->see_us) {
        postbag__sightings_add(&s->seen, newest, &now);
        s->see_us = now_us + SEE_US;
        s->is_seen_unsaved = 1;
    } else if (is_new) {
        look_again_in(s, now_us, (s->see_us - now_us) / 1000 + 1);
    }
    if (s->is_seen_unsaved)
        look_again_in(s, now_us, SOON_US / 1000);
}

/* What is sent at once needs no mark: one is written when it has waited, or
 * died. */
static int note_seen(struct sender *s, int64_t now_us)
{
    struct askers who = {.settled = settled_upto(s)};
    int64_t newest = 0;
    int err = postbag__ttl_unstamped(s->ttl, &newest, &who);

    if (err != POSTBAG_OK)
        return err;
    if (postbag__sightings_forget(&s->seen, &who))
        s->is_seen_unsaved = 0; /* none but the newest can be */
    if (s->is_seen_unsaved)
        err = save_seen(s);
    if (newest <= who.settled)
        newest = who.last_held;
    if (err == POSTBAG_OK && newest > 0)
        see(s, newest, now_us);
    return err;
}

/* ---- all ---- */

int postbag__sender_sweep(struct sender *s, int64_t now_us)
{
    int64_t due_us = s->sweep_us;
    int err = POSTBAG_OK;

    if (now_us < due_us)
        return POSTBAG_OK;
    s->sweep_us = INT64_MAX;
    err = note_seen(s, now_us);
    for (int i = 0; i < POSTBAG__LANES && err == POSTBAG_OK; i++)
        err = sweep_lane(s, i, now_us);
    if (err == POSTBAG_OK)
        err = sweep_held(s, now_us);
    if (err != POSTBAG_OK)
        s->sweep_us = due_us;
    return err;
}
