/* SPDX-License-Identifier: MIT */
/* Floor 2.  SQL of outbox_late: when a held row was delivered. */
#ifndef POSTBAG_SRC_LATE_STORE_H
#define POSTBAG_SRC_LATE_STORE_H

#include "db.h"

/* In the transaction that delivers it, while it is still held.  Nothing is
 * written where nobody could ask: outbox_acks does not have when the cursor
 * passed the row, the row is purged, or it is a replay. */
POSTBAG_CHECK int postbag__late_note(
    struct db *db, const char *dest, int64_t seq, int64_t wall_ms);

#endif
