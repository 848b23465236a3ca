/* SPDX-License-Identifier: MIT */
/*
 * Ours come first, in fresh tables whose triggers are away meanwhile; then the
 * application's tables, and when all is copied its indexes, triggers and
 * views.  One transaction, so that `to` has all of it or an empty outbox.
 */
#include "salvage.h"

#include <stdio.h>
#include <string.h>

#include "error.h"
#include "limit_store.h"
#include "profile_store.h"
#include "salvage_table.h"
#include "schema.h"

/* ---- our triggers ---- */

static int step_aside(struct db *to)
{
    static const char *const statements[] = {
        ("CREATE TEMP TABLE aside AS SELECT name, sql FROM main.sqlite_schema"
         " WHERE type = 'trigger' ORDER BY rowid"),
        "CREATE TEMP TABLE gone(lo INTEGER, hi INTEGER)",
        "CREATE TEMP TABLE ours AS SELECT name FROM main.sqlite_schema",
        "DELETE FROM outbox_dest",
        "DELETE FROM outbox_cursor",
        "DELETE FROM outbox_sum",
        "DELETE FROM inbox_sum",
    };

    return POSTBAG__EXEC_ALL(to, statements);
}

/* Run what each row of a query says, the first column. */
static int run_each(struct db *to, const char *query)
{
    struct stmt s;
    int err = postbag__prepare(to, &s, query);

    while (err == POSTBAG_OK && (err = postbag__row(&s)) == 1)
        err = postbag__exec(to, postbag__col_text(&s, 0));
    postbag__finalize(&s);
    return err;
}

static int drop_triggers(struct db *to)
{
    return run_each(
        to, "SELECT printf('DROP TRIGGER main.\"%w\"', name) FROM temp.aside");
}

static int restore_triggers(struct db *to)
{
    return run_each(to, "SELECT sql FROM temp.aside");
}

/* ---- one table ---- */

struct copying {
    struct salvage *s;
    int is_log;
};

/* What of the log is gone is recorded when the cursors are known. */
static int note_gone(struct db *to, int64_t lo, int64_t hi)
{
    struct stmt s;
    int err = postbag__prepare(to, &s, "INSERT INTO temp.gone VALUES (?1, ?2)");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, lo);
    postbag__bind_i64(&s, 2, hi);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

static int lose(void *ctx, const char *name, int64_t lo, int64_t hi)
{
    struct copying *c = ctx;
    const struct postbag_salvage *how = c->s->how;
    int err = POSTBAG_OK;

    if (c->is_log && hi > 0)
        err = note_gone(c->s->to, lo, hi);
    if (err == POSTBAG_OK && how->lost != NULL)
        err = how->lost(how->ctx, name, lo, hi);
    return err;
}

static int copy(struct salvage *s, const char *name, int *whole_out)
{
    struct copying c = {.s = s, .is_log = strcmp(name, "outbox") == 0};
    struct salvage_table t = {
        .from = s->from, .to = s->to, .name = name, .lost = lose, .ctx = &c};
    int err = postbag__salvage_table(&t);

    if (err != POSTBAG_OK)
        return err;
    if (whole_out != NULL)
        *whole_out &= t.damaged == 0 && t.holes == 0;
    s->out->rows += t.rows;
    s->out->damaged += t.damaged;
    s->out->holes += t.holes;
    return s->how->table == NULL
               ? POSTBAG_OK
               : s->how->table(s->how->ctx, name, t.rows, t.damaged, t.holes,
                     t.fault.code == POSTBAG_OK ? NULL : t.fault.text);
}

static int copy_ours(struct salvage *s)
{
    int err = copy(s, "outbox", &s->log_is_whole);

    if (err == POSTBAG_OK)
        err = copy(s, "outbox_held", &s->held_is_whole);
    if (err == POSTBAG_OK)
        err = copy(s, "outbox_dest", &s->dests_are_whole);
    if (err == POSTBAG_OK)
        err = copy(s, "outbox_cursor", &s->cursors_are_whole);
    if (err == POSTBAG_OK)
        err = copy(s, "inbox", NULL);
    if (err == POSTBAG_OK)
        err = copy(s, "inbox_key", NULL);
    return err == POSTBAG_OK ? copy(s, "inbox_sum", NULL) : err;
}

