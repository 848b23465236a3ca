/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  Destinations come and go.  Each has a ledger of its own, which is
 * exact from its first moment and leaves with it.
 */
#ifndef POSTBAG_SRC_DEST_STORE_H
#define POSTBAG_SRC_DEST_STORE_H

#include "db.h"
#include "postbag/admin.h"

/* A name becomes part of file names and of SQL.  OK or EINVAL. */
POSTBAG_CHECK int postbag__dest_check_name(
    const char *name, struct postbag_fault *why);

/* "now" and "oldest"; EINVAL: neither. */
POSTBAG_CHECK int postbag__dest_from(const char *word, enum postbag_from *out);

/* Make sure that there is a destination of that name; one that is there stays
 * as it is.  A transaction of its own; FROM_OLDEST reads the log once. */
POSTBAG_CHECK int postbag__dest_add(
    struct db *db, const char *name, enum postbag_from from);

/* Remove a destination, its ledger, its held rows, its profile.  A transaction
 * of its own.  The caller holds the relay's lock.  ENOTFOUND; ESTATE: it is
 * the last one. */
POSTBAG_CHECK int postbag__dest_remove(struct db *db, const char *name);

#endif
