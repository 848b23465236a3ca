/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  Whose turn it is to send: the highest lane that waits, but a lane
 * that waits has at least one of `share` sends of its own and higher lanes.
 * So bulk has 1 of 8, lane 1 has 1 of 8 of the rest, and so on upwards.  Pure.
 */
#ifndef POSTBAG_SRC_CHOOSER_H
#define POSTBAG_SRC_CHOOSER_H

#include <stdint.h>

#include "lane.h"

struct chooser {
    uint32_t share;
    /* Sends of higher lanes, while this one waited, since its own last. */
    uint32_t overtaken[POSTBAG__LANES];
};

/* The lane whose turn it is; waiting: bit i for lane i, not 0.  Below the
 * highest that waits: it has been overtaken often enough. */
int postbag__chooser_pick(const struct chooser *c, unsigned waiting);
/* That lane has sent; the others still wait as they did. */
void postbag__chooser_note_sent(struct chooser *c, int lane, unsigned waiting);

#endif