/* ---- the application's ---- */

static int leave_out(
    struct salvage *s, const char *kind, const char *name, const char *why)
{
    s->out->left_out++;
    return s->how->left_out == NULL
               ? POSTBAG_OK
               : s->how->left_out(s->how->ctx, kind, name, why);
}

/* The first statement of what the damaged schema says, and no other. */
static int create(struct db *to, const char *sql)
{
    struct stmt s;
    int err = postbag__prepare(to, &s, sql);

    if (err == POSTBAG_OK)
        err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

static int is_ours(struct db *to, const char *name)
{
    struct stmt s;
    int err = postbag__prepare(
        to, &s, "SELECT 1 FROM temp.ours WHERE name = ?1 COLLATE NOCASE");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, name);
    err = postbag__row(&s);
    postbag__finalize(&s);
    return err;
}

/* x stands on type, name, sql. */
static int take_over(struct salvage *s, struct stmt *x)
{
    const char *kind = postbag__col_text(x, 0);
    const char *name = postbag__col_text(x, 1);
    int err = is_ours(s->to, name);

    if (err != POSTBAG_OK)
        return err < 0 ? err : POSTBAG_OK;
    if (postbag__col_i64(x, 3))
        return leave_out(s, kind, name, "it is a virtual table");
    err = create(s->to, postbag__col_text(x, 2));
    if (err == POSTBAG_ENOMEM || err == POSTBAG_ENOSPC || err == POSTBAG_EIO)
        return err;
    if (err != POSTBAG_OK)
        return leave_out(s, kind, name, s->to->fault.text);
    return strcmp(kind, "table") == 0 ? copy(s, name, NULL) : POSTBAG_OK;
}

/* Upwards, and behind what cannot be read downwards: what is there already is
 * not made again. */
static int take_over_all(struct salvage *s, const char *which)
{
    struct stmt x;
    char sql[400];
    int err;

    (void)snprintf(sql, sizeof(sql),
        "SELECT type, name, sql, sql LIKE 'CREATE VIRTUAL %%'"
        " FROM main.sqlite_schema WHERE typeof(type) = 'text'"
        " AND typeof(name) = 'text' AND sql LIKE 'CREATE %%'"
        " AND name NOT LIKE 'sqlite\\_%%' ESCAPE '\\' AND type %s"
        " ORDER BY rowid",
        which);
    err = postbag__prepare(s->from, &x, sql);
    if (err != POSTBAG_OK)
        return postbag__pass(&s->to->fault, &s->from->fault);
    while ((err = postbag__row(&x)) == 1) {
        err = take_over(s, &x);
        if (err != POSTBAG_OK)
            break;
    }
    if (err == POSTBAG_ECORRUPT && s->from->fault.code == err)
        err = leave_out(s, "schema", which, s->from->fault.text);
    postbag__finalize(&x);
    return err;
}

/* What SQLite keeps in the header for the application. */
static int copy_number(struct salvage *s, const char *pragma)
{
    char sql[64];
    int64_t n = 0;

    if (postbag__db_pragma(s->from, pragma, &n) != POSTBAG_OK)
        return POSTBAG_OK;
    (void)snprintf(sql, sizeof(sql), "PRAGMA %s = %lld", pragma, (long long)n);
    return postbag__exec(s->to, sql);
}

static int copy_theirs(struct salvage *s)
{
    int err = take_over_all(s, "= 'table'");

    if (err == POSTBAG_OK)
        err = take_over_all(s, "<> 'table'");
    if (err == POSTBAG_OK)
        err = copy_number(s, "user_version");
    return err == POSTBAG_OK ? copy_number(s, "application_id") : err;
}

/* ---- options ---- */

