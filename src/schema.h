/* SPDX-License-Identifier: MIT */
/* Floor 2.  The tables: create, check, migrate.  See FORMAT.md. */
#ifndef POSTBAG_SRC_SCHEMA_H
#define POSTBAG_SRC_SCHEMA_H

#include "db.h"

enum { POSTBAG__MAX_PAYLOAD_DEFAULT = 65536 };

/* Bring the database to POSTBAG_SCHEMA_VERSION: create what is missing,
 * migrate what is older, leave every table that is not ours alone.
 * max_payload 0 keeps what the database has.  One transaction. */
POSTBAG_CHECK int postbag__schema_ensure(struct db *db, uint32_t max_payload);

/* Is an outbox of our version in "main"?  OK or ESCHEMA. */
POSTBAG_CHECK int postbag__schema_check(struct db *db);

/* Is there a destination of that name?  OK or ENOTFOUND. */
POSTBAG_CHECK int postbag__schema_find_dest(struct db *db, const char *dest);

/* Make sure that a destination and its cursors exist; a new one starts with
 * the oldest row still stored.  In a transaction of the caller. */
POSTBAG_CHECK int postbag__schema_add_dest(struct db *db, const char *dest);

/* Of schema_inbox.c, for the migration to version 1. */
POSTBAG_CHECK int postbag__schema_create_inbox(struct db *db);

#endif
