/* SPDX-License-Identifier: MIT */
/* See admin.h: open, look, repair.  What looks after the whole of a database
 * is in admin_care.c, destinations are in admin_dest.c. */
#include "admin.h"

#include <string.h>

#include "abi.h"
#include "discard_store.h"
#include "error.h"
#include "list_store.h"
#include "live_path.h"
#include "mem.h"
#include "profile_store.h"
#include "purge_store.h"
#include "requeue_store.h"
#include "room.h"
#include "schema.h"
#include "status_store.h"

enum { BUSY_MS = 5000, PURGE_ROWS = 256, WAL_FRAMES = 250 };

const char *postbag__admin_dest(const char *dest)
{
    return dest == NULL ? "main" : dest;
}

int postbag__admin_adopt(struct postbag_admin_config *to,
    const struct postbag_admin_config *from, struct postbag_fault *why)
{
    int err =
        from == NULL ? POSTBAG_EINVAL : postbag__adopt(to, sizeof(*to), from);

    if (err == POSTBAG_EVERSION) {
        (void)postbag__fail(
            why, err, "admin: struct_size is not of this library");
        return POSTBAG_EVERSION;
    }
    if (err != POSTBAG_OK || to->db_path == NULL || to->port == NULL) {
        (void)postbag__fail(
            why, POSTBAG_EINVAL, "admin: db_path and port are required");
        return POSTBAG_EINVAL;
    }
    if (to->busy_ms == 0)
        to->busy_ms = BUSY_MS;
    return POSTBAG_OK;
}

/* ---- open and close ---- */

int postbag_admin_init(const struct postbag_admin_config *config,
    uint32_t max_payload, struct postbag_fault *why)
{
    struct postbag_admin_config c;
    struct db db;
    int err = postbag__admin_adopt(&c, config, why);

    if (err != POSTBAG_OK)
        return err;
    err = c.port->storage_check(c.port->ctx, c.db_path);
    if (err != POSTBAG_OK)
        return postbag__fail(why, err, "%s: %s", c.db_path,
            err == POSTBAG_ESTORAGE ? "a network file system cannot hold an"
                                      " outbox"
                                    : "the file system cannot be looked at");
    err = postbag__db_open_backed(
        &db, c.port, c.db_path, DB_CREATE, DB_FULL, c.busy_ms);
    if (err == POSTBAG_OK)
        err = postbag__schema_ensure(&db, max_payload);
    postbag__db_close(&db);
    return err == POSTBAG_OK ? err : postbag__pass(why, &db.fault);
}

static int open_db(
    struct postbag_admin *a, const struct postbag_admin_config *c)
{
    int err = c->port->boot_id(c->port->ctx, a->boot);

    if (err != POSTBAG_OK)
        return postbag__fail(&a->db.fault, err, "the port has no boot id");
    err = postbag__db_open_backed(&a->db, c->port, c->db_path,
        c->writable ? DB_WRITE : DB_READ, DB_FULL, c->busy_ms);
    return err == POSTBAG_OK ? postbag__schema_check(&a->db) : err;
}

int postbag_admin_open(struct postbag_admin **out,
    const struct postbag_admin_config *config, struct postbag_fault *why)
{
    struct postbag_admin_config c;
    struct postbag_admin *a;
    int err;

    if (out == NULL)
        return postbag__fail(why, POSTBAG_EINVAL, "admin: out is NULL");
    *out = NULL;
    err = postbag__admin_adopt(&c, config, why);
    if (err != POSTBAG_OK)
        return err;
    a = postbag__alloc(sizeof(*a));
    if (a == NULL)
        return postbag__fail(why, POSTBAG_ENOMEM, "no memory for an admin");
    a->port = c.port;
    a->is_writable = c.writable != 0;
    err = open_db(a, &c);
    if (err != POSTBAG_OK) {
        (void)postbag__pass(why, &a->db.fault);
        postbag_admin_close(a);
        return err;
    }
    *out = a;
    return POSTBAG_OK;
}

void postbag_admin_close(struct postbag_admin *a)
{
    if (a == NULL)
        return;
    postbag__db_close(&a->db);
    postbag__free(a);
}

const struct postbag_fault *postbag_admin_fault(const struct postbag_admin *a)
{
    return &a->db.fault;
}

/* ---- look ---- */

/* Copy a result to a caller who knows less, or more, of it than we do. */
static int hand_out(
    struct postbag_admin *a, void *out, void *full, size_t full_size)
{
    size_t size;

    memcpy(&size, out, sizeof(size));
    if (size < sizeof(size) || size > full_size)
        return postbag__fail(&a->db.fault, POSTBAG_EVERSION,
            "admin: struct_size is not of this library");
    memcpy(full, &size, sizeof(size));
    memcpy(out, full, size);
    return POSTBAG_OK;
}

static int read_room(struct postbag_admin *a, struct postbag_database *out)
{
    struct postbag_pressure now = {0};
    struct room room = {0};
    int err = postbag__room_open(&room, &a->db, a->port);

    if (err == POSTBAG_OK)
        err = postbag__room_fill(&room, &now);
    postbag__room_close(&room);
    out->room_bytes = now.free_bytes;
    out->min_free_bytes = now.min_free_bytes;
    return err;
}

