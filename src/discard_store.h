/* SPDX-License-Identifier: MIT */
/* Floor 2.  An operator gives a held message up for good. */
#ifndef POSTBAG_SRC_DISCARD_STORE_H
#define POSTBAG_SRC_DISCARD_STORE_H

#include "db.h"

/* In a FULL transaction of the caller.  id not NULL: by id; else by seq.
 * POSTBAG_ENOTFOUND: not held.  POSTBAG_EAGAIN: the cursor is not past it. */
POSTBAG_CHECK int postbag__discard(struct db *db, const char *dest, int64_t seq,
    const struct postbag_id *id, int64_t wall_ms);

#endif
