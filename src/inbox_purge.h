/* SPDX-License-Identifier: MIT */
/* Floor 2.  Forgetting done commands. */
#ifndef POSTBAG_SRC_INBOX_PURGE_H
#define POSTBAG_SRC_INBOX_PURGE_H

#include <stdint.h>

#include "db.h"
#include "moment.h"

/* The newest so many arrivals are kept, whatever their age. */
enum { INBOX_KEEP_NEWEST = 1000 };

/* Zero it once; the sweep goes on where the last call stopped. */
struct inbox_sweep {
    int64_t from;
    int64_t excess; /* so many of the oldest are too many still */
    /* Of the last call: */
    int64_t forgotten;   /* of those that were too many */
    int64_t youngest_ms; /* how long ago the youngest of them was done */
};

struct inbox_purge {
    struct moment now;
    int64_t keep_ms;
    int64_t done_max_rows;
    int64_t dead_max_rows;
    int64_t rows; /* look at so many at most */
};

/*
 * Look at the next rows and delete those that were done longer than keep_ms
 * ago, by what is known for sure (postbag__moment_age_ms): a clock that jumps
 * moves nothing in the boot in which a row was done.  A row that was done
 * before the clock was set gets a date when it is, of now if it is of an
 * earlier boot, and so ages from there.  Without work no write transaction is
 * begun.
 *
 * Of more done rows than done_max_rows the oldest arrivals are deleted whatever
 * their age, and counted in inbox_sum: when they become too many the sweep
 * starts afresh.
 *
 * In a NORMAL transaction of its own: a delete that a power cut undoes is
 * done again, and until then the row only remembers longer than it must.
 *
 * more_out: 0 when the sweep has come to the end and starts afresh.
 * Returns OK, EBUSY (nothing done), or what SQLite ran into.
 */
POSTBAG_CHECK int postbag__inbox_purge(struct db *db, struct inbox_sweep *sweep,
    const struct inbox_purge *p, int64_t *deleted_out, int *more_out);

#endif
