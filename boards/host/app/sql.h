/* SPDX-License-Identifier: MIT */
/*
 * SQLite for an application whose errors are Postbag's, so that one `int err`
 * runs through a whole transaction.  A statement belongs to its connection,
 * and so to one thread.
 */
#ifndef DEMO_SQL_H
#define DEMO_SQL_H

#include <sqlite3.h>

/* What the connection's last call ran into: POSTBAG_OK, EBUSY, ENOSPC, or
   EIO for all else. */
int sql_error(sqlite3 *db, int rc);
int sql_exec(sqlite3 *db, const char *sql);
/* Yours: sqlite3_finalize, for which NULL is fine. */
int sql_prepare(sqlite3 *db, sqlite3_stmt **out, const char *sql);
/* Rewind a statement that was stepped; what its step ran into. */
int sql_finish(sqlite3_stmt *s);

#endif
