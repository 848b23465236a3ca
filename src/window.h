/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  What is in flight: a slot for each message handed to the
 * transport and not settled yet.  A token names slot and connection, so that
 * a late answer of an old connection matches nothing.
 */
#ifndef POSTBAG_SRC_WINDOW_H
#define POSTBAG_SRC_WINDOW_H

#include <stdint.h>

#include "postbag/postbag.h"

struct slot {
    int64_t seq;
    uint64_t nth;    /* send of its connection, from 1 */
    uint32_t bytes;  /* of the row */
    uint32_t packet; /* bytes of the whole PUBLISH */
    uint32_t generation;
    uint8_t used;
    uint8_t lane;
    uint8_t is_held;     /* a row of outbox_held, not of the log */
    uint8_t is_answered; /* what the answer means is not written yet */
};

struct window {
    struct slot *slots;
    uint32_t size; /* slots there are */
    uint32_t used;
    uint64_t bytes;      /* in flight: of the rows */
    uint64_t packets;    /* bytes in flight: of the whole PUBLISHes */
    uint64_t sends;      /* slots taken on this connection */
    uint32_t generation; /* of the connection now */
};

POSTBAG_CHECK int postbag__window_init(struct window *w, uint32_t size);
void postbag__window_free(struct window *w);
/* A new connection: nothing is in flight on it. */
void postbag__window_restart(struct window *w, uint32_t generation);
/* Take a slot; NULL if there is none.  *token_out names it. */
struct slot *postbag__window_take(struct window *w, uint32_t *token_out);
/* The slot of a token, or NULL if it is of another connection or free. */
struct slot *postbag__window_of(struct window *w, uint32_t token);
void postbag__window_give_back(struct window *w, struct slot *slot);
/* What is in flight for longest: its nth; 0: nothing is. */
uint64_t postbag__window_oldest(const struct window *w);
/* Is this row of outbox_held in flight? */
int postbag__window_has_held(const struct window *w, int64_t seq);

#endif
