/* SPDX-License-Identifier: MIT */
/* Floor 2.  Settled rows that are still stored are sent once more. */
#ifndef POSTBAG_SRC_REPLAY_STORE_H
#define POSTBAG_SRC_REPLAY_STORE_H

#include "db.h"
#include "postbag/admin.h"

/*
 * In a write transaction of the caller; which->dest not NULL, and a zero bound
 * is none.  count_out: rows queued; next_out: the first row that is left, 0:
 * none is.
 */
POSTBAG_CHECK int postbag__replay(struct db *db,
    const struct postbag_replay *which, int64_t wall_ms, int64_t *count_out,
    int64_t *next_out);

#endif
