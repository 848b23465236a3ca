/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Coalescing in the relay: of what the trigger may not touch, since
 * it is reserved, and of what was refused and is held.  Rows of one coalesce
 * (and key) wait for each other as those of a key do, so an older one is never
 * in flight when a newer one leaves, and cannot arrive after it.
 */
#include "sender.h"

/* A held row may go only when the saved cursor is past it: gone before, it
 * would after a crash be found in the log, and be counted twice. */
static int drop_older_held(struct sender *s, int lane, const struct entry *e)
{
    struct row row;
    int64_t seq = 0;
    int attempts;
    int err;

    while (
        (err = postbag__coalesce_older_held(s->coalesce, e->seq, &seq)) == 1) {
        if (postbag__window_has_held(&s->window, seq) ||
            seq > s->lanes[lane].saved)
            return FATE_GO_ON;
        err = postbag__held_fetch(s->held, seq, &s->row_arena, &row, &attempts);
        if (err == 1)
            err = postbag__sender_drop_held(s, &row, "coalesced");
        if (err != POSTBAG_OK)
            return err;
    }
    return err;
}

int postbag__sender_coalesce(struct sender *s, int lane, struct entry *e)
{
    int err = postbag__coalesce_newer(s->coalesce, e->seq);

    if (err == 1) {
        postbag__lane_settle(&s->lanes[lane], e, OUTCOME_REPLACED);
        postbag__sender_note_gain(s);
        return FATE_GONE;
    }
    if (err == POSTBAG_OK && s->held_stats.live > 0)
        return drop_older_held(s, lane, e);
    return err;
}

/* A replay is wanted as it was, whatever came since. */
int postbag__sender_replace_held(struct sender *s, const struct row *row)
{
    int err = row->coalesces && !row->is_replay
                  ? postbag__coalesce_newer_than_held(s->coalesce, row->seq)
                  : 0;

    if (err != 1)
        return err;
    err = postbag__sender_drop_held(s, row, "coalesced");
    return err == POSTBAG_OK ? FATE_GONE : err;
}
