/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  How much of the inbox is open (due, deferred or claimed), and how
 * much may be: table inbox_sum, whose counters the triggers of
 * schema_inbox.c keep.
 */
#ifndef POSTBAG_SRC_INBOX_LIMIT_H
#define POSTBAG_SRC_INBOX_LIMIT_H

#include "db.h"

struct inbox_fill {
    int64_t rows;      /* open */
    int64_t bytes;     /* of their payloads and headers */
    int64_t max_rows;  /* 0: any number */
    int64_t max_bytes; /* 0: any number */
    int64_t forgotten; /* done rows that went before their time */
};

/* The query for postbag__inbox_fill_read; finalize it. */
POSTBAG_CHECK int postbag__inbox_fill_prepare(struct db *db, struct stmt *s);
POSTBAG_CHECK int postbag__inbox_fill_read(
    struct stmt *s, struct inbox_fill *out);

/* Both for once. */
POSTBAG_CHECK int postbag__inbox_fill(struct db *db, struct inbox_fill *out);

/* What options inbox_max_rows and inbox_max_bytes say is stored: 0 stays as it
 * is, POSTBAG__NO_LIMIT (limit_store.h) is none.  In a transaction of its own;
 * writes nothing if all is so already.  was and now are filled where it
 * succeeds. */
POSTBAG_CHECK int postbag__inbox_limits_take(struct db *db, uint32_t max_rows,
    uint32_t max_bytes, struct inbox_fill *was, struct inbox_fill *now);

#endif
