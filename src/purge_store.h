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

struct purge {
    /* Set once.  keep_ms 0: rows go as soon as they are settled; else when
       the outbox_acks entry that settled them is so old.  That entry carries
       wall time: a clock that was wrong makes a row go early or late, but
       not stay for ever. */
    int64_t keep_ms;
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
    struct db *db, struct purge *p, int64_t now_ms);

#endif
