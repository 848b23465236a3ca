/* SPDX-License-Identifier: MIT */
/* See chooser.h. */
#include "chooser.h"

static int waits(unsigned waiting, int lane)
{
    return (waiting >> lane & 1u) != 0;
}

int postbag__chooser_pick(const struct chooser *c, unsigned waiting)
{
    int highest = POSTBAG__LANES - 1;

    while (highest > 0 && !waits(waiting, highest))
        highest--;
    /* the lowest first: what it gets is counted against none above it */
    for (int i = 0; i < highest; i++)
        if (waits(waiting, i) && c->overtaken[i] + 1 >= c->share)
            return i;
    return highest;
}

void postbag__chooser_note_sent(struct chooser *c, int lane, unsigned waiting)
{
    c->overtaken[lane] = 0;
    for (int i = 0; i < lane; i++)
        if (waits(waiting, i) && c->overtaken[i] + 1 < c->share)
            c->overtaken[i]++;
}
