/* SPDX-License-Identifier: MIT */
/*
 * Floor 1.  The -shm file, the WAL's index, which SQLite maps and writes to.
 * It makes the file larger by a byte in each 4096.  Where a file system's
 * blocks are smaller, the rest are holes: on a full disk the first write to
 * one is a SIGBUS, which ends the process.  So the file gets its blocks before
 * SQLite needs them, through SQLite's own handle of it.
 */
#include <sqlite3.h>
#include <string.h>

#include "abi.h"
#include "db.h"
#include "error.h"
#include "postbag/port.h"

/* SQLite's WALINDEX_PGSZ, and how many frames the first region has room for
 * (each further one has some more). */
enum { REGION = 32768, REGION_FRAMES = 4062 };

static sqlite3_file *file_of(struct db *db)
{
    sqlite3_file *file = postbag__db_file(db);

    return file != NULL && file->pMethods->iVersion >= 2 &&
                   file->pMethods->xShmMap != NULL
               ? file
               : NULL;
}

static int no_room(struct db *db)
{
    return postbag__fail(&db->fault, POSTBAG_ENOSPC,
        "storage is full: no room for the -shm file");
}

/* What else is wrong with the file SQLite will tell. */
static int back(struct db *db, const struct postbag_port *port,
    sqlite3_file *file, int region)
{
    volatile void *at = NULL;
    int rc = file->pMethods->xShmMap(file, region, REGION, 1, &at);

    if (rc == SQLITE_IOERR_SHMSIZE)
        return no_room(db);
    if (rc != SQLITE_OK || at == NULL)
        return POSTBAG_OK;
    if (port->reserve_pages(port->ctx, at, REGION) == POSTBAG_ENOSPC)
        return no_room(db);
    return POSTBAG_OK;
}

int postbag__shm_back(
    struct db *db, const struct postbag_port *port, int64_t frames)
{
    sqlite3_file *file = file_of(db);
    int regions = 1 + (int)(frames / REGION_FRAMES);
    int err = POSTBAG_OK;

    if (file == NULL || !POSTBAG__PORT_HAS(port, reserve_pages))
        return POSTBAG_OK;
    for (int i = 0; i < regions && err == POSTBAG_OK; i++)
        err = back(db, port, file, i);
    return err;
}

/* SQLite unmaps what it has a WAL for.  The file stays: others may use it. */
void postbag__shm_forget(struct db *db)
{
    sqlite3_file *file = file_of(db);
    sqlite3_file *wal = NULL;

    if (file == NULL)
        return;
    (void)sqlite3_file_control(
        db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (wal == NULL || wal->pMethods == NULL)
        (void)file->pMethods->xShmUnmap(file, 0);
}

int postbag__db_says_wal(struct db *db)
{
    unsigned char header[20] = {0};
    sqlite3_file *file = file_of(db);

    return file != NULL &&
           file->pMethods->xRead(file, header, sizeof(header), 0) ==
               SQLITE_OK &&
           header[18] == 2;
}
