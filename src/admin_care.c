/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  The public face for tools, continued: what looks after a database
 * as a whole.  The caller's thread.
 */
#include "abi.h"
#include "admin.h"
#include "archive_store.h"
#include "error.h"
#include "postbag/care.h"
#include "replay_store.h"
#include "schema.h"
#include "status_store.h"
#include "verify.h"

/* ---- verify ---- */

static int tell_dropped(
    struct db *db, const char *dest, const struct postbag_verify *v)
{
    struct stmt s;
    int result = 0;
    int err = postbag__prepare(db, &s,
        "SELECT ifnull(reason, ''), sum(n), sum(bytes)"
        " FROM outbox_lost WHERE dest = ?1"
        " GROUP BY reason ORDER BY reason");

    if (err == POSTBAG_OK)
        postbag__bind_text(&s, 1, dest);
    while (err >= 0 && result == 0 && (err = postbag__row(&s)) == 1)
        result = v->dropped(v->ctx, dest, postbag__col_string(&s, 0),
            postbag__col_i64(&s, 1), postbag__col_i64(&s, 2));
    postbag__finalize(&s);
    return err < 0 ? postbag__verify_unreadable(db, v, "ledger", dest, err)
                   : result;
}

static int tell_ledger(
    struct postbag_admin *a, const char *dest, const struct postbag_verify *v)
{
    struct postbag_status status = {.struct_size = sizeof(status)};
    struct moment now = postbag__moment_now(a->port, a->boot);
    int err = postbag__status_read(&a->db, dest, &now, &status);

    if (err < 0)
        return postbag__verify_unreadable(&a->db, v, "ledger", dest, err);
    if (err == POSTBAG_OK && v->ledger != NULL)
        err = v->ledger(v->ctx, dest, &status);
    if (err == POSTBAG_OK && v->dropped != NULL)
        err = tell_dropped(&a->db, dest, v);
    return err;
}

static int tell_ledgers(struct postbag_admin *a, const struct postbag_verify *v)
{
    struct stmt s;
    int result = 0;
    int err = postbag__prepare(
        &a->db, &s, "SELECT name FROM outbox_dest ORDER BY name");

    while (err >= 0 && result == 0 && (err = postbag__row(&s)) == 1)
        result = tell_ledger(a, postbag__col_string(&s, 0), v);
    postbag__finalize(&s);
    return err < 0 ? postbag__verify_unreadable(&a->db, v, "ledger", NULL, err)
                   : result;
}

int postbag_admin_verify(
    struct postbag_admin *a, const struct postbag_verify *verify)
{
    struct postbag_verify v;
    int err = postbag__adopt(&v, sizeof(v), verify);

    if (err != POSTBAG_OK)
        return postbag__fail(
            &a->db.fault, err, "verify: struct_size is not of this library");
    err = postbag__pin(&a->db);
    if (err != POSTBAG_OK)
        return postbag__verify_unreadable(&a->db, &v, "file", NULL, err);
    err = postbag__verify(&a->db, &v);
    if (err == POSTBAG_OK)
        err = tell_ledgers(a, &v);
    postbag__rollback(&a->db);
    return err;
}

/* ---- replay ---- */

enum { REPLAY_ROWS = 1000, REPLAY_MOST = 10000 };

static int adopt_replay(struct postbag_admin *a, struct postbag_replay *to,
    const struct postbag_replay *from)
{
    int err = postbag__adopt(to, sizeof(*to), from);

    if (err != POSTBAG_OK)
        return postbag__fail(
            &a->db.fault, err, "replay: struct_size is not of this library");
    if (to->max_rows < 0 || to->max_rows > REPLAY_MOST)
        return postbag__fail(&a->db.fault, POSTBAG_EINVAL,
            "replay: at most %d messages at a time", REPLAY_MOST);
    to->dest = postbag__admin_dest(to->dest);
    if (to->max_rows == 0)
        to->max_rows = REPLAY_ROWS;
    return POSTBAG_OK;
}

int postbag_admin_replay(struct postbag_admin *a,
    const struct postbag_replay *which, int64_t *count_out, int64_t *next_out)
{
    struct postbag_replay w;
    int64_t count = 0;
    int64_t next = 0;
    int err = postbag__admin_writable(a);

    if (err == POSTBAG_OK)
        err = adopt_replay(a, &w, which);
    if (err == POSTBAG_OK)
        err = postbag__begin(&a->db, DB_FULL);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__schema_find_dest(&a->db, w.dest);
    if (err == POSTBAG_OK)
        err = postbag__replay(
            &a->db, &w, a->port->wall_ms(a->port->ctx), &count, &next);
    if (err != POSTBAG_OK) {
        postbag__rollback(&a->db);
        return err;
    }
    err = postbag__commit(&a->db);
    if (err == POSTBAG_OK && count_out != NULL)
        *count_out = count;
    if (err == POSTBAG_OK && next_out != NULL)
        *next_out = next;
    return err;
}

