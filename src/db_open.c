/* SPDX-License-Identifier: MIT */
/*
 * Floor 1.  Connections: ours, set up for flash, and the application's,
 * checked.  Each belongs to one thread at a time.
 */
#include "db.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "abi.h"
#include "error.h"
#include "postbag/port.h"

enum { SQLITE_FLOOR = 3037000 };

/* ---- the library ---- */

int postbag__db_library_version(void)
{
    return sqlite3_libversion_number();
}

const char *postbag__db_library_name(void)
{
    return sqlite3_libversion();
}

int postbag__db_library_check(struct postbag_fault *why)
{
    if (sqlite3_libversion_number() < SQLITE_FLOOR)
        return postbag__fail(why, POSTBAG_ESQLITE,
            "SQLite %s is too old: STRICT tables need 3.37",
            sqlite3_libversion());
    if (sqlite3_threadsafe() == 0)
        return postbag__fail(why, POSTBAG_ESQLITE,
            "this SQLite was built without threads (THREADSAFE=0)");
    return POSTBAG_OK;
}

int postbag__db_checkpoint_is_sound(int version)
{
    if (version >= 3051003 && version != 3052000)
        return 1;
    if (version >= 3050007 && version < 3051000)
        return 1;
    return version >= 3044006 && version < 3045000;
}

/* ---- opening ---- */

/*
 * SQLite's own busy handler sleeps up to 100 ms and then starves beside a
 * writer that commits back to back.  Ours sleeps 0.2 to 1 ms, jittered.
 */
static int wait_for_lock(void *arg, int tries)
{
    struct db *db = arg;
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

    if ((uint64_t)tries * 600u >= (uint64_t)db->busy_ms * 1000u)
        return 0;
    db->random = db->random * 1664525u + 1013904223u;
    (void)vfs->xSleep(vfs, (int)(200u + (db->random >> 16) % 801u));
    return 1;
}

static int set_wal(struct db *db)
{
    struct stmt s;
    const char *mode;
    int err = postbag__prepare(db, &s, "PRAGMA journal_mode=WAL");

    if (err != POSTBAG_OK)
        return err;
    err = postbag__row(&s);
    mode = err == 1 ? postbag__col_text(&s, 0) : NULL;
    if (err == 1)
        err = POSTBAG_OK;
    if (err == POSTBAG_OK && (mode == NULL || strcmp(mode, "wal") != 0))
        err = postbag__fail(&db->fault, POSTBAG_ESTORAGE,
            "the database cannot be put into WAL mode (it is %s)",
            mode == NULL ? "unknown" : mode);
    postbag__finalize(&s);
    return err;
}

static int check_encoding(struct db *db)
{
    struct stmt s;
    const char *name;
    int err = postbag__prepare(db, &s, "PRAGMA main.encoding");

    if (err != POSTBAG_OK)
        return err;
    err = postbag__row(&s);
    name = err == 1 ? postbag__col_text(&s, 0) : NULL;
    if (err == 1)
        err = POSTBAG_OK;
    if (err == POSTBAG_OK && (name == NULL || strcmp(name, "UTF-8") != 0))
        err = postbag__fail(&db->fault, POSTBAG_ESTORAGE,
            "the database is %s; an outbox needs UTF-8",
            name == NULL ? "of unknown encoding" : name);
    postbag__finalize(&s);
    return err;
}

/*
 * Is this the database of somebody who has nothing to do with us?  Then even
 * its journal mode stays as it is; the checks of the schema will refuse it.
 * A database that may become an outbox (DB_CREATE) is one unless names of
 * ours are taken in it.
 */
static int is_foreign(struct db *db, enum db_open_mode mode, int *out)
{
    int64_t ours = 0;
    int64_t taken = 0;
    int err = postbag__query_i64(db,
        "SELECT count(*) FROM main.sqlite_schema WHERE name = 'outbox_meta'",
        &ours);

    if (err == POSTBAG_OK)
        err = postbag__query_i64(db,
            "SELECT count(*) FROM main.sqlite_schema"
            " WHERE name IN ('outbox', 'inbox')",
            &taken);
    *out = ours == 0 && (mode != DB_CREATE || taken > 0);
    return err;
}

/* A database that becomes one with a WAL gets the room for it before. */
static int enter_wal(struct db *db, const struct postbag_port *port)
{
    int err = POSTBAG_OK;

    if (port != NULL && !postbag__db_says_wal(db))
        err = postbag__shm_back(db, port, 0);
    return err == POSTBAG_OK ? set_wal(db) : err;
}

static int configure(struct db *db, const struct postbag_port *port,
    enum db_open_mode mode, enum db_sync sync)
{
    int persist = 1;
    int foreign = 0;
    int err;

