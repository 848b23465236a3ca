/* SPDX-License-Identifier: MIT */
/* Floor 2.  An operator sends dead messages again. */
#ifndef POSTBAG_SRC_REQUEUE_STORE_H
#define POSTBAG_SRC_REQUEUE_STORE_H

#include "db.h"

/* In a FULL transaction of the caller.  id not NULL: by id; else by seq; 0:
 * all that are dead.  *count_out tells how many are due at once now. */
POSTBAG_CHECK int postbag__requeue(struct db *db, const char *dest, int64_t seq,
    const struct postbag_id *id, int64_t *count_out);

#endif
