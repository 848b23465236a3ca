/* SPDX-License-Identifier: MIT */
/* Floor 2.  Rows for people to look at. */
#ifndef POSTBAG_SRC_LIST_STORE_H
#define POSTBAG_SRC_LIST_STORE_H

#include "db.h"
#include "postbag/admin.h"

typedef int (*postbag__each_row)(void *ctx, const struct postbag_row *row);

/* All three: in a read transaction of the caller; dest not NULL.  OK, an
 * error, or what each returned if that is not 0. */

/* ENOTFOUND: no such destination. */
POSTBAG_CHECK int postbag__list_rows(struct db *db,
    const struct postbag_row_filter *filter, postbag__each_row each, void *ctx);

/* id not NULL: by id, else by seq.  ENOTFOUND. */
POSTBAG_CHECK int postbag__show_row(struct db *db, const char *dest,
    int64_t seq, const struct postbag_id *id, postbag__each_row each,
    void *ctx);

POSTBAG_CHECK int postbag__list_inbox(struct db *db,
    const struct postbag_inbox_filter *filter,
    int (*each)(void *ctx, const struct postbag_inbox_row *row), void *ctx);

#endif
