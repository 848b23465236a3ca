/* SPDX-License-Identifier: MIT */
/* Floor 2.  How many dead commands there may be. */
#ifndef POSTBAG_SRC_INBOX_CAP_H
#define POSTBAG_SRC_INBOX_CAP_H

#include "inbox_purge.h"

/*
 * Give up the oldest dead commands beyond dead_max_rows, p->rows of them at
 * most, in a NORMAL transaction of its own; without any, none is begun.
 * dropped_out: how many.
 * Returns OK, EBUSY (nothing done), or what SQLite ran into.
 */
POSTBAG_CHECK int postbag__inbox_cap_dead(
    struct db *db, const struct inbox_purge *p, int64_t *dropped_out);

#endif
