/* SPDX-License-Identifier: MIT */
/* See sql.h. */
#include "sql.h"

#include <stdio.h>

#include "postbag/postbag.h"

int sql_error(sqlite3 *db, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return POSTBAG_OK;
    case SQLITE_BUSY:
        return POSTBAG_EBUSY;
    case SQLITE_FULL:
        return POSTBAG_ENOSPC;
    default:
        (void)fprintf(stderr, "<3>database: %s\n", sqlite3_errmsg(db));
        return POSTBAG_EIO;
    }
}

int sql_exec(sqlite3 *db, const char *sql)
{
    return sql_error(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

int sql_prepare(sqlite3 *db, sqlite3_stmt **out, const char *sql)
{
    return sql_error(db,
        sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL));
}

int sql_finish(sqlite3_stmt *s)
{
    int err = sql_error(sqlite3_db_handle(s), sqlite3_reset(s));

    (void)sqlite3_clear_bindings(s);
    return err;
}
