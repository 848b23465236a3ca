/* SPDX-License-Identifier: MIT */
/*
 * Purge.  Lane by lane: how far may rows go, then at most max_rows from the
 * low end.  Urgent lanes are read through their index; the bulk lane walks
 * the log itself and passes urgent rows that must stay.  Called by the
 * housekeeper and by tools, each on the thread of its connection.
 */
#include "purge_store.h"

#include "error.h"

enum {
    LANES = 4,
    /* outbox_acks entries looked at per step and destination */
    ENTRIES = 256
};

/* No row above this may go, whatever its lane. */
static int find_end(struct db *db, int64_t *end)
{
    int64_t newest;
    int64_t counted;
    int err = postbag__query_i64(
        db, "SELECT ifnull(max(seq), 0) FROM outbox", &newest);

    if (err == POSTBAG_OK)
        err = postbag__query_i64(
            db, "SELECT ifnull(max(seq), 0) FROM outbox_sum", &counted);
    if (err == POSTBAG_OK)
        *end = counted < newest ? counted : newest - 1;
    return err;
}

static int run_for_i64(struct stmt *s, int64_t *out)
{
    int err = postbag__row(s);

    if (err == 1) {
        *out = postbag__col_i64(s, 0);
        err = POSTBAG_OK;
    }
    return err;
}

/*
 * The low end of outbox_acks only: it is in the order of settling, and so of
 * age.  In the boot that wrote an entry CLOCK_BOOTTIME tells its age, whatever
 * the wall clock did.  In a later boot it is as old as that boot at least, and
 * as the wall clock says, if that was set then and did not go back since.
 */
static int prepare_expired(struct db *db, struct stmt *s, const struct purge *p,
    int lane, const struct moment *now)
{
    int err = postbag__prepare(db, s,
        "SELECT ifnull(min(max(d.first_seq - 1, min(ifnull(c.acked, 0),"
        "  ifnull((SELECT max(upto) FROM"
        "   (SELECT upto, at_ms, boot, mono_ms FROM outbox_acks a"
        "     WHERE a.dest = d.name AND a.lane = ?1 AND a.upto > ?2"
        "     ORDER BY a.upto LIMIT ?3)"
        "   WHERE iif(boot IS ?4, ?5 - mono_ms >= ?6,"
        "    ?5 >= ?6 OR at_ms BETWEEN ?7 AND ?8 - ?6)), 0)))), 0)"
        " FROM outbox_dest d LEFT JOIN outbox_cursor c"
        "  ON c.dest = d.name AND c.lane = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(s, 1, lane);
    postbag__bind_i64(s, 2, p->from[lane]);
    postbag__bind_i64(s, 3, ENTRIES);
    postbag__bind_blob(s, 4, now->boot, sizeof(now->boot));
    postbag__bind_i64(s, 5, now->mono_ms);
    postbag__bind_i64(s, 6, p->keep_ms);
    postbag__bind_i64(s, 7, POSTBAG__CLOCK_IS_SET_MS);
    postbag__bind_i64(s, 8, now->wall_ms);
    return POSTBAG_OK;
}

/* How far every destination has settled the lane. */
static int find_settled(struct db *db, int lane, int64_t *limit)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT ifnull(min(max(ifnull(c.acked, 0), d.first_seq - 1)), 0)"
        " FROM outbox_dest d LEFT JOIN outbox_cursor c"
        "  ON c.dest = d.name AND c.lane = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, lane);
    err = run_for_i64(&s, limit);
    postbag__finalize(&s);
    return err;
}

/* ... and long enough ago. */
static int find_expired(struct db *db, const struct purge *p, int lane,
    const struct moment *now, int64_t *limit)
{
    struct stmt s;
    int err = prepare_expired(db, &s, p, lane, now);

    if (err != POSTBAG_OK)
        return err;
    err = run_for_i64(&s, limit);
    postbag__finalize(&s);
    return err;
}

/* Up to where rows of the lane may go. */
static int find_limit(struct db *db, const struct purge *p, int lane,
    const struct moment *now, int64_t *limit)
{
    int64_t settled = 0;
    int err = find_settled(db, lane, &settled);

    *limit = settled;
    if (err == POSTBAG_OK && p->keep_ms > 0)
        err = find_expired(db, p, lane, now, limit);
    if (*limit > settled - p->keep_rows)
        *limit = settled - p->keep_rows;
    return err;
}

/*
 * The rows of a lane in (?1, ?2].  "priority > 0" must stand there literally,
 * or SQLite does not use the index of urgent rows; bulk has none and walks
 * the log.
 */
#define IN_RANGE "seq > ?1 AND seq <= ?2"
#define IS_URGENT " AND priority > 0 AND priority = ?3"

static int prepare_range(struct db *db, struct stmt *s, const char *sql,
    const struct purge *p, int lane, int64_t upto)
{
    int err = postbag__prepare(db, s, sql);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(s, 1, p->from[lane]);
    postbag__bind_i64(s, 2, upto);
    if (lane > 0)
        postbag__bind_i64(s, 3, lane);
    return POSTBAG_OK;
}