int postbag_admin_database(
    struct postbag_admin *a, struct postbag_database *out)
{
    struct postbag_database full = {0};
    int err = postbag__pin(&a->db);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__database_read(&a->db, &full);
    if (err == POSTBAG_OK)
        err = read_room(a, &full);
    postbag__rollback(&a->db);
    return err == POSTBAG_OK ? hand_out(a, out, &full, sizeof(full)) : err;
}

int postbag_admin_status(
    struct postbag_admin *a, const char *dest, struct postbag_status *out)
{
    struct postbag_status full = {0};
    struct moment now;
    int err = postbag__pin(&a->db);

    if (err != POSTBAG_OK)
        return err;
    now = postbag__moment_now(a->port, a->boot);
    err = postbag__status_read(&a->db, postbag__admin_dest(dest), &now, &full);
    postbag__rollback(&a->db);
    return err == POSTBAG_OK ? hand_out(a, out, &full, sizeof(full)) : err;
}

int postbag_admin_destinations(struct postbag_admin *a,
    int (*each)(void *ctx, const char *name), void *ctx)
{
    struct stmt s;
    int err = postbag__prepare(
        &a->db, &s, "SELECT name FROM outbox_dest ORDER BY name");

    if (err != POSTBAG_OK)
        return err;
    while ((err = postbag__row(&s)) == 1) {
        err = each(ctx, postbag__col_string(&s, 0));
        if (err != 0)
            break;
    }
    postbag__finalize(&s);
    return err;
}

int postbag_admin_live_path(struct postbag_admin *a, const char *run_dir,
    const char *dest, char *out, size_t size)
{
    int err = postbag__live_path(run_dir, postbag__db_path(&a->db),
        postbag__admin_dest(dest), out, size);

    return err == POSTBAG_OK ? err
                             : postbag__fail(&a->db.fault, err,
                                   "no room for the name of the live state");
}

int postbag_admin_list(struct postbag_admin *a,
    const struct postbag_row_filter *filter,
    int (*each)(void *ctx, const struct postbag_row *row), void *ctx)
{
    struct postbag_row_filter f;
    int err = postbag__adopt(&f, sizeof(f), filter);

    if (err != POSTBAG_OK)
        return postbag__fail(
            &a->db.fault, err, "list: struct_size is not of this library");
    if (f.state < POSTBAG_ROW_ANY || f.state > POSTBAG_ROW_DROPPED)
        return postbag__fail(
            &a->db.fault, POSTBAG_EINVAL, "list: there is no such state");
    f.dest = postbag__admin_dest(f.dest);
    err = postbag__pin(&a->db);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__list_rows(&a->db, &f, each, ctx);
    postbag__rollback(&a->db);
    return err;
}

int postbag_admin_show(struct postbag_admin *a, const char *dest, int64_t seq,
    const struct postbag_id *id,
    int (*each)(void *ctx, const struct postbag_row *row), void *ctx)
{
    int err = postbag__pin(&a->db);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__show_row(
        &a->db, postbag__admin_dest(dest), seq, id, each, ctx);
    postbag__rollback(&a->db);
    return err;
}

int postbag_admin_inbox_list(struct postbag_admin *a,
    const struct postbag_inbox_filter *filter,
    int (*each)(void *ctx, const struct postbag_inbox_row *row), void *ctx)
{
    struct postbag_inbox_filter f;
    int err = postbag__adopt(&f, sizeof(f), filter);

    if (err != POSTBAG_OK)
        return postbag__fail(
            &a->db.fault, err, "inbox: struct_size is not of this library");
    err = postbag__pin(&a->db);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__list_inbox(&a->db, &f, each, ctx);
    postbag__rollback(&a->db);
    return err;
}

/* ---- repair ---- */

int postbag__admin_writable(struct postbag_admin *a)
{
    if (a->is_writable)
        return POSTBAG_OK;
    return postbag__fail(
        &a->db.fault, POSTBAG_ESTATE, "admin: opened to look only");
}

int postbag_admin_set_profile(
    struct postbag_admin *a, const char *dest, const char *profile)
{
    const struct postbag_profile *p;
    int err = postbag__admin_writable(a);

    if (err == POSTBAG_OK)
        err = postbag__profile_named(
            profile == NULL ? "(none)" : profile, &p, &a->db.fault);
    if (err == POSTBAG_OK)
        err = postbag__profile_set(&a->db, postbag__admin_dest(dest), p);
    return err;
}

/* In a transaction of the admin's, which knows how durable it must be. */
static int put_through(struct postbag_admin *a, struct postbag_writer *w,
    const struct postbag_message *m, struct postbag_id *id_out)
{
    int err = postbag__begin(&a->db, DB_FULL);

    if (err != POSTBAG_OK)
        return err;
    err = postbag_put(w, m, id_out);
    if (err == POSTBAG_OK)
        return postbag__commit(&a->db);
    (void)postbag__pass(&a->db.fault, postbag_writer_fault(w));
    postbag__rollback(&a->db);
    return err;
}

