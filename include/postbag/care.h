/* SPDX-License-Identifier: MIT */
/*
 * Care: what looks after a database as a whole.  Is it sound?  Archive what
 * was delivered, send it once more, give space back.  By an admin, as what
 * admin.h has, with its rules and errors.
 */
#ifndef POSTBAG_CARE_H
#define POSTBAG_CARE_H

#include "postbag/admin.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What postbag_admin_verify finds.  Each may be NULL; texts are borrowed for
 * the call; must not use the admin; not 0 ends the walk.
 */
struct postbag_verify {
    size_t struct_size;
    void *ctx;
    /* Something is wrong.  check: which kind of rule, one word (src/FORMAT.md
       lists them); dest: NULL if it is of no destination; text: one line with
       the numbers.  Of one rule no more than 10. */
    int (*finding)(
        void *ctx, const char *check, const char *dest, const char *text);
    /* After all findings: each destination in the order of their names, its
       ledger, then what was dropped for each reason. */
    int (*ledger)(
        void *ctx, const char *dest, const struct postbag_status *status);
    int (*dropped)(void *ctx, const char *dest, const char *reason,
        int64_t messages, int64_t bytes);
};

/**
 * Check the whole outbox and inbox: the ledger of each destination against
 * the rows that are stored, what the tables say of each other, values that no
 * column ever has, definitions of tables and triggers, the file (PRAGMA
 * quick_check), and of our own tables the indexes, too (integrity_check).
 * Changes nothing; sees one moment, also beside a running relay; works on a
 * copy of the database, too.  What cannot be read is a finding, and the rest
 * is looked at.  A database so damaged that postbag_admin_open returns
 * ECORRUPT gets no admin: that is the finding (the command says so, check
 * file).
 * @return POSTBAG_OK (it was checked: what is wrong was told), EVERSION, or
 *         what a callback returned
 * Blocks: on SQLite: it reads all that is stored.  100,000 messages of 100
 * bytes take 0.35 s of CPU on a PC (x86-64, SQLite 3.40), 0.05 s of them for
 * the indexes: so there is no quicker way with less.
 * The read transaction keeps the WAL from being reset meanwhile.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_verify(
    struct postbag_admin *a, const struct postbag_verify *verify);

/* Which rows to send once more.  A bound that is 0 is none; both ends are
 * included. */
struct postbag_replay {
    size_t struct_size;
    const char *dest; /* NULL: "main" */
    int64_t from_seq;
    int64_t to_seq;
    int64_t from_ms; /* wall clock when they were put: created_ms */
    int64_t to_ms;
    int64_t max_rows; /* 0: 1000; at most 10000 */
};

/**
 * Send delivered messages once more, those that are still stored (options
 * keep_s and keep_rows): same ids, the attribute replay says so, in the order
 * of their keys; later messages of a key wait.  Each is copied to outbox_held
 * and from then on is a held message like others, but none replaces it for its
 * coalesce, and what becomes of it does not un-tell that it was delivered; the
 * ledger counts it as replayed.  What was dropped is not sent, and what is held
 * already not twice.
 * On disk when it returns.
 * @param count_out  may be NULL; how many
 * @param next_out   may be NULL; there are more: from_seq to go on with, best
 *                   when these have left; 0: there are none
 * @return POSTBAG_OK, EINVAL, EVERSION, ENOTFOUND (no such destination),
 *         ESTATE (opened to look only)
 * Blocks: on SQLite, with an fsync.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_replay(struct postbag_admin *a,
    const struct postbag_replay *which, int64_t *count_out, int64_t *next_out);

/* Where an archive goes.  Both must not use the admin; not 0 ends the walk. */
struct postbag_archive {
    size_t struct_size;
    const char *dest; /* NULL: "main" */
    void *ctx;
    /* One message, as postbag_admin_show has it, in the order of seq. */
    int (*row)(void *ctx, const struct postbag_row *row);
    /* What was handed out will be noted as archived: is it safe? */
    int (*sync)(void *ctx);
};