/* The last of the next rows up to limit, at most as many as are left of
 * max_rows. */
static int find_next(struct db *db, const struct purge *p, int lane,
    int64_t limit, int64_t *last, int64_t *found)
{
    static const char bulk[] =
        "SELECT ifnull(max(seq), 0), count(*) FROM (SELECT seq FROM outbox"
        " WHERE " IN_RANGE " ORDER BY seq LIMIT ?4)";
    static const char urgent[] =
        "SELECT ifnull(max(seq), 0), count(*) FROM (SELECT seq FROM outbox"
        " WHERE " IN_RANGE IS_URGENT " ORDER BY seq LIMIT ?4)";
    struct stmt s;
    int err = prepare_range(db, &s, lane == 0 ? bulk : urgent, p, lane, limit);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 4, (int64_t)p->max_rows - p->deleted);
    err = postbag__row(&s);
    if (err == 1) {
        *last = postbag__col_i64(&s, 0);
        *found = postbag__col_i64(&s, 1);
        err = POSTBAG_OK;
    }
    postbag__finalize(&s);
    return err;
}

static int delete_rows(struct db *db, struct purge *p, int lane, int64_t upto)
{
    static const char bulk[] =
        "DELETE FROM outbox WHERE " IN_RANGE " AND priority = 0";
    static const char urgent[] = "DELETE FROM outbox WHERE " IN_RANGE IS_URGENT;
    struct stmt s;
    int err = prepare_range(db, &s, lane == 0 ? bulk : urgent, p, lane, upto);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__run(&s);
    if (err == POSTBAG_OK)
        p->deleted += postbag__changes(db);
    postbag__finalize(&s);
    return err;
}

/* They tell when the rows up to it were settled: useless without rows. */
static int delete_times(struct db *db, const struct purge *p, int lane)
{
    static const char *const sql[] = {
        "DELETE FROM outbox_acks WHERE dest IN (SELECT name FROM outbox_dest)"
        " AND lane = ?1 AND upto <= ?2",
        "DELETE FROM outbox_late WHERE dest IN (SELECT name FROM outbox_dest)"
        " AND lane = ?1 AND seq <= ?2",
    };
    int err = POSTBAG_OK;

    for (size_t i = 0; i < 2 && err == POSTBAG_OK; i++) {
        struct stmt s;

        err = postbag__prepare(db, &s, sql[i]);
        if (err != POSTBAG_OK)
            break;
        postbag__bind_i64(&s, 1, lane);
        postbag__bind_i64(&s, 2, p->from[lane]);
        err = postbag__run(&s);
        postbag__finalize(&s);
    }
    return err;
}

static int purge_lane(struct db *db, struct purge *p, int lane, int64_t limit)
{
    int64_t budget = (int64_t)p->max_rows - p->deleted;
    int64_t last = 0;
    int64_t found = 0;
    int err;

    if (limit <= p->from[lane])
        return POSTBAG_OK;
    /* with keep_ms the limit looks at a few entries only, and may move on */
    p->more = p->more || p->keep_ms > 0 || budget <= 0;
    if (budget <= 0)
        return POSTBAG_OK;
    err = find_next(db, p, lane, limit, &last, &found);
    if (err == POSTBAG_OK && found >= budget) {
        limit = last;
        p->more = 1;
    }
    if (err == POSTBAG_OK && found > 0)
        err = delete_rows(db, p, lane, limit);
    if (err != POSTBAG_OK)
        return err;
    p->from[lane] = limit;
    return delete_times(db, p, lane);
}

/* Running totals below the lowest row are of no use, but the newest of them
 * is what the sums above start from. */
static int delete_sums(struct db *db, struct purge *p)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "DELETE FROM outbox_sum WHERE seq IN (SELECT seq FROM outbox_sum"
        " WHERE seq < (SELECT max(seq) FROM outbox_sum"
        "  WHERE seq <= (SELECT min(seq) FROM outbox))"
        " ORDER BY seq LIMIT ?1)");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, p->max_rows);
    err = postbag__run(&s);
    if (err == POSTBAG_OK && postbag__changes(db) >= (int64_t)p->max_rows)
        p->more = 1;
    postbag__finalize(&s);
    return err;
}

int postbag__purge(struct db *db, struct purge *p, const struct moment *now)
{
    int64_t end;
    int64_t limit;
    int err = find_end(db, &end);

    p->deleted = 0;
    p->more = 0;
    for (int lane = LANES - 1; lane >= 0 && err == POSTBAG_OK; lane--) {
        err = find_limit(db, p, lane, now, &limit);
        if (err == POSTBAG_OK)
            err = purge_lane(db, p, lane, limit < end ? limit : end);
    }
    return err == POSTBAG_OK ? delete_sums(db, p) : err;
}
