/* SPDX-License-Identifier: MIT */
/*
 * A sweep over the inbox by arrival, some rows at a time, so that one call
 * costs the same whether the inbox holds a hundred rows or a hundred thousand.
 * It begins with the oldest, so what is too many is deleted as it goes along.
 * On the housekeeper's thread and connection.
 */
#include "inbox_purge.h"

/* Bound in every statement: ?1 and ?2 the range, ?3 boot, ?4 CLOCK_BOOTTIME,
 * ?5 the wall clock or 0 if it is not set, ?6 how old a row becomes, ?7 from
 * when on a clock is set. */
#define LOOKED_AT \
    "main.inbox WHERE arrival > ?1 AND arrival <= ?2 AND state = 'done'"
#define DONE_MS "coalesce(processed_ms, received_ms)"
/* How long ago it was done, at least: postbag__moment_age_ms in SQL. */
#define AGE \
    "iif(boot IS ?3, ?4 - mono_ms, max(iif(boot IS NULL, 0, ?4)," \
    " iif(" DONE_MS " >= ?7 AND ?5 > 0, ?5 - " DONE_MS ", 0)))"
/* Done before the clock was set, and now it is. */
#define UNDATED "(?5 > 0 AND " DONE_MS " < ?7)"

struct range {
    int64_t from; /* exclusive */
    int64_t to;
};

static void bind(
    struct stmt *s, const struct range *r, const struct inbox_purge *p)
{
    int64_t wall_ms = p->now.wall_ms;

    postbag__bind_i64(s, 1, r->from);
    postbag__bind_i64(s, 2, r->to);
    postbag__bind_blob(s, 3, p->now.boot, sizeof(p->now.boot));
    postbag__bind_i64(s, 4, p->now.mono_ms);
    postbag__bind_i64(s, 5, wall_ms < POSTBAG__CLOCK_IS_SET_MS ? 0 : wall_ms);
    postbag__bind_i64(s, 6, p->keep_ms);
    postbag__bind_i64(s, 7, POSTBAG__CLOCK_IS_SET_MS);
}

/* The first number of a SELECT, then it is over. */
static int get(struct stmt *s, int64_t *out)
{
    int err = postbag__row(s);

    if (err == 1) {
        *out = postbag__col_i64(s, 0);
        err = POSTBAG_OK;
    }
    postbag__finalize(s);
    return err;
}

/* to is 0 where nothing is left that may be looked at. */
static int find_range(struct db *db, int64_t rows, struct range *r)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT ifnull(min("
        "(SELECT max(arrival) FROM (SELECT arrival FROM main.inbox"
        " WHERE arrival > ?1 ORDER BY arrival LIMIT ?2)),"
        "(SELECT max(arrival) FROM main.inbox) - ?3), 0)");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, r->from);
    postbag__bind_i64(&s, 2, rows);
    postbag__bind_i64(&s, 3, INBOX_KEEP_NEWEST);
    return get(&s, &r->to);
}

/* How many are too many? */
static int find_excess(
    struct db *db, struct inbox_sweep *sweep, int64_t done_max_rows)
{
    struct stmt s;
    int err = postbag__prepare(
        db, &s, "SELECT max(done_rows - ?1, 0) FROM main.inbox_sum");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, done_max_rows);
    return get(&s, &sweep->excess);
}

static int count_work(struct db *db, const struct range *r,
    const struct inbox_purge *p, int64_t excess, int64_t *out)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT EXISTS (SELECT 1 FROM " LOOKED_AT " AND (?8 > 0 OR " UNDATED
        " OR " AGE " > ?6))");

    if (err != POSTBAG_OK)
        return err;
    bind(&s, r, p);
    postbag__bind_i64(&s, 8, excess);
    return get(&s, out);
}

static int run(struct db *db, const char *sql, const struct range *r,
    const struct inbox_purge *p)
{
    struct stmt s;
    int err = postbag__prepare(db, &s, sql);

    if (err != POSTBAG_OK)
        return err;
    bind(&s, r, p);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

static int note_forgotten(struct db *db, int64_t count)
{
    struct stmt s;
    int err = postbag__prepare(
        db, &s, "UPDATE main.inbox_sum SET forgotten = forgotten + ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, count);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

/* The oldest, before their time. */
static int forget(struct db *db, const struct range *r,
    const struct inbox_purge *p, struct inbox_sweep *sweep)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "DELETE FROM main.inbox WHERE arrival IN (SELECT arrival "
        "FROM " LOOKED_AT " ORDER BY arrival LIMIT ?6) RETURNING " AGE);

    if (err != POSTBAG_OK)
        return err;
    bind(&s, r, p);
    postbag__bind_i64(&s, 6, sweep->excess);
    while ((err = postbag__row(&s)) == 1) {
        int64_t age_ms = postbag__col_i64(&s, 0);

        if (sweep->forgotten++ == 0 || age_ms < sweep->youngest_ms)
            sweep->youngest_ms = age_ms;
    }
    sweep->excess -= sweep->forgotten;
    postbag__finalize(&s);
    return err == POSTBAG_OK && sweep->forgotten > 0
               ? note_forgotten(db, sweep->forgotten)
               : err;
}

/* NORMAL: a delete that a power cut undoes is done again, and until then the
 * row only remembers for longer than it must. */
static int purge_range(struct db *db, const struct range *r,
    const struct inbox_purge *p, struct inbox_sweep *sweep,
    int64_t *deleted_out)
{
    int err = postbag__begin(db, DB_NORMAL);

    if (err != POSTBAG_OK)
        return err;
    /* as exactly as it is known: of an earlier boot, not before now */
    err = run(db,
        "UPDATE main.inbox SET processed_ms ="
        " ?5 - iif(boot IS ?3, ?4 - mono_ms, 0)"
        " WHERE arrival IN (SELECT arrival FROM " LOOKED_AT " AND " UNDATED ")",
        r, p);
    if (err == POSTBAG_OK)
        err = run(db, "DELETE FROM " LOOKED_AT " AND " AGE " > ?6", r, p);
    *deleted_out = postbag__changes(db);
    sweep->excess -= *deleted_out;
    if (err == POSTBAG_OK && sweep->excess > 0)
        err = forget(db, r, p, sweep);
    *deleted_out += sweep->forgotten;
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
    struct inbox_sweep next = {0};
    struct range r = {0};
    int64_t work = 0;
    int err = find_excess(db, &next, p->done_max_rows);

    *deleted_out = 0;
    *more_out = 0;
    sweep->forgotten = 0;
    if (next.excess == 0 || sweep->excess > 0)
        r.from = sweep->from; /* or else afresh: with the oldest */
    if (err == POSTBAG_OK)
        err = find_range(db, p->rows, &r);
    if (err == POSTBAG_OK && r.to > r.from)
        err = count_work(db, &r, p, next.excess, &work);
    if (err == POSTBAG_OK && work)
        err = purge_range(db, &r, p, &next, deleted_out);
    if (err != POSTBAG_OK)
        return err;
    *more_out = r.to > r.from;
    next.from = *more_out ? r.to : 0;
    *sweep = next;
    return POSTBAG_OK;
}
