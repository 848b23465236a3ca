/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  The public face for tools, continued: out of a damaged database
 * into a new one.  The caller's thread.
 */
#include <string.h>

#include "abi.h"
#include "admin.h"
#include "error.h"
#include "postbag/care.h"
#include "salvage.h"

/* Can it be read at all?  In a transaction, so that it stays as it is.  Of our
 * tables each may be unreadable. */
static int begin_to_read(struct db *db)
{
    int64_t n = 0;
    int err = postbag__exec(db, "BEGIN");

    if (err == POSTBAG_OK)
        err = postbag__query_i64(db,
            "SELECT count(*) FROM main.sqlite_schema WHERE type = 'table'"
            " AND name IN ('outbox', 'outbox_meta', 'outbox_dest',"
            " 'outbox_cursor', 'outbox_held')",
            &n);
    if (err == POSTBAG_OK && n == 0)
        err = postbag__fail(
            &db->fault, POSTBAG_ESCHEMA, "there is no outbox in it");
    return err;
}

static int open_from(struct db *db, const char *path, unsigned *without_wal)
{
    int err = POSTBAG_OK;

    for (int is_frozen = 0; is_frozen <= 1; is_frozen++) {
        *without_wal = (unsigned)is_frozen;
        err = postbag__db_open_damaged(db, path, is_frozen);
        if (err == POSTBAG_OK)
            err = begin_to_read(db);
        if (err == POSTBAG_OK || err == POSTBAG_ENOMEM)
            break;
        if (is_frozen == 0)
            postbag__db_close(db);
    }
    return err;
}

static int check_new(
    const struct postbag_port *port, const char *to, struct postbag_fault *why)
{
    uint64_t id;
    int err;

    if (to == NULL)
        return postbag__fail(why, POSTBAG_EINVAL, "salvage: to is required");
    if (POSTBAG__PORT_HAS(port, file_id) &&
        port->file_id(port->ctx, to, &id) == POSTBAG_OK)
        return postbag__fail(
            why, POSTBAG_EINVAL, "salvage: there is a file at %s", to);
    err = port->storage_check(port->ctx, to);
    return err == POSTBAG_OK
               ? err
               : postbag__fail(why, err, "%s: cannot hold a database", to);
}

static int open_to(struct db *db, const struct postbag_admin_config *c,
    const struct postbag_salvage *how)
{
    int64_t n = 0;
    int err = postbag__db_open_backed(
        db, c->port, how->to, DB_CREATE, DB_FULL, c->busy_ms);

    if (err == POSTBAG_OK)
        err = postbag__query_i64(db, "SELECT count(*) FROM sqlite_schema", &n);
    if (err == POSTBAG_OK && n > 0)
        err = postbag__fail(&db->fault, POSTBAG_EINVAL,
            "salvage: there is a database at %s", how->to);
    return err;
}

static int count(struct db *db, struct postbag_salvaged *out)
{
    int err = postbag__query_i64(db,
        "SELECT count(*) FROM outbox WHERE EXISTS (SELECT 1"
        " FROM outbox_cursor c WHERE c.lane = priority AND c.acked < seq"
        " AND (outbox.dest IS NULL OR outbox.dest = c.dest)"
        " AND NOT EXISTS (SELECT 1 FROM outbox_held h"
        "  WHERE h.dest = c.dest AND h.seq = outbox.seq))",
        &out->messages);

    if (err == POSTBAG_OK)
        err = postbag__query_i64(
            db, "SELECT count(*) FROM outbox_held", &out->held);
    return err == POSTBAG_OK ? postbag__query_i64(db,
                                   "SELECT count(*) FROM inbox", &out->commands)
                             : err;
}

static int salvage(const struct postbag_admin_config *c,
    const struct postbag_salvage *how, struct postbag_salvaged *out,
    struct postbag_fault *why)
{
    struct db from = {0};
    struct db to = {0};
    struct salvage s = {.from = &from, .to = &to, .how = how, .out = out};
    int err = open_from(&from, c->db_path, &out->without_wal);

    s.now_ms = c->port->wall_ms(c->port->ctx);
    if (err != POSTBAG_OK) {
        (void)postbag__pass(why, &from.fault);
    } else {
        err = open_to(&to, c, how);
        if (err == POSTBAG_OK)
            err = postbag__salvage(&s);
        if (err == POSTBAG_OK)
            err = count(&to, out);
        if (err != POSTBAG_OK) /* either side may have ended it */
            (void)postbag__pass(
                why, to.fault.code == err ? &to.fault : &from.fault);
    }
    postbag__db_close(&to);
    postbag__db_close(&from);
    return err;
}

int postbag_admin_salvage(const struct postbag_admin_config *config,
    const struct postbag_salvage *how, struct postbag_salvaged *out,
    struct postbag_fault *why)
{
    struct postbag_admin_config c;
    struct postbag_salvage h;
    struct postbag_salvaged done = {.struct_size = sizeof(done)};
    size_t size = out == NULL ? 0 : out->struct_size;
    int err = postbag__admin_adopt(&c, config, why);

    if (err == POSTBAG_OK) {
        err = how == NULL ? POSTBAG_EINVAL : postbag__adopt(&h, sizeof(h), how);
        if (err != POSTBAG_OK)
            return postbag__fail(
                why, err, "salvage: struct_size is not of this library");
        err = check_new(c.port, h.to, why);
    }
    if (err == POSTBAG_OK)
        err = salvage(&c, &h, &done, why);
    if (size > 0) {
        done.struct_size = size;
        memcpy(out, &done, size < sizeof(done) ? size : sizeof(done));
    }
    return err;
}

const char *postbag_sqlite_version(unsigned *wal_reset_bug)
{
    int version = postbag__db_library_version();

    if (wal_reset_bug != NULL)
        *wal_reset_bug = !postbag__db_checkpoint_is_sound(version);
    return postbag__db_library_name();
}
