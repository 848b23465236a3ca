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
 * already not twice.  On disk when it returns.
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

#ifdef __cplusplus
}
#endif
#endif
