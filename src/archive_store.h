/* SPDX-License-Identifier: MIT */
/* Floor 2.  Which settled rows of a destination are in no archive yet. */
#ifndef POSTBAG_SRC_ARCHIVE_STORE_H
#define POSTBAG_SRC_ARCHIVE_STORE_H

#include "db.h"
#include "postbag/care.h"

struct archive_batch {
    int64_t rows; /* handed out */
    int64_t upto; /* all settled rows up to here are handed out */
    int64_t gone; /* rows before the first that were deleted unseen */
};

/* Hand out the next rows, at most `most`.  In a read transaction of the
 * caller.  OK, ENOTFOUND (no such destination), an error, or what row
 * returned. */
POSTBAG_CHECK int postbag__archive_next(struct db *db, const char *dest,
    int64_t most, int (*row)(void *ctx, const struct postbag_row *row),
    void *ctx, struct archive_batch *out);

/* Rows up to here are in the archive.  In a transaction of the caller, NORMAL
 * is enough: what is forgotten is archived once more. */
POSTBAG_CHECK int postbag__archive_mark(
    struct db *db, const char *dest, int64_t upto);

#endif
