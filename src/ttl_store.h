/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  SQL of what becomes too old while it waits: the rows ahead of a
 * cursor, held ones with a ttl_ms, and since when rows were seen whose own
 * stamps do not tell.  Engine thread, one connection.
 */
#ifndef POSTBAG_SRC_TTL_STORE_H
#define POSTBAG_SRC_TTL_STORE_H

#include "row.h"
#include "sightings.h"

/* The table and the index of it, in a new database. */
POSTBAG_CHECK int postbag__ttl_create(struct db *db);

struct ttl_store {
    struct db *db;
    const char *dest; /* borrowed */
    struct stmt ahead_bulk, ahead_urgent, held, unstamped, forget, see;
};

/* A row of the log, or a held one: who it is, and what its age is told by. */
struct ageing {
    struct row row; /* seq, ttl_ms, created_ms, boot, mono_ms, priority */
    int is_ours;    /* addressed to this destination, or to all */
};

POSTBAG_CHECK int postbag__ttl_open(
    struct ttl_store *t, struct db *db, const char *dest);
void postbag__ttl_close(struct ttl_store *t);

/* Rows of a lane behind seq `after`, in order, at most `limit`: begin, then
 * next until it returns 0; negative is an error.  After 0 or an error the
 * statement is reset; a caller that stops early calls ahead_end. */
void postbag__ttl_ahead(
    struct ttl_store *t, int lane, int64_t after, uint32_t limit);
POSTBAG_CHECK int postbag__ttl_ahead_next(
    struct ttl_store *t, int lane, struct ageing *out);
void postbag__ttl_ahead_end(struct ttl_store *t, int lane);

/* The next held row behind seq `after` that waits and has a ttl_ms: 1, 0 or an
 * error. */
POSTBAG_CHECK int postbag__ttl_held(
    struct ttl_store *t, int64_t after, struct ageing *out);

/* The newest row of the log with a ttl_ms whose stamps may not tell its age, in
 * this boot or the next; 0: there is none.  And the first and last of such held
 * ones, also dead: they may be requeued. */
POSTBAG_CHECK int postbag__ttl_unstamped(
    struct ttl_store *t, int64_t *newest, struct askers *who);
/* Read, and in a fenced transaction replace, what was seen. */
POSTBAG_CHECK int postbag__ttl_load(struct ttl_store *t, struct sightings *out);
POSTBAG_CHECK int postbag__ttl_save(
    struct ttl_store *t, const struct sightings *seen);

#endif
