/* SPDX-License-Identifier: MIT */
/*
 * Floor 1.  SQLite, and the only place where its codes become ours.
 *
 * A struct db is one connection and belongs to one thread at a time.  The
 * first error of a statement sticks: binds after it do nothing, and run or
 * row returns it.  What happened stands in db->fault.
 */
#ifndef POSTBAG_SRC_DB_H
#define POSTBAG_SRC_DB_H

#include <stddef.h>
#include <stdint.h>

#include "postbag/postbag.h"

struct sqlite3_file;
struct sqlite3_stmt;
struct postbag_port;

/* How durable a commit is: SQLite's `synchronous` in WAL mode. */
enum db_sync {
    DB_NORMAL = 1, /* a power cut may undo it; no fsync */
    DB_FULL = 2    /* on disk when commit returns */
};

struct db {
    struct sqlite3 *handle;
    struct sqlite3_stmt *rollback; /* ready: it needs no memory then */
    int owned;                     /* close it; else it is the application's */
    enum db_sync sync;
    uint32_t busy_ms; /* longest wait for another process's lock */
    uint32_t random;  /* jitter of the waits */
    uint32_t commits; /* of this connection through us */
    struct postbag_fault fault;
};

struct stmt {
    struct db *db;
    struct sqlite3_stmt *handle;
    int err;
};

/* DB_ALONE: as DB_WRITE, and nobody else in any process: EBUSY if somebody has
 * it open; until it is closed nobody can.
 * DB_SCRATCH: ":memory:", to be thrown away. */
enum db_open_mode { DB_READ, DB_WRITE, DB_CREATE, DB_ALONE, DB_SCRATCH };

/* Open a connection of ours: WAL (refused if it cannot be), no
 * autocheckpoint, small cache.  A closed struct db is fine for close. */
POSTBAG_CHECK int postbag__db_open(struct db *db, const char *path,
    enum db_open_mode mode, enum db_sync sync, uint32_t busy_ms);
/* The same for the first connection of a process, with room on the disk for
 * what SQLite maps: see postbag__shm_back. */
POSTBAG_CHECK int postbag__db_open_backed(struct db *db,
    const struct postbag_port *port, const char *path, enum db_open_mode mode,
    enum db_sync sync, uint32_t busy_ms);
/* Read only what may be damaged, of which nothing is checked here; the file is
 * not written, nor its WAL copied back at the end.  is_frozen: take no lock and
 * leave the WAL out, where it or its index keeps the file from being read. */
POSTBAG_CHECK int postbag__db_open_damaged(
    struct db *db, const char *path, int is_frozen);
void postbag__db_close(struct db *db);

/* SQLite's own handle of the database's file; NULL: there is none. */
struct sqlite3_file *postbag__db_file(struct db *db);
/* Absolute path of the file, symbolic links resolved; borrowed until close. */
const char *postbag__db_path(const struct db *db);

/* 1 if the file at that path is no longer the open one: somebody moved,
 * deleted or replaced it. */
int postbag__db_has_moved(struct db *db);

/* Use a connection of the application; checks that it can hold an outbox:
 * this SQLite library, WAL, UTF-8. */
POSTBAG_CHECK int postbag__db_borrow(struct db *db, struct sqlite3 *handle);

/* The SQLite library itself: new enough, built with threads. */
POSTBAG_CHECK int postbag__db_library_check(struct postbag_fault *why);
/* Is this SQLite free of the WAL-reset bug (fixed in 3.51.3, 3.50.7,
 * 3.44.6)? */
int postbag__db_checkpoint_is_sound(int version);
int postbag__db_library_version(void);
const char *postbag__db_library_name(void); /* as "3.40.1" */

/* Size of the -wal file; 0 before the first read of the connection. */
POSTBAG_CHECK int postbag__wal_bytes(struct db *db, int64_t *out);

/* The busy timeout and synchronous level of a borrowed connection. */
POSTBAG_CHECK int postbag__db_pragma(
    struct db *db, const char *pragma, int64_t *out);

/* Statements.  Column texts and blobs live until the next row, reset or run. */
POSTBAG_CHECK int postbag__prepare(
    struct db *db, struct stmt *out, const char *sql);
void postbag__finalize(struct stmt *s);
/* A struct's statements by a table: where each stands in it, and its SQL. */
struct stmt_plan {
    size_t at; /* offsetof */
    const char *sql;
};
POSTBAG_CHECK int postbag__prepare_all(
    struct db *db, void *base, const struct stmt_plan *plan, size_t count);
void postbag__finalize_all(
    void *base, const struct stmt_plan *plan, size_t count);
void postbag__bind_i64(struct stmt *s, int index, int64_t value);
void postbag__bind_null(struct stmt *s, int index);
/* Borrowed until the statement is reset; NULL binds NULL. */
void postbag__bind_text(struct stmt *s, int index, const char *text);
void postbag__bind_text_n(
    struct stmt *s, int index, const void *text, size_t len);
void postbag__bind_blob(
    struct stmt *s, int index, const void *blob, size_t len);
