/* SPDX-License-Identifier: MIT */
/*
 * Statements and transactions.  Nothing above db*.c sees a code of SQLite.
 * Used by every thread, each with a connection of its own.
 */
#include "db.h"

#include <sqlite3.h>
#include <string.h>

#include "error.h"

/* ---- statements ---- */

int postbag__prepare(struct db *db, struct stmt *out, const char *sql)
{
    out->db = db;
    out->handle = NULL;
    out->err = postbag__db_fault(
        db, sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT,
                &out->handle, NULL));
    return out->err;
}

void postbag__finalize(struct stmt *s)
{
    (void)sqlite3_finalize(s->handle);
    s->handle = NULL;
}

static struct stmt *stmt_at(void *base, size_t at)
{
    return (struct stmt *)(void *)((char *)base + at);
}

int postbag__prepare_all(
    struct db *db, void *base, const struct stmt_plan *plan, size_t count)
{
    int err = POSTBAG_OK;

    for (size_t i = 0; i < count && err == POSTBAG_OK; i++)
        err = postbag__prepare(db, stmt_at(base, plan[i].at), plan[i].sql);
    return err;
}

void postbag__finalize_all(
    void *base, const struct stmt_plan *plan, size_t count)
{
    for (size_t i = 0; i < count; i++)
        postbag__finalize(stmt_at(base, plan[i].at));
}

static void keep(struct stmt *s, int rc)
{
    if (s->err == POSTBAG_OK && rc != SQLITE_OK)
        s->err = postbag__db_fault(s->db, rc);
}

void postbag__bind_i64(struct stmt *s, int index, int64_t value)
{
    keep(s, sqlite3_bind_int64(s->handle, index, value));
}

void postbag__bind_null(struct stmt *s, int index)
{
    keep(s, sqlite3_bind_null(s->handle, index));
}

void postbag__bind_text(struct stmt *s, int index, const char *text)
{
    keep(s, sqlite3_bind_text(s->handle, index, text, -1, SQLITE_STATIC));
}

/* SQLite takes a NULL pointer for NULL, also when the length is 0. */
static const void *not_null(const void *bytes)
{
    return bytes == NULL ? "" : bytes;
}

void postbag__bind_text_n(
    struct stmt *s, int index, const void *text, size_t len)
{
    keep(s, sqlite3_bind_text64(s->handle, index, not_null(text), len,
                SQLITE_STATIC, SQLITE_UTF8));
}

void postbag__bind_blob(struct stmt *s, int index, const void *blob, size_t len)
{
    keep(s, sqlite3_bind_blob64(
                s->handle, index, not_null(blob), len, SQLITE_STATIC));
}

void postbag__bind_column(struct stmt *s, int index, struct stmt *from, int col)
{
    keep(s, sqlite3_bind_value(
                s->handle, index, sqlite3_column_value(from->handle, col)));
}

int postbag__row(struct stmt *s)
{
    int err = s->err;
    int rc;

    if (err == POSTBAG_OK) {
        rc = sqlite3_step(s->handle);
        if (rc == SQLITE_ROW)
            return 1;
        err = rc == SQLITE_DONE ? POSTBAG_OK : postbag__db_fault(s->db, rc);
    }
    postbag__reset(s);
    return err;
}

int postbag__run(struct stmt *s)
{
    int err;

    do
        err = postbag__row(s);
    while (err == 1);
    (void)sqlite3_clear_bindings(s->handle);
    return err;
}

/* The error of a failed step comes again from reset; it is recorded. */
void postbag__reset(struct stmt *s)
{
    (void)sqlite3_reset(s->handle);
    s->err = POSTBAG_OK;
}

int64_t postbag__col_i64(struct stmt *s, int col)
{
    return sqlite3_column_int64(s->handle, col);
}

int postbag__col_is_null(struct stmt *s, int col)
{
    return sqlite3_column_type(s->handle, col) == SQLITE_NULL;
}

int postbag__col_is_text(struct stmt *s, int col)
{
    return sqlite3_column_type(s->handle, col) == SQLITE_TEXT;
}

int postbag__col_is(struct stmt *s, int col, const char *types)
{
    static const char letters[] = {[SQLITE_INTEGER] = 'i',
        [SQLITE_FLOAT] = 'r',
        [SQLITE_TEXT] = 't',
        [SQLITE_BLOB] = 'b',
        [SQLITE_NULL] = 'n'};

    return strchr(types, letters[sqlite3_column_type(s->handle, col)]) != NULL;
}

const char *postbag__col_text(struct stmt *s, int col)
{
    return (const char *)sqlite3_column_text(s->handle, col);
}

const char *postbag__col_string(struct stmt *s, int col)
{
    const char *text = postbag__col_text(s, col);

    return text == NULL ? "" : text;
}

