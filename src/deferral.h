/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  Commands that wait until the versions before them have come.
 *
 *     gap --> deferred --> due     the missing one has come; or enough waits,
 *                |                 or it waited for long enough: as a gap
 *                +-------> dead    by then it is a repeat or a step back, and
 *                                  that is refused
 *
 * A row that goes on gets a new arrival, so that commands of a key are handled
 * in the order of their versions.  What waits goes on like this whatever the
 * rule for gaps is by then.  Every call stands in a transaction of the
 * caller, but for is_overdue, which reads.  One thread at a time.
 */
#ifndef POSTBAG_SRC_DEFERRAL_H
#define POSTBAG_SRC_DEFERRAL_H

#include "consumers.h"
#include "order_store.h"

enum deferral_statement {
    DEFERRAL_PARK,
    DEFERRAL_JOIN,
    DEFERRAL_COUNT,
    DEFERRAL_LOWEST,
    DEFERRAL_FREE,
    DEFERRAL_OVERDUE,
    DEFERRAL_STATEMENTS
};

struct deferral {
    struct db *db;
    struct order_store order;
    struct stmt stmts[DEFERRAL_STATEMENTS];
};

POSTBAG_CHECK int postbag__deferral_open(struct deferral *d, struct db *db);
void postbag__deferral_close(struct deferral *d);

/* Before it is inserted: as postbag__order_check, by the consumer's rules. */
POSTBAG_CHECK int postbag__deferral_check(
    struct deferral *d, const struct consumer *who, struct inbox_arrival *a);
/* The row of *a was inserted last, and is due: it waits, or is taken and lets
 * those go on that waited for it. */
POSTBAG_CHECK int postbag__deferral_stored(struct deferral *d,
    const struct consumer *who, const struct inbox_arrival *a);

/* Has a row of the consumer waited for long enough?  The time of another boot
 * is over. */
POSTBAG_CHECK int postbag__deferral_is_overdue(struct deferral *d,
    const struct consumer *who, const struct inbox_now *now, int *is_out);
/* If one has, the lowest version of its key goes on as a gap, and what that
 * lets go on. */
POSTBAG_CHECK int postbag__deferral_give_up(struct deferral *d,
    const struct consumer *who, const struct inbox_now *now);

#endif