/* The value of a column of the row that `from` stands on, whatever it is. */
void postbag__bind_column(
    struct stmt *s, int index, struct stmt *from, int col);
/* One more row: 1; no more: 0 (and reset); negative: error (and reset). */
POSTBAG_CHECK int postbag__row(struct stmt *s);
/* Run to the end, reset, forget the bindings. */
POSTBAG_CHECK int postbag__run(struct stmt *s);
void postbag__reset(struct stmt *s);
int64_t postbag__col_i64(struct stmt *s, int col);
int postbag__col_is_null(struct stmt *s, int col);
int postbag__col_is_text(struct stmt *s, int col);
/* Is its type one of these?  i, r, t, b, n: integer, real, text, blob, NULL. */
int postbag__col_is(struct stmt *s, int col, const char *types);
/* NULL for NULL */
const char *postbag__col_text(struct stmt *s, int col);
/* "" for NULL, which a damaged row has where its table allows none. */
const char *postbag__col_string(struct stmt *s, int col);
/* Bytes of a text or blob; *len_out is 0 for NULL. */
const void *postbag__col_bytes(struct stmt *s, int col, size_t *len_out);

/* Reset every statement of the connection that stands on a row.  A handler
 * that forgot one would keep its snapshot, and never see a newer one.
 * Returns how many there were. */
int postbag__reset_all(struct db *db);

/* A single integer: OK, ENOTFOUND (no row), or an error. */
POSTBAG_CHECK int postbag__query_i64(
    struct db *db, const char *sql, int64_t *out);
POSTBAG_CHECK int postbag__exec(struct db *db, const char *sql);
/* One after the other, up to the first that fails. */
POSTBAG_CHECK int postbag__exec_all(
    struct db *db, const char *const *sql, size_t count);
#define POSTBAG__EXEC_ALL(db, list) \
    postbag__exec_all(db, list, sizeof(list) / sizeof((list)[0]))
int64_t postbag__changes(struct db *db);
int64_t postbag__last_rowid(struct db *db);

/* Transactions, always IMMEDIATE.  A failed commit has rolled back, but for
 * EIO, whose outcome is unknown (the transaction is over all the same). */
POSTBAG_CHECK int postbag__begin(struct db *db, enum db_sync sync);
POSTBAG_CHECK int postbag__commit(struct db *db);
void postbag__rollback(struct db *db);
/* Have it ready for when there is no memory; connections of ours have. */
POSTBAG_CHECK int postbag__rollback_prepare(struct db *db);
int postbag__in_transaction(const struct db *db);

/* A read transaction that pins its snapshot until postbag__rollback. */
POSTBAG_CHECK int postbag__pin(struct db *db);
/* Make every commit that this connection can see durable: sync the WAL. */
POSTBAG_CHECK int postbag__sync_wal(struct db *db);
/* PASSIVE checkpoint.  frames_out: in the WAL; done_out: copied to the file. */
POSTBAG_CHECK int postbag__checkpoint(
    struct db *db, int *frames_out, int *done_out);
/* TRUNCATE checkpoint: give the room of a WAL that is wholly copied back to the
 * file system.  EBUSY: somebody reads from it, or writes. */
POSTBAG_CHECK int postbag__wal_truncate(struct db *db);
/* A checkpoint that makes the file larger needs room on the disk.  Were there
 * none because the WAL has it all, neither could ever shrink or grow again.  So
 * the file gets 256 KiB more than its pages need, in chunks of half as much,
 * which the checkpoints of this connection leave there: what then still fits
 * into the WAL has its place.  As far as there is room. */
POSTBAG_CHECK int postbag__db_grow_ahead(struct db *db, int64_t page_size);
/* Frames of the WAL's present round, committed or being written; 0 without a
 * WAL.  An estimate: it is read beside running writers. */
POSTBAG_CHECK int postbag__wal_frames(struct db *db, int64_t *out);
/* Moves when another connection commits; *out is only to be compared. */
POSTBAG_CHECK int postbag__data_version(struct stmt *pragma, int64_t *out);

/* Give the -shm file its blocks, for a WAL of so many frames: no write of
 * SQLite's to it will raise SIGBUS for want of room.  ENOSPC: there is none. */
POSTBAG_CHECK int postbag__shm_back(
    struct db *db, const struct postbag_port *port, int64_t frames);

/* Between the parts of this file's implementation (db*.c).  shm_forget: undo
 * shm_back if SQLite did not come to use it.  says_wal: is the database in WAL
 * mode, by its header?  db_fault: record in db->fault what
 * SQLite's rc means, and return our error; OK for OK, ROW and DONE. */
void postbag__shm_forget(struct db *db);
int postbag__db_says_wal(struct db *db);
int postbag__db_fault(struct db *db, int rc);
/* The same of the connection's last call, whoever made it. */
int postbag__db_last(struct db *db);

/* Deny BEGIN, COMMIT, ROLLBACK, SAVEPOINT, ATTACH and a PRAGMA that sets what
 * lasts while *denied is not 0, and let nothing commit.  denied is borrowed
 * until close. */
void postbag__deny_transactions(struct db *db, const int *denied);

#endif
