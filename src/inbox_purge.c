/* SPDX-License-Identifier: MIT */
/*
 * A sweep over the inbox by arrival, some rows at a time, so that one call
 * costs the same whether the inbox holds a hundred rows or a hundred thousand.
 * On the housekeeper's thread and connection.
 */
#include "inbox_purge.h"

#include <inttypes.h>
#include <stdio.h>

#include "moment.h"

#define I64 "%" PRId64
/* A done row among those looked at, and when it was done. */
#define LOOKED_AT \
    "main.inbox WHERE arrival > " I64 " AND arrival <= " I64 \
    " AND state = 'done'"
#define STAMP "coalesce(processed_ms, received_ms)"

enum { SQL_SIZE = 400 };

struct range {
    int64_t from; /* exclusive */
    int64_t to;
};

/* to is 0 where nothing is left that may be looked at. */
static int find_range(struct db *db, int64_t rows, struct range *r)
{
    char sql[SQL_SIZE];

    (void)snprintf(sql, sizeof(sql),
        "SELECT ifnull(min("
        "(SELECT max(arrival) FROM (SELECT arrival FROM main.inbox"
        " WHERE arrival > " I64 " ORDER BY arrival LIMIT " I64 ")),"
        "(SELECT max(arrival) FROM main.inbox) - %d), 0)",
        r->from, rows, INBOX_KEEP_NEWEST);
    return postbag__query_i64(db, sql, &r->to);
}

static int count_work(
    struct db *db, const struct range *r, int64_t before_ms, int64_t *out)
{
    char sql[SQL_SIZE];

    (void)snprintf(sql, sizeof(sql),
        "SELECT EXISTS (SELECT 1 FROM " LOOKED_AT " AND " STAMP " < " I64 ")",
        r->from, r->to, before_ms);
    return postbag__query_i64(db, sql, out);
}

/* What was done before the clock was set is as old as this moment. */
static int stamp(struct db *db, const struct range *r, int64_t wall_ms)
{
    char sql[SQL_SIZE];

    (void)snprintf(sql, sizeof(sql),
        "UPDATE main.inbox SET processed_ms = " I64
        " WHERE arrival IN (SELECT arrival FROM " LOOKED_AT " AND " STAMP
        " < " I64 ")",
        wall_ms, r->from, r->to, POSTBAG__CLOCK_IS_SET_MS);
    return postbag__exec(db, sql);
}

static int forget(struct db *db, const struct range *r, int64_t before_ms,
    int64_t *deleted_out)
{
    char sql[SQL_SIZE];
    int err;

    (void)snprintf(sql, sizeof(sql),
        "DELETE FROM " LOOKED_AT " AND " STAMP " < " I64, r->from, r->to,
        before_ms);
    err = postbag__exec(db, sql);
    *deleted_out = err == POSTBAG_OK ? postbag__changes(db) : 0;
    return err;
}

/* NORMAL: a delete that a power cut undoes is done again, and until then the
 * row only remembers for longer than it must. */
static int purge_range(struct db *db, const struct range *r,
    const struct inbox_purge *p, int64_t *deleted_out)
{
    int err = postbag__begin(db, DB_NORMAL);

    if (err != POSTBAG_OK)
        return err;
    err = stamp(db, r, p->wall_ms);
    if (err == POSTBAG_OK)
        err = forget(db, r, p->wall_ms - p->keep_ms, deleted_out);
    if (err == POSTBAG_OK)
        err = postbag__commit(db);
    else
        postbag__rollback(db);
    if (err != POSTBAG_OK)
        *deleted_out = 0;
    return err;
}

int postbag__inbox_purge(struct db *db, struct inbox_sweep *sweep,
    const struct inbox_purge *p, int64_t *deleted_out, int *more_out)
{
    struct range r = {.from = sweep->from};
    int64_t before_ms = p->wall_ms - p->keep_ms;
    int64_t work = 0;
    int err;

    *deleted_out = 0;
    *more_out = 0;
    if (p->wall_ms < POSTBAG__CLOCK_IS_SET_MS)
        return POSTBAG_OK;
    if (before_ms < POSTBAG__CLOCK_IS_SET_MS)
        before_ms = POSTBAG__CLOCK_IS_SET_MS;
    err = find_range(db, p->rows, &r);
    if (err == POSTBAG_OK && r.to > r.from)
        err = count_work(db, &r, before_ms, &work);
    if (err == POSTBAG_OK && work)
        err = purge_range(db, &r, p, deleted_out);
    if (err != POSTBAG_OK)
        return err;
    *more_out = r.to > r.from;
    sweep->from = *more_out ? r.to : 0;
    return POSTBAG_OK;
}
