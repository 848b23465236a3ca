/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  A token bucket: what is taken in any second is at most the rate
 * and an eighth of it (at least one), which is the burst after a pause.  Whole
 * millionths of a token are counted: rounding wins and loses nothing.  Pure.
 */
#ifndef POSTBAG_SRC_BUCKET_H
#define POSTBAG_SRC_BUCKET_H

#include <stdint.h>

struct bucket {
    uint32_t rate;    /* tokens a second; 0: no bound */
    int64_t level;    /* in millionths; below 0: a debt */
    int64_t since_us; /* when it was so */
};

/* Empty: who starts again and again gains no burst by it. */
void postbag__bucket_init(struct bucket *b, uint32_t rate, int64_t now_us);
/* From when on so many may be taken.  A full bucket gives more than it holds,
 * and has a debt then. */
int64_t postbag__bucket_ready_us(const struct bucket *b, uint32_t tokens);
/* Take them, allowed or not. */
void postbag__bucket_take(struct bucket *b, uint32_t tokens, int64_t now_us);

#endif
