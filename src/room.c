/* SPDX-License-Identifier: MIT */
/* See room.h.  The thread of the connection. */
#include "room.h"

#include <stddef.h>

#include "abi.h"
#include "error.h"

/* A put costs a look at the clock; a hundred times a second it costs a
 * statfs, of a few microseconds. */
enum { LOOK_US = 10 * 1000 };

int postbag__room_set(struct db *db, uint32_t min_free_bytes)
{
    struct stmt s;
    int64_t now = 0;
    int err = postbag__query_i64(db,
        "SELECT ifnull((SELECT value FROM outbox_meta"
        " WHERE key = 'min_free_bytes'), 0)",
        &now);

    if (err != POSTBAG_OK || now == (int64_t)min_free_bytes)
        return err;
    err = postbag__begin(db, DB_FULL);
    if (err == POSTBAG_OK)
        err = postbag__prepare(db, &s,
            "INSERT OR REPLACE INTO outbox_meta VALUES ('min_free_bytes', ?1)");
    if (err == POSTBAG_OK) {
        postbag__bind_i64(&s, 1, min_free_bytes);
        err = postbag__run(&s);
        postbag__finalize(&s);
    }
    if (err == POSTBAG_OK)
        return postbag__commit(db);
    postbag__rollback(db);
    return err;
}

static const struct stmt_plan plan[] = {
    {offsetof(struct room, limit),
        "SELECT value FROM main.outbox_meta WHERE key = 'min_free_bytes'"},
    {offsetof(struct room, spare), "PRAGMA main.freelist_count"},
};
enum { STATEMENTS = sizeof(plan) / sizeof(plan[0]) };

int postbag__room_open(
    struct room *r, struct db *db, const struct postbag_port *port)
{
    int err;

    r->db = db;
    r->port = port;
    r->seen.free_bytes = -1;
    r->guard = -1;
    err = postbag__query_i64(db, "PRAGMA main.page_size", &r->page_size);
    return err == POSTBAG_OK ? postbag__prepare_all(db, r, plan, STATEMENTS)
                             : err;
}

void postbag__room_close(struct room *r)
{
    postbag__finalize_all(r, plan, STATEMENTS);
}

/* What the database has laid out or freed can be taken on a full disk, too. */
static int look_at_files(struct room *r)
{
    static const struct postbag_room unknown = {.free_bytes = -1};
    int err;

    if (!POSTBAG__PORT_HAS(r->port, room) ||
        r->port->room(r->port->ctx, postbag__db_path(r->db), &r->seen) !=
            POSTBAG_OK)
        r->seen = unknown;
    if (r->seen.free_bytes < 0)
        return POSTBAG_OK;
    err = postbag__row(&r->spare);
    if (err < 0)
        return err;
    r->seen.free_bytes += postbag__col_i64(&r->spare, 0) * r->page_size;
    postbag__reset(&r->spare);
    return POSTBAG_OK;
}

static int look(struct room *r)
{
    int err = postbag__row(&r->limit);

    if (err < 0)
        return err;
    r->min_free_bytes = err == 1 ? postbag__col_i64(&r->limit, 0) : 0;
    postbag__reset(&r->limit);
    return POSTBAG_OK;
}

static int refresh(struct room *r, int64_t now_us)
{
    int err;

    if (r->next_us != 0 && now_us < r->next_us)
        return POSTBAG_OK;
    err = look(r);
    if (err == POSTBAG_OK && r->min_free_bytes != 0)
        err = look_at_files(r);
    if (err == POSTBAG_OK)
        r->next_us = now_us + LOOK_US;
    return err;
}

static int is_low(const struct room *r, int64_t slack)
{
    return r->min_free_bytes != 0 && r->seen.free_bytes >= 0 &&
           r->seen.free_bytes <= r->min_free_bytes + slack;
}

int postbag__room_check(struct room *r, int64_t now_us)
{
    int err = refresh(r, now_us);

    if (err != POSTBAG_OK || !is_low(r, 0))
        return err;
    return postbag__fail(&r->db->fault, POSTBAG_EFULL,
        "outbox is full: %lld bytes are free on the file system and in the"
        " database, min_free_bytes is %lld",
        (long long)r->seen.free_bytes, (long long)r->min_free_bytes);
}

/* Each turn is a write, so what stands goes only when there is some more. */
int postbag__room_guard_is_due(struct room *r, int64_t now_us)
{
    int err = refresh(r, now_us);

    if (err != POSTBAG_OK)
        return err;
    return is_low(r, r->guard == 1 ? r->min_free_bytes / 8 : 0) != r->guard;
}

/* Rows with a boot are of postbag_put, which has asked the file system itself:
 * a trigger that a dead relay left refuses none of them.  db_codes.c knows the
 * text by its beginning. */
static int turn(struct db *db, int stands)
{
    int err = postbag__exec(db, "DROP TRIGGER IF EXISTS " POSTBAG__ROOM_GUARD);

    if (err != POSTBAG_OK || !stands)
        return err;
    return postbag__exec(db,
        "CREATE TRIGGER " POSTBAG__ROOM_GUARD " BEFORE INSERT ON outbox"
        " WHEN NEW.boot IS NULL BEGIN"
        " SELECT RAISE(ABORT, 'postbag: outbox is full: no more than"
        " min_free_bytes are free on the file system'); END");
}

static int set_guard(struct room *r, int stands)
{
    int err = postbag__begin(r->db, DB_NORMAL);

    if (err != POSTBAG_OK)
        return err;
    err = turn(r->db, stands);
    if (err == POSTBAG_OK)
        err = postbag__commit(r->db);
    else
        postbag__rollback(r->db);
    if (err == POSTBAG_OK)
        r->guard = stands;
    return err;
}

int postbag__room_turn_guard(struct room *r)
{
    return set_guard(r, is_low(r, 0));
}

int postbag__room_drop_guard(struct room *r)
{
    return r->guard == 1 ? set_guard(r, 0) : POSTBAG_OK;
}

/* Rounded down: 1000 if and only if puts are refused. */
static int64_t fill(int64_t min_free, int64_t free_bytes)
{
    if (min_free == 0 || free_bytes < 0)
        return 0;
    return free_bytes <= min_free ? 1000 : min_free * 1000 / free_bytes;
}

int postbag__room_fill(struct room *r, struct postbag_pressure *out)
{
    int err = look(r);

    if (err == POSTBAG_OK)
        err = look_at_files(r);
    out->min_free_bytes = r->min_free_bytes;
    out->free_bytes = r->seen.free_bytes;
    out->size_bytes = r->seen.size_bytes;
    out->free_fill = fill(r->min_free_bytes, r->seen.free_bytes);
    return err;
}
