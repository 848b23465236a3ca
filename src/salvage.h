/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  What can be read of a damaged database becomes a new one: the
 * application's tables and ours, with the seqs and ids of what waits.  The
 * damaged one is only read.  The caller's thread.
 *
 * salvage.c reads and copies, salvage_ledger.c makes our tables fit each other
 * again.
 */
#ifndef POSTBAG_SRC_SALVAGE_H
#define POSTBAG_SRC_SALVAGE_H

#include "db.h"
#include "postbag/care.h"

struct salvage {
    struct db *from; /* postbag__db_open_damaged */
    struct db *to;   /* new and empty */
    const struct postbag_salvage *how;
    struct postbag_salvaged *out;
    int64_t now_ms;
    /* nothing of the table was lost */
    int log_is_whole, cursors_are_whole, held_is_whole, dests_are_whole;
};

/* OK; ECORRUPT: not even its schema can be read; an error of `to`; or what a
 * callback returned.  Then `to` is of no use. */
POSTBAG_CHECK int postbag__salvage(struct salvage *s);

/* In the transaction of the copying; our triggers are away.  Rows that cannot
 * be ours go, counters are counted anew. */
POSTBAG_CHECK int postbag__salvage_ledger(struct salvage *s);
/* With the triggers: outbox_lost names what of the log could not be read. */
POSTBAG_CHECK int postbag__salvage_note_lost(struct salvage *s);

#endif
