/* SPDX-License-Identifier: MIT */
/* See ledger.h. */
#include "ledger.h"

#include <time.h>

#include "sql.h"

int64_t ledger_now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int ledger_add(sqlite3 *db, const struct postbag_id *id, const char *kind)
{
    sqlite3_stmt *insert;
    int err =
        sql_prepare(db, &insert, "INSERT INTO ledger VALUES (?1, ?2, ?3)");

    if (err != POSTBAG_OK)
        return err;
    sqlite3_bind_blob(insert, 1, id->b, sizeof(id->b), SQLITE_STATIC);
    sqlite3_bind_text(insert, 2, kind, -1, SQLITE_STATIC);
    sqlite3_bind_int64(insert, 3, ledger_now_us());
    (void)sqlite3_step(insert);
    err = sql_finish(insert);
    (void)sqlite3_finalize(insert);
    return err;
}
