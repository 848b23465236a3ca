/* SPDX-License-Identifier: MIT */
/* See suspicion.h.  A row that was set aside needs no count: what it did
 * before stands in its error, and one more death decides. */
#include "suspicion.h"

void postbag__suspicion_link_up(struct suspicion *s)
{
    s->was_acked = 0;
    s->lost = 0;
}

static void settle_one(struct suspicion *s)
{
    if (s->left > 0)
        s->left--;
}

void postbag__suspicion_answered(struct suspicion *s)
{
    s->was_acked = 1;
    s->deaths = 0;
    settle_one(s);
}

void postbag__suspicion_lost(struct suspicion *s, int64_t seq)
{
    s->lost++;
    s->last = seq;
}

static void count_death(struct suspicion *s, uint32_t lost, int is_blamed)
{
    if (!s->was_acked)
        s->deaths++;
    if (is_blamed)
        s->deaths = SUSPICION_DEATHS;
    if (s->deaths >= SUSPICION_DEATHS && s->left < lost)
        s->left = lost;
}

/* Not begun anew when set aside: if that cannot be written, the next death
 * sets it aside. */
static enum suspicion_verdict count_alone(struct suspicion *s)
{
    if (s->seq != s->last)
        s->alone = 0;
    s->seq = s->last;
    s->alone++;
    if (s->alone < SUSPICION_ALONE)
        return SUSPICION_NONE;
    settle_one(s);
    return SUSPICION_SET_ASIDE;
}

enum suspicion_verdict postbag__suspicion_death(
    struct suspicion *s, int is_blamed, int is_suspect)
{
    uint32_t lost = s->lost;

    if (lost == 0)
        return SUSPICION_NONE;
    s->lost = 0; /* an attempt that comes to nothing takes nothing along */
    if (lost == 1 && is_suspect)
        return s->was_acked ? SUSPICION_GUILTY : SUSPICION_AGAIN;
    count_death(s, lost, is_blamed);
    return lost == 1 ? count_alone(s) : SUSPICION_NONE;
}

int postbag__suspicion_isolates(const struct suspicion *s)
{
    return s->left > 0;
}
