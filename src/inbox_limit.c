/* SPDX-License-Identifier: MIT */
/* See inbox_limit.h.  Any thread, on its own connection. */
#include "inbox_limit.h"

#include "error.h"
#include "limit_store.h"

int postbag__inbox_fill_prepare(struct db *db, struct stmt *s)
{
    return postbag__prepare(db, s,
        "SELECT open_rows, open_bytes, max_rows, max_bytes, forgotten"
        " FROM main.inbox_sum");
}

int postbag__inbox_fill_read(struct stmt *s, struct inbox_fill *out)
{
    int err = postbag__row(s);

    if (err == 0)
        return postbag__fail(
            &s->db->fault, POSTBAG_ECORRUPT, "inbox_sum has no row");
    if (err != 1)
        return err;
    out->rows = postbag__col_i64(s, 0);
    out->bytes = postbag__col_i64(s, 1);
    out->max_rows = postbag__col_i64(s, 2);
    out->max_bytes = postbag__col_i64(s, 3);
    out->forgotten = postbag__col_i64(s, 4);
    postbag__reset(s);
    return POSTBAG_OK;
}

int postbag__inbox_fill(struct db *db, struct inbox_fill *out)
{
    struct stmt s;
    int err = postbag__inbox_fill_prepare(db, &s);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__inbox_fill_read(&s, out);
    postbag__finalize(&s);
    return err;
}

static int store(struct db *db, const struct inbox_fill *f)
{
    struct stmt s;
    int err = postbag__prepare(
        db, &s, "UPDATE main.inbox_sum SET max_rows = ?1, max_bytes = ?2");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, f->max_rows);
    postbag__bind_i64(&s, 2, f->max_bytes);
    err = postbag__begin(db, DB_FULL);
    if (err == POSTBAG_OK) {
        err = postbag__run(&s);
        if (err == POSTBAG_OK)
            err = postbag__commit(db);
        else
            postbag__rollback(db);
    }
    postbag__finalize(&s);
    return err;
}

static int64_t option(uint32_t given, int64_t stored)
{
    if (given == 0)
        return stored;
    return given == POSTBAG__NO_LIMIT ? 0 : given;
}

int postbag__inbox_limits_take(struct db *db, uint32_t max_rows,
    uint32_t max_bytes, struct inbox_fill *was, struct inbox_fill *now)
{
    int err = postbag__inbox_fill(db, was);

    if (err != POSTBAG_OK)
        return err;
    *now = *was;
    now->max_rows = option(max_rows, was->max_rows);
    now->max_bytes = option(max_bytes, was->max_bytes);
    if (now->max_rows == was->max_rows && now->max_bytes == was->max_bytes)
        return POSTBAG_OK;
    return store(db, now);
}