/* ---- archive ---- */

enum { ARCHIVE_ROWS = 256 };

static int read_batch(struct postbag_admin *a, const struct postbag_archive *x,
    struct archive_batch *batch)
{
    int err = postbag__pin(&a->db);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__archive_next(
        &a->db, x->dest, ARCHIVE_ROWS, x->row, x->ctx, batch);
    postbag__rollback(&a->db);
    return err;
}

static int mark_batch(struct postbag_admin *a, const struct postbag_archive *x,
    const struct archive_batch *batch)
{
    int err = x->sync(x->ctx);

    if (err == POSTBAG_OK)
        err = postbag__begin(&a->db, DB_NORMAL);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__archive_mark(&a->db, x->dest, batch->upto);
    if (err == POSTBAG_OK)
        return postbag__commit(&a->db);
    postbag__rollback(&a->db);
    return err;
}

static int archive_all(struct postbag_admin *a, const struct postbag_archive *x,
    int64_t *count, int64_t *gone)
{
    struct archive_batch batch = {.rows = ARCHIVE_ROWS};
    int err = postbag__schema_find_dest(&a->db, x->dest);

    while (err == POSTBAG_OK && batch.rows == ARCHIVE_ROWS) {
        err = read_batch(a, x, &batch);
        if (err == POSTBAG_OK)
            err = mark_batch(a, x, &batch);
        if (err != POSTBAG_OK)
            break;
        *count += batch.rows;
        *gone += batch.gone;
    }
    return err;
}

int postbag_admin_archive(struct postbag_admin *a,
    const struct postbag_archive *archive, int64_t *count_out,
    int64_t *gone_out)
{
    struct postbag_archive x;
    int64_t count = 0;
    int64_t gone = 0;
    int err = postbag__admin_writable(a);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__adopt(&x, sizeof(x), archive);
    if (err == POSTBAG_OK && (x.row == NULL || x.sync == NULL))
        err = POSTBAG_EINVAL;
    if (err != POSTBAG_OK)
        return postbag__fail(&a->db.fault, err,
            "archive: struct_size is not of this library, or a callback is"
            " missing");
    x.dest = postbag__admin_dest(x.dest);
    err = archive_all(a, &x, &count, &gone);
    if (count_out != NULL)
        *count_out = count;
    if (gone_out != NULL)
        *gone_out = gone;
    return err;
}

/* ---- vacuum ---- */

static int file_bytes(struct db *db, int64_t *out)
{
    int64_t pages = 0;
    int64_t page_bytes = 0;
    int64_t wal_bytes = 0;
    int err = postbag__db_pragma(db, "main.page_count", &pages);

    if (err == POSTBAG_OK)
        err = postbag__db_pragma(db, "main.page_size", &page_bytes);
    if (err == POSTBAG_OK)
        err = postbag__wal_bytes(db, &wal_bytes);
    *out = pages * page_bytes + wal_bytes;
    return err;
}

/* The WAL then has the whole database once more, so it is cut, too. */
static int vacuum(struct db *db, int64_t *before, int64_t *after)
{
    int err = postbag__schema_check(db);

    if (err == POSTBAG_OK)
        err = file_bytes(db, before);
    if (err == POSTBAG_OK)
        err = postbag__exec(db, "VACUUM");
    if (err == POSTBAG_OK)
        err = postbag__exec(db, "PRAGMA main.wal_checkpoint(TRUNCATE)");
    return err == POSTBAG_OK ? file_bytes(db, after) : err;
}

int postbag_admin_vacuum(const struct postbag_admin_config *config,
    int64_t *before_out, int64_t *after_out, struct postbag_fault *why)
{
    struct postbag_admin_config c;
    struct db db;
    int64_t before = 0;
    int64_t after = 0;
    int err = postbag__admin_adopt(&c, config, why);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__db_open(&db, c.db_path, DB_ALONE, DB_FULL, c.busy_ms);
    if (err == POSTBAG_OK)
        err = vacuum(&db, &before, &after);
    if (err == POSTBAG_EBUSY)
        (void)postbag__fail(&db.fault, err,
            "somebody has the database open: a relay, the application");
    postbag__db_close(&db);
    if (before_out != NULL)
        *before_out = before;
    if (after_out != NULL)
        *after_out = after;
    return err == POSTBAG_OK ? err : postbag__pass(why, &db.fault);
}
