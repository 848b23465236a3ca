/* SPDX-License-Identifier: MIT */
/* Floor 1.  What SQLite's result codes mean to us.  Any thread. */
#include "db.h"

#include <errno.h>
#include <sqlite3.h>
#include <string.h>

#include "error.h"

static int constraint_error(const char *text)
{
    if (strstr(text, "outbox is full") != NULL ||
        strstr(text, "inbox is full") != NULL)
        return POSTBAG_EFULL;
    if (strstr(text, " is larger than ") != NULL)
        return POSTBAG_ETOOBIG;
    return POSTBAG_EINVAL;
}

/* There is no newer format: its number in the file was damaged. */
static int schema_error(const char *text)
{
    return strcmp(text, "unsupported file format") == 0 ? POSTBAG_ECORRUPT
                                                        : POSTBAG_ESCHEMA;
}

static int error_of(int extended, const char *text)
{
    if (extended == SQLITE_IOERR_NOMEM)
        return POSTBAG_ENOMEM;
    if (extended == SQLITE_IOERR_SHMSIZE)
        return POSTBAG_ENOSPC;
    switch (extended & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return POSTBAG_OK;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return POSTBAG_EBUSY;
    case SQLITE_FULL:
        return POSTBAG_ENOSPC;
    case SQLITE_NOMEM:
        return POSTBAG_ENOMEM;
    case SQLITE_TOOBIG:
        return POSTBAG_ETOOBIG;
    case SQLITE_CONSTRAINT:
        return constraint_error(text);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return POSTBAG_ECORRUPT;
    case SQLITE_INTERRUPT:
    case SQLITE_ABORT:
        return POSTBAG_EAGAIN;
    case SQLITE_ERROR:
    case SQLITE_SCHEMA:
        return schema_error(text);
    case SQLITE_AUTH:
        return POSTBAG_ESTATE;
    case SQLITE_MISUSE:
    case SQLITE_RANGE:
    case SQLITE_MISMATCH:
        return POSTBAG_EINVAL;
    default:
        return POSTBAG_EIO;
    }
}

/* Was it for want of room (a quota's end, say), though SQLite names it by what
 * it tried?  A failed sync leaves open what is on the disk: that stays EIO. */
static int is_out_of_room(struct db *db, int extended)
{
    int cause = db->handle == NULL ? 0 : sqlite3_system_errno(db->handle);

    return extended != SQLITE_IOERR_FSYNC &&
           (cause == ENOSPC || cause == EDQUOT);
}

/* Record what the connection just ran into. */
int postbag__db_fault(struct db *db, int rc)
{
    static const char ours[] = "postbag: ";
    int extended = rc;
    const char *text = sqlite3_errstr(rc);
    int err;

    if (db->handle != NULL && rc != SQLITE_MISUSE) {
        extended = sqlite3_extended_errcode(db->handle);
        text = sqlite3_errmsg(db->handle);
        if ((extended & 0xff) != (rc & 0xff)) {
            extended = rc;
            text = sqlite3_errstr(rc);
        }
    }
    err = error_of(extended, text);
    if (err == POSTBAG_EIO && is_out_of_room(db, extended)) {
        err = POSTBAG_ENOSPC;
        text = "storage is full, or a quota of it";
    }
    /* of our triggers: who reads a fault knows whose it is */
    if (strncmp(text, ours, strlen(ours)) == 0)
        text += strlen(ours);
    if (err != POSTBAG_OK) {
        (void)postbag__fail(&db->fault, err, "%s", text);
        db->fault.cause = extended;
    }
    return err;
}

int postbag__db_last(struct db *db)
{
    return postbag__db_fault(db, sqlite3_errcode(db->handle));
}
