/* SPDX-License-Identifier: MIT */
/*
 * Floor 1.  The write-ahead log: pin it, sync it, checkpoint it, measure it.
 * It is reached only through SQLite's own file handle: closing a descriptor of
 * a database drops SQLite's locks.
 */
#include "db.h"

#include <sqlite3.h>
#include <string.h>

enum { CHUNK_BYTES = 128 * 1024, AHEAD_BYTES = 2 * CHUNK_BYTES };

int postbag__pin(struct db *db)
{
    int64_t ignored;
    int err = postbag__exec(db, "BEGIN");

    if (err == POSTBAG_OK)
        err = postbag__query_i64(
            db, "SELECT count(*) FROM outbox_meta", &ignored);
    if (err != POSTBAG_OK)
        postbag__rollback(db);
    return err;
}

int postbag__sync_wal(struct db *db)
{
    sqlite3_file *wal = NULL;
    int rc = sqlite3_file_control(
        db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);

    /* before the first read there is no WAL file to sync, and nothing seen */
    if (rc != SQLITE_OK || wal == NULL || wal->pMethods == NULL)
        return rc == SQLITE_OK ? POSTBAG_OK : postbag__db_fault(db, rc);
    rc = wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
    return rc == SQLITE_OK ? POSTBAG_OK : postbag__db_fault(db, rc);
}

int postbag__checkpoint(struct db *db, int *frames_out, int *done_out)
{
    int rc = sqlite3_wal_checkpoint_v2(
        db->handle, "main", SQLITE_CHECKPOINT_PASSIVE, frames_out, done_out);

    return postbag__db_fault(db, rc);
}

int postbag__wal_truncate(struct db *db)
{
    int rc = sqlite3_wal_checkpoint_v2(
        db->handle, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    return postbag__db_fault(db, rc);
}

/* Checkpoints of others cut the file to its pages, so it is asked for its
 * size.  Where it cannot grow it grows later: the caller's next checkpoint
 * tells what is wrong. */
static void grow(sqlite3_file *file, int64_t bytes)
{
    int chunk = CHUNK_BYTES;
    sqlite3_int64 wanted = bytes;
    sqlite3_int64 size = 0;

    if (file->pMethods->xFileSize(file, &size) != SQLITE_OK || size >= wanted)
        return;
    (void)file->pMethods->xFileControl(file, SQLITE_FCNTL_CHUNK_SIZE, &chunk);
    (void)file->pMethods->xFileControl(file, SQLITE_FCNTL_SIZE_HINT, &wanted);
}

int postbag__db_grow_ahead(struct db *db, int64_t page_size)
{
    sqlite3_file *file = postbag__db_file(db);
    int64_t pages = 0;
    int err = postbag__query_i64(db, "PRAGMA main.page_count", &pages);

    if (err == POSTBAG_OK && file != NULL)
        grow(file, pages * page_size + AHEAD_BYTES);
    return err;
}

int postbag__data_version(struct stmt *pragma, int64_t *out)
{
    int err = postbag__row(pragma);

    if (err != 1)
        return err == POSTBAG_OK ? POSTBAG_EIO : err;
    *out = postbag__col_i64(pragma, 0);
    postbag__reset(pragma);
    return POSTBAG_OK;
}

int postbag__wal_bytes(struct db *db, int64_t *out)
{
    sqlite3_file *wal = NULL;
    sqlite3_int64 size = 0;
    int rc = sqlite3_file_control(
        db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);

    if (rc == SQLITE_OK && wal != NULL && wal->pMethods != NULL)
        rc = wal->pMethods->xFileSize(wal, &size);
    *out = size;
    return postbag__db_fault(db, rc);
}

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

/* Does frame i (from 0) carry the salts of this round of the WAL?  A file
 * that is used again keeps frames of earlier rounds behind the present ones
 * (SQLite's file format, 4.2). */
static int is_of_this_round(sqlite3_file *wal, const unsigned char header[32],
    uint32_t page_size, int64_t i)
{
    unsigned char frame[24];
    int64_t at = 32 + i * ((int64_t)page_size + 24);

    return wal->pMethods->xRead(wal, frame, sizeof(frame), at) == SQLITE_OK &&
           memcmp(frame + 8, header + 16, 8) == 0;
}

/* The first frame that is not of this round, of `count` there may be. */
static int64_t count_frames(sqlite3_file *wal, const unsigned char header[32],
    uint32_t page_size, int64_t count)
{
    int64_t low = 0;
    int64_t high = count;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (is_of_this_round(wal, header, page_size, middle))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int postbag__wal_frames(struct db *db, int64_t *out)
{
    sqlite3_file *wal = NULL;
    unsigned char header[32];
    sqlite3_int64 size = 0;
    uint32_t page_size;
    int rc = sqlite3_file_control(
        db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);

    *out = 0;
    if (rc != SQLITE_OK || wal == NULL || wal->pMethods == NULL)
        return postbag__db_fault(db, rc);
    rc = wal->pMethods->xFileSize(wal, &size);
    if (rc != SQLITE_OK || size < (sqlite3_int64)sizeof(header))
        return postbag__db_fault(db, rc);
    rc = wal->pMethods->xRead(wal, header, sizeof(header), 0);
    if (rc != SQLITE_OK)
        return postbag__db_fault(db, rc);
    page_size = big_endian(header + 8);
    if (page_size >= 512 && page_size <= 65536)
        *out = count_frames(
            wal, header, page_size, (size - 32) / ((int64_t)page_size + 24));
    return POSTBAG_OK;
}