/**
 * Hand out the messages of a destination that are settled and were in no
 * archive yet, from the oldest up to the first that is not settled, and note
 * how far.  What was dropped is left out; what is held or dead is there in that
 * state, once.  After a crash the last rows may be handed out again.  A purge
 * does not wait: keep rows (options keep_s, keep_rows) for longer than from
 * one archive to the next.
 * @param count_out  may be NULL; rows handed out and noted
 * @param gone_out   may be NULL; rows that were deleted before
 * @return POSTBAG_OK, EINVAL, EVERSION, ENOTFOUND (no such destination),
 *         ESTATE (opened to look only), or what a callback returned
 * Blocks: on SQLite, in batches of 256 rows, and in the callbacks.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_archive(struct postbag_admin *a,
    const struct postbag_archive *archive, int64_t *count_out,
    int64_t *gone_out);

/**
 * Give back to the file system what is free in the database and its WAL: the
 * SQLite command VACUUM.  Offline: nobody else may have the database open, in
 * this process or another, neither a relay nor the application, and nobody
 * gets in while it runs.  Needs free space, up to twice the size of the
 * database.
 * @param config      writable is not looked at
 * @param before_out  may be NULL; bytes of the database and its WAL, before
 * @param after_out   may be NULL; and after
 * @param why         may be NULL; filled on failure
 * @return POSTBAG_OK, EINVAL, EVERSION, EBUSY (somebody has it open), ENOSPC,
 *         ESCHEMA, ESTORAGE, ESQLITE; on an error the database is as it was
 * Thread: any.  Blocks: on SQLite, for as long as the database takes to be
 * written anew.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_vacuum(
    const struct postbag_admin_config *config, int64_t *before_out,
    int64_t *after_out, struct postbag_fault *why);

/**
 * The SQLite library that this process runs on, as "3.40.1".
 * @param wal_reset_bug  may be NULL; 1: it can damage a database when two
 *                       connections write and checkpoint at the same moment
 *                       (fixed in 3.51.3, 3.50.7 and 3.44.6).  The relay keeps
 *                       clear of it; do not checkpoint beside it.
 * Thread: any.  Blocks: no.
 */
POSTBAG_API const char *postbag_sqlite_version(unsigned *wal_reset_bug);

/* What a salvage found and made.  struct_size is yours to set. */
struct postbag_salvaged {
    size_t struct_size;
    int64_t messages;     /* in the new database, to be sent */
    int64_t held;         /* and held or dead, summed over destinations */
    int64_t commands;     /* of the inbox, in any state */
    int64_t rows;         /* of all tables, the application's too */
    int64_t damaged;      /* rows that were read and cannot be: left out */
    int64_t holes;        /* ranges of which nothing could be read */
    int64_t left_out;     /* tables, indexes, triggers, views not made anew */
    unsigned without_wal; /* 1: the WAL could not be read, or its index */
};

/* What postbag_admin_salvage tells.  Each may be NULL; texts are borrowed for
 * the call; not 0 ends the walk. */
struct postbag_salvage {
    size_t struct_size;
    const char *to; /* path of the new database, never a URI */
    void *ctx;
    /* A table is done.  why: the first thing that could not be read; NULL:
       there was none. */
    int (*table)(void *ctx, const char *name, int64_t rows, int64_t damaged,
        int64_t holes, const char *why);
    /* Of these keys (of the log: seqs) of a table nothing can be read.  Both
       ends are included, and there may have been fewer rows, or none.  hi
       INT64_MAX: from lo on, nobody knows up to where.  0, 0: of a table
       without rowids. */
    int (*lost)(void *ctx, const char *table, int64_t lo, int64_t hi);
    /* kind: table, index, trigger, view; or schema: what else there was. */
    int (*left_out)(
        void *ctx, const char *kind, const char *name, const char *why);
};

/**
 * Make a new database of what can be read of a damaged one: of the outbox what
 * is not settled, what is held and what is dead, with their ids, seqs and the
 * order of their keys; destinations with their cursors; the inbox, so that a
 * command that comes again has no second effect; the tables of the
 * application, with their indexes, triggers and views.  Row by row: a page
 * that cannot be read hides its own rows only.  What of the log is lost is
 * named in outbox_lost, reason damaged.  Counters begin anew; what a cursor
 * that is lost had passed is sent once more.
 *
 * Not seen is what SQLite does not see: it has no checksums of its pages, so a
 * text or blob may have been changed in place.  Virtual tables are left out.
 *
 * The damaged one is not written; nobody else should have it open.  Where its
 * WAL or the index of it keeps it from being read, it is read without.
 *
 * @param config  db_path is the damaged one; writable is not looked at
 * @param out     may be NULL
 * @param why     may be NULL; filled on failure
 * @return POSTBAG_OK, EINVAL (`to` is there already), EVERSION, ECORRUPT (not
 *         even its schema can be read), ESTORAGE, ENOSPC, EIO, ENOMEM, or what
 *         a callback returned; then what there is at `to` is of no use: delete
 *         it
 * Thread: any.  Blocks: on SQLite, for as long as all is read and written.
 */
POSTBAG_API POSTBAG_CHECK int postbag_admin_salvage(
    const struct postbag_admin_config *config,
    const struct postbag_salvage *how, struct postbag_salvaged *out,
    struct postbag_fault *why);

#ifdef __cplusplus
}
#endif
#endif
