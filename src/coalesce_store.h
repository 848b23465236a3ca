/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  SQL of coalescing: which row a newer one replaces, and the trigger
 * that deletes replaced rows of the log, whoever puts the newer one.
 *
 * A row replaces older ones of the same coalesce, key and lane that go to no
 * other destination than it does.
 */
#ifndef POSTBAG_SRC_COALESCE_STORE_H
#define POSTBAG_SRC_COALESCE_STORE_H

#include "row.h"

/*
 * NEW replaces o, and no relay has begun with o: it is above every reservation
 * of its lane, and so above every cursor, too.
 */
#define POSTBAG__REPLACED \
    "o.coalesce = NEW.coalesce AND o.seq <> NEW.seq" \
    " AND o.priority = NEW.priority AND o.key IS NEW.key" \
    " AND (NEW.dest IS NULL OR o.dest IS NEW.dest)" \
    " AND o.seq > (SELECT max(sent_hi) FROM outbox_cursor" \
    "  WHERE lane = NEW.priority)"

/* Trigger outbox_replace and the indexes, in a new database. */
POSTBAG_CHECK int postbag__coalesce_create(struct db *db);

struct coalesce_store {
    struct db *db;
    const char *dest; /* borrowed */
    struct stmt newer, newer_than_held, older_held;
};

POSTBAG_CHECK int postbag__coalesce_open(
    struct coalesce_store *c, struct db *db, const char *dest);
void postbag__coalesce_close(struct coalesce_store *c);

/* Is a newer row of the log there that replaces this one?  1, 0 or an error. */
POSTBAG_CHECK int postbag__coalesce_newer(
    struct coalesce_store *c, int64_t seq);
/* The same for a held row, which a held one may replace, too; not a dead one.
 */
POSTBAG_CHECK int postbag__coalesce_newer_than_held(
    struct coalesce_store *c, int64_t seq);
/* The oldest retry or behind row, no replay, that this row of the log replaces:
 * 1 and its
 * seq, 0, or an error. */
POSTBAG_CHECK int postbag__coalesce_older_held(
    struct coalesce_store *c, int64_t seq, int64_t *out);
#endif