    (void)sqlite3_extended_result_codes(db->handle, 1);
    (void)sqlite3_busy_handler(db->handle, wait_for_lock, db);
    (void)sqlite3_db_config(
        db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    /* before the first look: it takes the lock that each connection has its
       share of, and keeps it */
    err = mode == DB_ALONE ? postbag__exec(db, "PRAGMA locking_mode=EXCLUSIVE")
                           : POSTBAG_OK;
    /* before the first read, which may have to make the index anew */
    if (err == POSTBAG_OK && port != NULL && postbag__db_says_wal(db))
        err = postbag__shm_back(db, port, 0);
    if (err == POSTBAG_OK)
        err = postbag__exec(db, "PRAGMA trusted_schema=OFF;"
                                "PRAGMA cache_size=-64;"
                                "PRAGMA mmap_size=0;"
                                "PRAGMA wal_autocheckpoint=0");
    if (err == POSTBAG_OK)
        err = postbag__rollback_prepare(db);
    if (err == POSTBAG_OK)
        err = check_encoding(db);
    if (err != POSTBAG_OK || mode == DB_READ || mode == DB_SCRATCH)
        return err;
    if (sqlite3_db_readonly(db->handle, "main") == 1)
        return postbag__fail(&db->fault, POSTBAG_ESTORAGE,
            "the database cannot be written (permissions, or a read-only"
            " file system)");
    err = is_foreign(db, mode, &foreign);
    if (err != POSTBAG_OK || foreign)
        return err;
    err = enter_wal(db, port);
    if (err == POSTBAG_OK)
        err = postbag__exec(db, "PRAGMA secure_delete=FAST");
    if (err == POSTBAG_OK)
        err = postbag__exec(db, sync == DB_FULL ? "PRAGMA synchronous=FULL"
                                                : "PRAGMA synchronous=NORMAL");
    db->sync = sync;
    /* keep the -wal file's blocks: laying it out anew costs flash */
    (void)sqlite3_file_control(
        db->handle, "main", SQLITE_FCNTL_PERSIST_WAL, &persist);
    return err;
}

/* SQLite cannot tell a file that it may not make from one that it cannot make
 * for want of an inode. */
static int explain(
    struct db *db, const struct postbag_port *port, const char *path, int err)
{
    struct postbag_room room;

    if (err != POSTBAG_EIO || !POSTBAG__PORT_HAS(port, room) ||
        port->room(port->ctx, path, &room) != POSTBAG_OK ||
        room.free_files != 0)
        return err;
    return postbag__fail(&db->fault, POSTBAG_ENOSPC,
        "storage is full: no inode is left for another file");
}

/* For a connection that could not be opened. */
static int give_up(
    struct db *db, const struct postbag_port *port, const char *path, int err)
{
    if (port != NULL)
        err = explain(db, port, path, err);
    postbag__db_close(db);
    return err;
}

/* A path is a path, also where SQLite is built to take "file:..." for a URI. */
static int open_plain(struct db *db, const char *path, int flags)
{
    const char *here = strncmp(path, "file:", 5) == 0 ? "./" : "";
    char *plain = sqlite3_mprintf("%s%s", here, path);
    int rc = SQLITE_NOMEM;

    if (plain != NULL)
        rc = sqlite3_open_v2(
            plain, &db->handle, flags | SQLITE_OPEN_NOMUTEX, NULL);
    sqlite3_free(plain);
    return rc;
}

int postbag__db_open_backed(struct db *db, const struct postbag_port *port,
    const char *path, enum db_open_mode mode, enum db_sync sync,
    uint32_t busy_ms)
{
    static const int flags[] = {
        [DB_READ] = SQLITE_OPEN_READONLY,
        [DB_WRITE] = SQLITE_OPEN_READWRITE,
        [DB_CREATE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
        [DB_ALONE] = SQLITE_OPEN_READWRITE,
        [DB_SCRATCH] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
    };
    int rc;
    int err;

    memset(db, 0, sizeof(*db));
    db->owned = 1;
    db->busy_ms = busy_ms;
    sqlite3_randomness(sizeof(db->random), &db->random);
    err = postbag__db_library_check(&db->fault);
    if (err != POSTBAG_OK)
        return err;
    rc = open_plain(db, path, flags[mode]);
    err = postbag__db_fault(db, rc);
    if (err == POSTBAG_OK)
        err = configure(db, port, mode, sync);
    return err == POSTBAG_OK ? err : give_up(db, port, path, err);
}

int postbag__db_open(struct db *db, const char *path, enum db_open_mode mode,
    enum db_sync sync, uint32_t busy_ms)
{
    return postbag__db_open_backed(db, NULL, path, mode, sync, busy_ms);
}

/* The path as a URI: what means something there stands as its number. */
static char *uri_of(const char *path, const char *query)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-";
    char *uri = sqlite3_mprintf("file:%s", path[0] == '/' ? "" : "./");

    for (; uri != NULL && *path != '\0'; path++)
        uri = strchr(plain, *path) != NULL
                  ? sqlite3_mprintf("%z%c", uri, *path)
                  : sqlite3_mprintf("%z%%%02x", uri, (unsigned char)*path);
    return uri == NULL ? NULL : sqlite3_mprintf("%z%s", uri, query);
}

static int open_damaged(struct db *db, const char *path, int is_frozen)
{
    char *uri = uri_of(path, is_frozen ? "?immutable=1" : "?mode=ro");
    int rc = SQLITE_NOMEM;

    if (uri != NULL)
        rc = sqlite3_open_v2(uri, &db->handle,
            SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    sqlite3_free(uri);
    return postbag__db_fault(db, rc);
}

int postbag__db_open_damaged(struct db *db, const char *path, int is_frozen)
{
    int err;

    memset(db, 0, sizeof(*db));
    db->owned = 1;
    err = postbag__db_library_check(&db->fault);
    if (err == POSTBAG_OK)
        err = open_damaged(db, path, is_frozen);
    if (err != POSTBAG_OK)
        return give_up(db, NULL, path, err);
    (void)sqlite3_extended_result_codes(db->handle, 1);
    (void)sqlite3_db_config(
        db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)NULL);
    /* so that a file that is too short, or a line of the schema that is wrong,
       does not hide the rest */
    err = postbag__exec(db, "PRAGMA trusted_schema=OFF;PRAGMA mmap_size=0;"
                            "PRAGMA writable_schema=ON");
    return err == POSTBAG_OK ? err : give_up(db, NULL, path, err);
}

void postbag__db_close(struct db *db)
{
    (void)sqlite3_finalize(db->rollback);
    db->rollback = NULL;
    if (db->owned && db->handle != NULL) {
        /* SQLite opens the WAL at the first read, which may not have come */
        postbag__shm_forget(db);
        (void)sqlite3_close_v2(db->handle);
    }
    db->handle = NULL;
}

const char *postbag__db_path(const struct db *db)
{
    return sqlite3_db_filename(db->handle, "main");
}

struct sqlite3_file *postbag__db_file(struct db *db)
{
    sqlite3_file *file = NULL;