/* Those that can be read; a relay sets its own when it starts. */
static int set_options(struct salvage *s)
{
    struct limits limits;
    int64_t max_payload = 0;
    int err;

    if (postbag__query_i64(s->from,
            "SELECT value FROM outbox_meta WHERE key = 'max_payload'"
            " AND typeof(value) = 'integer' AND value BETWEEN 1 AND 268435455",
            &max_payload) != POSTBAG_OK)
        max_payload = 0;
    err = postbag__schema_ensure(s->to, (uint32_t)max_payload);
    if (err == POSTBAG_OK &&
        postbag__limits_read(s->from, &limits) == POSTBAG_OK)
        err = postbag__limits_set(s->to, &limits);
    return err;
}

static int set_profiles(struct salvage *s)
{
    const struct postbag_profile *profile;
    struct stmt x;
    int err = postbag__prepare(s->to, &x, "SELECT name FROM outbox_dest");

    while (err == POSTBAG_OK && (err = postbag__row(&x)) == 1) {
        const char *dest = postbag__col_string(&x, 0);

        err = POSTBAG_OK;
        if (postbag__profile_read(s->from, dest, &profile) == POSTBAG_OK)
            err = postbag__profile_set(s->to, dest, profile);
    }
    postbag__finalize(&x);
    return err;
}

/* A log that lost its end gives numbers anew, and so it is another stream. */
static int keep_stream(struct salvage *s)
{
    struct stmt from;
    struct stmt to = {0};
    int err;

    if (!s->log_is_whole || !s->cursors_are_whole || s->out->without_wal)
        return POSTBAG_OK;
    err = postbag__prepare(s->from, &from,
        "SELECT value FROM outbox_meta WHERE key = 'stream'"
        " AND typeof(value) = 'blob' AND length(value) = 16");
    if (err == POSTBAG_OK)
        err = postbag__row(&from);
    if (err == 1)
        err = postbag__prepare(s->to, &to,
            "UPDATE outbox_meta SET value = ?1 WHERE key = 'stream'");
    else
        err = POSTBAG_OK; /* unread: the new one */
    if (err == POSTBAG_OK && to.handle != NULL) {
        postbag__bind_column(&to, 1, &from, 0);
        err = postbag__run(&to);
    }
    postbag__finalize(&from);
    postbag__finalize(&to);
    return err;
}

/* ---- all ---- */

static int copy_all(struct salvage *s)
{
    int err = step_aside(s->to);

    if (err == POSTBAG_OK)
        err = drop_triggers(s->to);
    if (err == POSTBAG_OK)
        err = copy_ours(s);
    if (err == POSTBAG_OK)
        err = postbag__salvage_ledger(s);
    if (err == POSTBAG_OK)
        err = restore_triggers(s->to);
    if (err == POSTBAG_OK)
        err = postbag__salvage_note_lost(s);
    if (err == POSTBAG_OK)
        err = keep_stream(s);
    return err == POSTBAG_OK ? copy_theirs(s) : err;
}

int postbag__salvage(struct salvage *s)
{
    int64_t n;
    int err = postbag__query_i64(
        s->from, "SELECT count(*) FROM main.sqlite_schema", &n);

    if (err != POSTBAG_OK)
        return postbag__pass(&s->to->fault, &s->from->fault);
    s->log_is_whole = 1;
    s->cursors_are_whole = 1;
    s->held_is_whole = 1;
    s->dests_are_whole = 1;
    err = postbag__schema_ensure(s->to, 0);
    if (err == POSTBAG_OK)
        err = postbag__exec(
            s->to, "PRAGMA temp_store=MEMORY; PRAGMA foreign_keys=OFF");
    if (err == POSTBAG_OK)
        err = postbag__begin(s->to, DB_FULL);
    if (err != POSTBAG_OK)
        return err;
    err = copy_all(s);
    if (err == POSTBAG_OK)
        err = postbag__commit(s->to);
    else
        postbag__rollback(s->to);
    if (err == POSTBAG_OK)
        err = set_options(s);
    if (err == POSTBAG_OK)
        err = set_profiles(s);
    return err == POSTBAG_OK
               ? postbag__exec(s->to, "PRAGMA main.wal_checkpoint(TRUNCATE)")
               : err;
}
