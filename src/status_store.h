/* SPDX-License-Identifier: MIT */
/* Floor 2.  Numbers about the outbox, by seeks, whatever the backlog. */
#ifndef POSTBAG_SRC_STATUS_STORE_H
#define POSTBAG_SRC_STATUS_STORE_H

#include "db.h"
#include "moment.h"
#include "postbag/admin.h"

/* In a transaction of the caller, so that the numbers fit each other.
 * OK, ENOTFOUND (no such destination), or an error. */
POSTBAG_CHECK int postbag__status_read(struct db *db, const char *dest,
    const struct moment *now, struct postbag_status *out);

/* The file and the inbox. */
POSTBAG_CHECK int postbag__database_read(
    struct db *db, struct postbag_database *out);

#endif
