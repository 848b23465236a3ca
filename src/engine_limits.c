/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  How much may wait, at postbag_open: what an option gives is stored,
 * for every writer, and what changes is told; what is not given stays.  Once
 * per engine, on the thread that opens it.
 */
#include <stdio.h>
#include <string.h>

#include "engine.h"
#include "error.h"
#include "inbox_limit.h"
#include "limit_store.h"
#include "room.h"

int postbag__engine_check_limits(struct engine *e)
{
    const char *name = e->config->overflow;
    struct limits l;

    if (postbag__overflow_parse(name, &l) == POSTBAG_OK)
        return POSTBAG_OK;
    return postbag__fail(&e->db.fault, POSTBAG_EINVAL,
        "option overflow is %s; it must be reject or drop_oldest", name);
}

/* ---- what changed ---- */

struct number {
    char text[24];
};

static const char *words(struct number *out, int64_t limit)
{
    if (limit == 0)
        return "no limit";
    (void)snprintf(out->text, sizeof(out->text), "%lld", (long long)limit);
    return out->text;
}

static const char *policy(const struct limits *l)
{
    return l->drop_oldest ? "drop_oldest" : "reject";
}

static void tell(
    struct engine *e, const char *name, const char *was, const char *now)
{
    if (strcmp(was, now) != 0)
        postbag__log(&e->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
            "%s of the database was %s, and is %s from now on", name, was, now);
}

static void tell_number(
    struct engine *e, const char *name, int64_t was, int64_t now)
{
    struct number before;
    struct number after;

    tell(e, name, words(&before, was), words(&after, now));
}

/* ---- setting them ---- */

static int set_room(struct engine *e)
{
    int64_t now = e->config->min_free_bytes;
    int64_t was = 0;
    int err = postbag__query_i64(&e->db,
        "SELECT ifnull((SELECT value FROM outbox_meta"
        " WHERE key = 'min_free_bytes'), 0)",
        &was);

    if (err == POSTBAG_OK)
        err = postbag__room_set(&e->db, (uint32_t)now);
    if (err == POSTBAG_OK)
        tell_number(e, "min_free_bytes", was, now);
    return err;
}

static int set_inbox(struct engine *e)
{
    const struct postbag_config *c = e->config;
    struct inbox_fill was;
    struct inbox_fill now;
    int err = postbag__inbox_limits_take(
        &e->db, c->inbox_max_rows, c->inbox_max_bytes, &was, &now);

    if (err != POSTBAG_OK)
        return err;
    tell_number(e, "inbox_max_rows", was.max_rows, now.max_rows);
    tell_number(e, "inbox_max_bytes", was.max_bytes, now.max_bytes);
    return POSTBAG_OK;
}

int postbag__engine_open_limits(struct engine *e)
{
    const struct limit_options options = {.max_rows = e->config->max_rows,
        .max_bytes = e->config->max_bytes,
        .overflow = e->config->overflow};
    struct limits was;
    struct limits now;
    int err = postbag__limits_take(&e->db, &options, &was, &now);

    if (err != POSTBAG_OK)
        return err;
    tell_number(e, "max_rows", was.max_rows, now.max_rows);
    tell_number(e, "max_bytes", was.max_bytes, now.max_bytes);
    tell(e, "overflow", policy(&was), policy(&now));
    err = set_inbox(e);
    if (err != POSTBAG_OK)
        return err;
    return e->config->min_free_bytes == 0 ? POSTBAG_OK : set_room(e);
}
