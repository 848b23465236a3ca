/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  One table of a damaged database, row by row: what can be read of
 * it is put into the table of that name in another one.  A page that cannot be
 * read hides its rows only; those before and behind it are found.  The caller's
 * thread, on two connections of its own.
 */
#ifndef POSTBAG_SRC_SALVAGE_TABLE_H
#define POSTBAG_SRC_SALVAGE_TABLE_H

#include "db.h"

struct salvage_table {
    struct db *from; /* in a read transaction */
    struct db *to;   /* in a transaction; has the table, empty, no trigger */
    const char *name;
    /* Of which keys (rowids) nothing can be read; both ends are included, and
       there may have been fewer rows, or none.  hi INT64_MAX: where the table
       ended is unknown.  0, 0: of a table without rowids. */
    int (*lost)(void *ctx, const char *name, int64_t lo, int64_t hi);
    void *ctx;
    /* what came of it */
    int64_t rows;    /* read, and put there */
    int64_t damaged; /* read, but they cannot be: left out */
    int64_t holes;   /* how many ranges were lost */
    int is_unread;   /* ENOTFOUND: it is not there.  Else why, in fault */
    struct postbag_fault fault; /* of the first that could not be read */
};

/* OK: as far as it goes; ENOMEM, or an error of `to`, or what lost returned. */
POSTBAG_CHECK int postbag__salvage_table(struct salvage_table *t);

#endif
