/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Does the database hold what must hold?  The ledger of each
 * destination, and what the tables say of each other (FORMAT.md has the
 * equations).  Only reads; any thread, on its own connection.
 */
#ifndef POSTBAG_SRC_VERIFY_H
#define POSTBAG_SRC_VERIFY_H

#include "db.h"
#include "postbag/admin.h"

/* Of one rule no more findings are told. */
enum { VERIFY_MOST = 10 };

/* In a read transaction of the caller.  OK, an error, or what v->finding
 * returned if that is not 0. */
POSTBAG_CHECK int postbag__verify(
    struct db *db, const struct postbag_verify *v);

/* What cannot be read is wrong, too, and the rest is looked at: tell of err,
 * if it is of that kind. */
POSTBAG_CHECK int postbag__verify_unreadable(struct db *db,
    const struct postbag_verify *v, const char *check, const char *dest,
    int err);

#endif
