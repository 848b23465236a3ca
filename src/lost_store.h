/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  SQL of outbox_lost: which rows were dropped, and why.  An entry
 * names each of them; of a destination so many do, and beyond that the oldest
 * are summed up, one entry a reason, whoever records more.
 */
#ifndef POSTBAG_SRC_LOST_STORE_H
#define POSTBAG_SRC_LOST_STORE_H

#include "db.h"
#include "lane.h"

enum { POSTBAG__LOST_MOST = 1000 };

/* All there are, as a list in SQL (FORMAT.md says what they mean). */
#define POSTBAG__LOST_REASONS \
    "'ttl', 'limit', 'coalesced', 'detached', 'discarded', 'dead_overflow'," \
    " 'damaged'"

struct lost_store {
    struct db *db;
    const char *dest; /* borrowed */
    struct stmt grow, add;
};

/* The table with what bounds it, in a new database. */
POSTBAG_CHECK int postbag__lost_create(struct db *db);

POSTBAG_CHECK int postbag__lost_open(
    struct lost_store *l, struct db *db, const char *dest);
void postbag__lost_close(struct lost_store *l);

/* Record dropped rows, in the transaction that counts them.  An entry of the
 * same reason that ends right before them grows.  Rows with others between
 * them, and replays, are summed up. */
POSTBAG_CHECK int postbag__lost_note(struct lost_store *l,
    const struct lost *lost, const char *reason, int64_t at_ms);

#endif
