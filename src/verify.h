/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Does the database hold what must hold?  The ledger of each
 * destination, and what the tables say of each other (FORMAT.md has the
 * equations).  Only reads; any thread, on its own connection.
 */
#ifndef POSTBAG_SRC_VERIFY_H
#define POSTBAG_SRC_VERIFY_H

#include "db.h"
#include "postbag/care.h"

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

/* ---- for verify_*.c, each with a part of it ---- */

/* A query with a row for each finding: the destination or NULL, and a line for
 * people. */
struct verify_rule {
    const char *check;
    const char *sql;
};

/* Rows put: the newest is always there. */
#define VERIFY_PUT "(SELECT ifnull(max(seq), 0) FROM outbox)"

POSTBAG_CHECK int postbag__verify_run(struct db *db,
    const struct postbag_verify *v, const struct verify_rule *rule);
POSTBAG_CHECK int postbag__verify_tell(const struct postbag_verify *v,
    const char *check, const char *dest, const char *text);

/* Of verify_schema.c: definitions of tables and triggers. */
POSTBAG_CHECK int postbag__verify_schema(
    struct db *db, const struct postbag_verify *v);
/* Of verify_values.c: what no row ever says. */
POSTBAG_CHECK int postbag__verify_values(
    struct db *db, const struct postbag_verify *v);

/* A condition in SQL: this row of the log, or held one, is no message, though
 * its headers are JSON. */
enum { VERIFY_NO_MESSAGE = 3000 };
void postbag__verify_no_message(char sql[VERIFY_NO_MESSAGE]);

#endif