    if (db->handle != NULL)
        (void)sqlite3_file_control(
            db->handle, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    return file != NULL && file->pMethods != NULL ? file : NULL;
}

int postbag__db_has_moved(struct db *db)
{
    int moved = 0;

    (void)sqlite3_file_control(
        db->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved;
}

/* Two copies of SQLite in one process break each other's file locks.  A
 * connection of another copy has a VFS that is not in our list. */
static int check_same_library(struct db *db)
{
    sqlite3_vfs *theirs = NULL;
    sqlite3_vfs *ours = sqlite3_vfs_find(NULL);

    (void)sqlite3_file_control(
        db->handle, "main", SQLITE_FCNTL_VFS_POINTER, &theirs);
    while (ours != NULL && ours != theirs)
        ours = ours->pNext;
    if (theirs != NULL && ours == theirs)
        return POSTBAG_OK;
    return postbag__fail(&db->fault, POSTBAG_ESQLITE,
        "this connection belongs to another copy of the SQLite library");
}

static int check_is_wal(struct db *db)
{
    struct stmt s;
    int err = postbag__prepare(db, &s, "PRAGMA main.journal_mode");
    const char *mode;

    if (err != POSTBAG_OK)
        return err;
    err = postbag__row(&s);
    mode = err == 1 ? postbag__col_text(&s, 0) : "";
    if (err == 1)
        err = POSTBAG_OK;
    if (err == POSTBAG_OK && (mode == NULL || strcmp(mode, "wal") != 0))
        err = postbag__fail(&db->fault, POSTBAG_ESTORAGE,
            "the connection is not in WAL mode: PRAGMA journal_mode=WAL");
    postbag__finalize(&s);
    return err;
}

int postbag__db_borrow(struct db *db, struct sqlite3 *handle)
{
    int err;

    memset(db, 0, sizeof(*db));
    db->handle = handle;
    db->sync = DB_FULL;
    err = postbag__db_library_check(&db->fault);
    if (err == POSTBAG_OK)
        err = check_same_library(db);
    if (err == POSTBAG_OK)
        err = check_is_wal(db);
    if (err == POSTBAG_OK)
        err = check_encoding(db);
    return err;
}

int postbag__db_pragma(struct db *db, const char *pragma, int64_t *out)
{
    char sql[64];

    (void)snprintf(sql, sizeof(sql), "PRAGMA %s", pragma);
    return postbag__query_i64(db, sql, out);
}
