/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  Room on the file system: the limit min_free_bytes in outbox_meta,
 * and a look at what is free that costs nothing at any rate of puts.
 *
 * A trigger cannot ask the file system.  So while there is no room, a trigger
 * stands that refuses what is put by plain SQL; postbag_put looks itself.
 */
#ifndef POSTBAG_SRC_ROOM_H
#define POSTBAG_SRC_ROOM_H

#include "db.h"
#include "postbag/port.h"
#include "postbag/pressure.h"

/* Store the limit, in a transaction of its own; writes nothing if it is so
 * already. */
/* The trigger. */
#define POSTBAG__ROOM_GUARD "outbox_limit_room"

POSTBAG_CHECK int postbag__room_set(struct db *db, uint32_t min_free_bytes);

struct room {
    struct db *db;
    const struct postbag_port *port;
    struct stmt limit, spare;
    int64_t next_us; /* look again; 0: never looked */
    int64_t min_free_bytes, page_size;
    /* free_bytes: with the free pages of the database; -1: unknown */
    struct postbag_room seen;
    int guard; /* 1: the trigger stands; 0: not; -1: nobody has looked */
};

/* db and port are borrowed until close. */
POSTBAG_CHECK int postbag__room_open(
    struct room *r, struct db *db, const struct postbag_port *port);
void postbag__room_close(struct room *r);

/* Look if the last look is old.  EFULL: no more than min_free_bytes are free;
 * never where the port cannot tell. */
POSTBAG_CHECK int postbag__room_check(struct room *r, int64_t now_us);

/* For the one that keeps house: looks as above, and 1 if the trigger stands and
 * should not, or does not and should; 0 or an error. */
POSTBAG_CHECK int postbag__room_guard_is_due(struct room *r, int64_t now_us);
/* Then set it up or take it away, in a transaction of its own. */
POSTBAG_CHECK int postbag__room_turn_guard(struct room *r);
/* Nobody will look any more: take it away, if it stands. */
POSTBAG_CHECK int postbag__room_drop_guard(struct room *r);

/* Look now; fill what is of the file system. */
POSTBAG_CHECK int postbag__room_fill(
    struct room *r, struct postbag_pressure *out);

#endif