const void *postbag__col_bytes(struct stmt *s, int col, size_t *len_out)
{
    const void *bytes = sqlite3_column_blob(s->handle, col);

    *len_out = (size_t)sqlite3_column_bytes(s->handle, col);
    return bytes;
}

int postbag__reset_all(struct db *db)
{
    sqlite3_stmt *s = sqlite3_next_stmt(db->handle, NULL);
    int count = 0;

    for (; s != NULL; s = sqlite3_next_stmt(db->handle, s)) {
        if (!sqlite3_stmt_busy(s))
            continue;
        (void)sqlite3_reset(s);
        count++;
    }
    return count;
}

int postbag__query_i64(struct db *db, const char *sql, int64_t *out)
{
    struct stmt s;
    int err = postbag__prepare(db, &s, sql);

    if (err == POSTBAG_OK)
        err = postbag__row(&s);
    if (err == 1) {
        *out = postbag__col_i64(&s, 0);
        err = POSTBAG_OK;
    } else if (err == POSTBAG_OK) {
        err = postbag__fail(&db->fault, POSTBAG_ENOTFOUND, "no such row");
    }
    postbag__finalize(&s);
    return err;
}

int postbag__exec(struct db *db, const char *sql)
{
    return postbag__db_fault(
        db, sqlite3_exec(db->handle, sql, NULL, NULL, NULL));
}

int postbag__exec_all(struct db *db, const char *const *sql, size_t count)
{
    int err = POSTBAG_OK;

    for (size_t i = 0; i < count && err == POSTBAG_OK; i++)
        err = postbag__exec(db, sql[i]);
    return err;
}

int64_t postbag__changes(struct db *db)
{
    return sqlite3_changes(db->handle);
}

int64_t postbag__last_rowid(struct db *db)
{
    return sqlite3_last_insert_rowid(db->handle);
}

/* ---- transactions ---- */

int postbag__begin(struct db *db, enum db_sync sync)
{
    if (db->owned && sync != db->sync) {
        int err =
            postbag__exec(db, sync == DB_FULL ? "PRAGMA synchronous=FULL"
                                              : "PRAGMA synchronous=NORMAL");
        if (err != POSTBAG_OK)
            return err;
        db->sync = sync;
    }
    return postbag__exec(db, "BEGIN IMMEDIATE");
}

int postbag__commit(struct db *db)
{
    int err = postbag__exec(db, "COMMIT");

    db->commits++;
    if (err != POSTBAG_OK)
        postbag__rollback(db);
    return err;
}

int postbag__rollback_prepare(struct db *db)
{
    struct stmt s;
    int err = postbag__prepare(db, &s, "ROLLBACK");

    db->rollback = s.handle;
    return err;
}

void postbag__rollback(struct db *db)
{
    if (!postbag__in_transaction(db))
        return;
    if (db->rollback != NULL) {
        (void)sqlite3_step(db->rollback);
        (void)sqlite3_reset(db->rollback);
    }
    /* not by ours: the fault that led here stays */
    if (postbag__in_transaction(db))
        (void)sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
}

int postbag__in_transaction(const struct db *db)
{
    return db->handle != NULL && sqlite3_get_autocommit(db->handle) == 0;
}

/* What it sets would outlast the transaction, on a connection that others use.
 * Those here set nothing, or for the transaction only. */
static int is_lasting_pragma(const char *name, const char *value)
{
    static const char *const harmless[] = {"table_info", "table_xinfo",
        "index_info", "index_list", "index_xinfo", "foreign_key_list",
        "foreign_key_check", "integrity_check", "quick_check",
        "defer_foreign_keys"};

    if (value == NULL)
        return 0;
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
        if (sqlite3_stricmp(name, harmless[i]) == 0)
            return 0;
    return 1;
}

static int authorize(void *arg, int action, const char *a, const char *b,
    const char *c, const char *d)
{
    const int *denied = arg;

    (void)c;
    (void)d;
    if (*denied == 0)
        return SQLITE_OK;
    return action == SQLITE_TRANSACTION || action == SQLITE_SAVEPOINT ||
                   action == SQLITE_ATTACH || action == SQLITE_DETACH ||
                   (action == SQLITE_PRAGMA && is_lasting_pragma(a, b))
               ? SQLITE_DENY
               : SQLITE_OK;
}

/* Not 0 turns a commit into a rollback: when an error has ended the handler's
 * transaction, each further statement would commit on its own. */
static int veto_commit(void *arg)
{
    return *(const int *)arg;
}

void postbag__deny_transactions(struct db *db, const int *denied)
{
    union {
        const int *in;
        void *out;
    } arg = {.in = denied};

    (void)sqlite3_set_authorizer(db->handle, authorize, arg.out);
    (void)sqlite3_commit_hook(db->handle, veto_commit, arg.out);
}
