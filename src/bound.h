/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  How much may be held: rows that were refused, and rows that wait
 * behind them.  At the bound nothing is taken from the log that might have to
 * be held, too; what is held is sent as ever, and makes room.  Pure.
 */
#ifndef POSTBAG_SRC_BOUND_H
#define POSTBAG_SRC_BOUND_H

#include <stdint.h>

struct bound {
    uint32_t max_rows, max_bytes;
    int is_reached; /* bulk waits; so it is told until an eighth is free */
};

/* May one more row be taken, with so much held and in flight?  Bulk leaves an
 * eighth of the rows and bytes to urgent lanes. */
int postbag__bound_allows(
    const struct bound *b, int64_t rows, int64_t bytes, int is_bulk);

/* So much is held now.  1: is_reached has changed. */
int postbag__bound_watch(struct bound *b, int64_t rows, int64_t bytes);

#endif
