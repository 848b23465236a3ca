/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  An operator decides about commands that were given up.  Any
 * thread, on its own connection, in a FULL transaction of the caller.
 */
#ifndef POSTBAG_SRC_INBOX_REPAIR_H
#define POSTBAG_SRC_INBOX_REPAIR_H

#include "db.h"
#include "moment.h"
#include "postbag/admin.h"

/* Both: count_out tells how many; none is no error. */

POSTBAG_CHECK int postbag__inbox_requeue(struct db *db,
    const struct postbag_inbox_choice *which, int64_t *count_out);
POSTBAG_CHECK int postbag__inbox_discard(struct db *db,
    const struct postbag_inbox_choice *which, const struct moment *now,
    int64_t *count_out);

#endif