int postbag_admin_put(struct postbag_admin *a, const struct postbag_message *m,
    struct postbag_id *id_out)
{
    const struct postbag_writer_config config = {
        .struct_size = sizeof(config),
        .db = a->db.handle,
        .port = a->port,
        .allow_no_busy_timeout = 1, /* the connection has our own handler */
    };
    struct postbag_writer *w;
    int err = postbag__admin_writable(a);

    if (err != POSTBAG_OK)
        return err;
    err = postbag_writer_open(&w, &config, &a->db.fault);
    if (err != POSTBAG_OK)
        return err;
    err = put_through(a, w, m, id_out);
    postbag_writer_close(w);
    return err;
}

int postbag_admin_requeue(struct postbag_admin *a, const char *dest,
    int64_t seq, const struct postbag_id *id, int64_t *count_out)
{
    int64_t count = 0;
    int err = postbag__admin_writable(a);

    if (err == POSTBAG_OK)
        err = postbag__begin(&a->db, DB_FULL);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__schema_find_dest(&a->db, postbag__admin_dest(dest));
    if (err == POSTBAG_OK)
        err = postbag__requeue(
            &a->db, postbag__admin_dest(dest), seq, id, &count);
    if (err == POSTBAG_OK && count == 0 && (seq != 0 || id != NULL))
        err = postbag__fail(&a->db.fault, POSTBAG_ENOTFOUND,
            "there is no such message among the dead and those that wait for"
            " another try");
    if (err != POSTBAG_OK) {
        postbag__rollback(&a->db);
        return err;
    }
    err = postbag__commit(&a->db);
    if (err == POSTBAG_OK && count_out != NULL)
        *count_out = count;
    return err;
}

int postbag_admin_discard(struct postbag_admin *a, const char *dest,
    int64_t seq, const struct postbag_id *id)
{
    int err = postbag__admin_writable(a);

    if (err == POSTBAG_OK)
        err = postbag__begin(&a->db, DB_FULL);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__schema_find_dest(&a->db, postbag__admin_dest(dest));
    if (err == POSTBAG_OK)
        err = postbag__discard(&a->db, postbag__admin_dest(dest), seq, id,
            a->port->wall_ms(a->port->ctx));
    if (err == POSTBAG_OK)
        return postbag__commit(&a->db);
    postbag__rollback(&a->db);
    return err;
}

static int purge_step(struct postbag_admin *a, struct purge *p)
{
    struct moment now;
    int err = postbag__begin(&a->db, DB_NORMAL);

    if (err != POSTBAG_OK)
        return err;
    now = postbag__moment_now(a->port, a->boot);
    err = postbag__purge(&a->db, p, &now);
    if (err == POSTBAG_OK)
        return postbag__commit(&a->db);
    postbag__rollback(&a->db);
    return err;
}

/*
 * Without a relay nobody else would keep a long purge from growing the WAL.
 * With the write lock in our hand no commit can reset the WAL, so this is
 * sound on every version of SQLite (see housekeeper.h); it takes a second
 * connection, because one that writes does not checkpoint.  A relay that
 * checkpoints just now is as good.
 */
static int bound_wal(struct postbag_admin *a, struct db *second)
{
    int64_t in_wal = 0;
    int frames;
    int done;
    int err = postbag__wal_frames(&a->db, &in_wal);

    if (err != POSTBAG_OK || in_wal < WAL_FRAMES)
        return err;
    err = postbag__begin(&a->db, DB_NORMAL);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__checkpoint(second, &frames, &done);
    postbag__rollback(&a->db);
    if (err == POSTBAG_EBUSY)
        return POSTBAG_OK;
    return err == POSTBAG_OK ? err
                             : postbag__pass(&a->db.fault, &second->fault);
}

static int purge_all(
    struct postbag_admin *a, struct db *second, int64_t left, int64_t *count)
{
    struct purge p = {.more = 1};
    int err = POSTBAG_OK;

    while (err == POSTBAG_OK && p.more && left > 0) {
        p.max_rows = left < PURGE_ROWS ? (uint32_t)left : PURGE_ROWS;
        err = purge_step(a, &p);
        if (err != POSTBAG_OK)
            break;
        *count += p.deleted;
        left -= p.deleted;
        err = bound_wal(a, second);
    }
    return err;
}

int postbag_admin_purge(
    struct postbag_admin *a, int64_t max_rows, int64_t *count_out)
{
    struct db second;
    int64_t count = 0;
    int err = postbag__admin_writable(a);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__db_open(
        &second, postbag__db_path(&a->db), DB_WRITE, DB_NORMAL, a->db.busy_ms);
    if (err == POSTBAG_OK)
        err =
            purge_all(a, &second, max_rows > 0 ? max_rows : INT64_MAX, &count);
    else
        (void)postbag__pass(&a->db.fault, &second.fault);
    postbag__db_close(&second);
    if (count_out != NULL)
        *count_out = count;
    return err;
}
