/* SPDX-License-Identifier: MIT */
/* See suspicion.h.  A row that was set aside needs no count: what it did
 * before stands in its error, and one more death decides. */
#include "suspicion.h"

#include <string.h>

void postbag__suspicion_link_up(struct suspicion *s)
{
    s->answered = 0;
    s->was_acked = 0;
    s->has_denied = 0;
    s->lost = 0;
}

static void settle_one(struct suspicion *s)
{
    if (s->left > 0)
        s->left--;
}

void postbag__suspicion_answered(
    struct suspicion *s, uint64_t nth, int is_success)
{
    if (nth > s->answered)
        s->answered = nth;
    if (is_success) {
        s->was_acked = 1;
        s->deaths = 0;
        s->aside = 0;
    }
    settle_one(s);
}

void postbag__suspicion_lost(struct suspicion *s, int64_t seq, uint64_t nth)
{
    if (s->lost == 0 || nth < s->nth) {
        s->oldest = seq;
        s->nth = nth;
    }
    s->lost++;
}

/* ---- what is known of a row ---- */

/* Where the record of this row is, or else the oldest. */
static int find(const struct suspicion *s, int64_t seq)
{
    int at = 0;

    while (at < SUSPICION_ROWS - 1 && s->records[at].seq != seq)
        at++;
    return at;
}

static void move_to_front(struct suspicion *s, int at)
{
    struct suspicion_record found = s->records[at];

    memmove(&s->records[1], s->records, (size_t)at * sizeof(found));
    s->records[0] = found;
}

/* Of a row of which nothing is known: a new one, in place of the oldest. */
static struct suspicion_record *record_of(struct suspicion *s, int64_t seq)
{
    int at = find(s, seq);

    if (s->records[at].seq != seq)
        s->records[at] = (struct suspicion_record){.seq = seq};
    move_to_front(s, at);
    return &s->records[0];
}

void postbag__suspicion_forget(struct suspicion *s, int64_t seq)
{
    int at = find(s, seq);

    if (s->records[at].seq != seq)
        return;
    memmove(&s->records[at], &s->records[at + 1],
        (size_t)(SUSPICION_ROWS - 1 - at) * sizeof(s->records[0]));
    s->records[SUSPICION_ROWS - 1].seq = 0;
}

/* ---- the end of a connection ---- */

/* Where others are answered on each connection, one that never is may be in
 * company each time. */
static void count_death(
    struct suspicion *s, uint32_t lost, enum suspicion_end end)
{
    if (!postbag__suspicion_was_acked(s))
        s->deaths++;
    if (end != SUSPICION_HANG_UP)
        s->deaths = SUSPICION_DEATHS;
    if (lost > 1 && ++record_of(s, s->oldest)->firsts >= SUSPICION_ENDS)
        s->deaths = SUSPICION_DEATHS;
    if (s->deaths >= SUSPICION_DEATHS && s->left < lost)
        s->left = lost;
}

/* Not begun anew when set aside: if that cannot be written, the next end sets
 * it aside.  Nor when another row is at fault: the two would take turns. */
static enum suspicion_verdict count_end(
    struct suspicion *s, struct suspicion_record *r)
{
    r->ends++;
    if (r->ends < SUSPICION_ENDS)
        return SUSPICION_NONE;
    settle_one(s);
    s->aside++;
    return SUSPICION_SET_ASIDE;
}

/* A broker that answered what was sent later passed this one over.  So its next
 * silence speaks against it, too, for nothing may be left to be sent beside it;
 * nor is there anything while it is one at a time, or the one is in the way of
 * all others.  Several in the way are told apart one at a time. */
static enum suspicion_verdict count_silence(
    struct suspicion *s, uint32_t lost, int is_in_the_way)
{
    struct suspicion_record *r = record_of(s, s->oldest);
    int has_no_other =
        lost == 1 && (postbag__suspicion_isolates(s) || is_in_the_way);

    if (s->nth < s->answered)
        r->is_passed = 1;
    if (r->is_passed || has_no_other)
        return count_end(s, r);
    if (is_in_the_way)
        count_death(s, lost, SUSPICION_HANG_UP);
    return SUSPICION_NONE;
}

/* A quota is of all messages, so a suspect may only have been the next. */
static enum suspicion_verdict judge_suspect(
    const struct suspicion *s, enum suspicion_end end)
{
    if (!postbag__suspicion_was_acked(s))
        return SUSPICION_AGAIN;
    return end == SUSPICION_QUOTA ? SUSPICION_CHARGE : SUSPICION_GUILTY;
}

enum suspicion_verdict postbag__suspicion_death(struct suspicion *s,
    enum suspicion_end end, const struct suspicion_row *lone)
{
    uint32_t lost = s->lost;

    s->lost = 0; /* an attempt that comes to nothing takes nothing along */
    s->denied += (uint32_t)s->has_denied;
    s->has_denied = 0;
    if (lost == 0 || end == SUSPICION_NO_ROWS)
        return SUSPICION_NONE;
    if (lost == 1 && lone->is_suspect) {
        postbag__suspicion_forget(s, s->oldest);
        return judge_suspect(s, end);
    }
    if (end == SUSPICION_SILENCE)
        return count_silence(s, lost, lone->is_in_the_way);
    count_death(s, lost, end);
    if (end == SUSPICION_QUOTA && postbag__suspicion_was_acked(s))
        return SUSPICION_NONE; /* it is the quota that was used up */
    return lost == 1 ? count_end(s, record_of(s, s->oldest)) : SUSPICION_NONE;
}

int postbag__suspicion_isolates(const struct suspicion *s)
{
    return s->left > 0;
}

int postbag__suspicion_was_acked(const struct suspicion *s)
{
    return s->was_acked;
}

void postbag__suspicion_deny(struct suspicion *s)
{
    s->has_denied = 1;
}

void postbag__suspicion_tried(struct suspicion *s)
{
    s->denied = 0;
}

int postbag__suspicion_owes(const struct suspicion *s)
{
    return s->denied >= SUSPICION_ENDS;
}
