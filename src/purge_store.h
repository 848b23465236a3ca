/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  Deletes settled rows from the low end of the log.
 *
 * A row goes when every destination has settled it in its lane (cursors also
 * pass rows that are not theirs), but never the newest row, which marks the
 * end of the log, and never one above the newest outbox_sum, which the next
 * running total still has to count.  Held rows are copies and stay.
 */
#ifndef POSTBAG_SRC_PURGE_STORE_H
#define POSTBAG_SRC_PURGE_STORE_H

#include "db.h"
#include "moment.h"

struct purge {
    /* Set once.  A settled row stays while the outbox_acks entry that settled
       it is younger than keep_ms, or while its seq is within keep_rows of the
       last that is settled in its lane.  Both 0: it goes. */
    int64_t keep_ms;
    int64_t keep_rows;
    uint32_t max_rows; /* most rows that one call looks at */
    /* Kept between calls; zero at first.  Below are no more rows of the
       lane, so that a row which pins the low end is passed once, not each
       time. */
    int64_t from[4];
    /* Result of the last call. */
    int64_t deleted;
    int more; /* call again: perhaps there is more */
};

/* One step, in a write transaction of the caller (NORMAL is enough: a purge
 * undone by a power cut is done again).  If that transaction rolls back, take
 * back *p too. */
POSTBAG_CHECK int postbag__purge(
    struct db *db, struct purge *p, const struct moment *now);

#endif
