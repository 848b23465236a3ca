/* SPDX-License-Identifier: MIT */
/*
 * Archive: the settled prefix of the log, over all lanes of a destination, in
 * the order of seq, from where the last archive ended.  The purge does not
 * wait for it: what is gone is told.  Any thread, on its own connection.
 */
#include "archive_store.h"

#include "list_store.h"
#include "schema.h"

/* Where the archive of a destination ends, and the rows of the log: lowest,
 * and up to which all is settled. */
struct range {
    const char *dest;
    int64_t archived, lowest, settled;
};

/* "priority > 0" must stand there literally, or SQLite does not use the index
 * of urgent rows. */
static int find_range(struct db *db, struct range *out)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT max(archived, first_seq - 1),"
        " ifnull((SELECT min(seq) FROM outbox), 1),"
        " ifnull((SELECT min(iif(c.lane = 0,"
        "   (SELECT min(seq) FROM outbox WHERE seq > c.acked"
        "    AND priority = 0),"
        "   (SELECT min(seq) FROM outbox WHERE priority > 0"
        "    AND priority = c.lane AND seq > c.acked))) - 1"
        "  FROM outbox_cursor c WHERE c.dest = d.name),"
        "  ifnull((SELECT max(seq) FROM outbox), 0))"
        " FROM outbox_dest d WHERE d.name = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, out->dest);
    err = postbag__row(&s);
    if (err == 1) {
        out->archived = postbag__col_i64(&s, 0);
        out->lowest = postbag__col_i64(&s, 1);
        out->settled = postbag__col_i64(&s, 2);
    }
    postbag__finalize(&s);
    return err == 1 ? POSTBAG_OK : err < 0 ? err : POSTBAG_ENOTFOUND;
}

static int hand_out(struct db *db, const struct range *r, int64_t most,
    int (*row)(void *ctx, const struct postbag_row *row), void *ctx,
    struct archive_batch *out)
{
    struct stmt s;
    int result = POSTBAG_OK;
    int err = postbag__prepare(db, &s,
        "SELECT seq FROM outbox o WHERE seq > ?2 AND seq <= ?3"
        " AND (dest IS NULL OR dest = ?1)"
        " AND NOT EXISTS (SELECT 1 FROM outbox_lost l WHERE l.dest = ?1"
        "  AND " POSTBAG__LOST_NAMES_ROW ")"
        " ORDER BY seq LIMIT ?4");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, r->dest);
    postbag__bind_i64(&s, 2, r->archived);
    postbag__bind_i64(&s, 3, r->settled);
    postbag__bind_i64(&s, 4, most);
    while (result == POSTBAG_OK && (err = postbag__row(&s)) == 1) {
        out->upto = postbag__col_i64(&s, 0);
        result = postbag__show_row(db, r->dest, out->upto, NULL, row, ctx);
        out->rows++;
    }
    postbag__finalize(&s);
    return err < 0 ? err : result;
}

int postbag__archive_next(struct db *db, const char *dest, int64_t most,
    int (*row)(void *ctx, const struct postbag_row *row), void *ctx,
    struct archive_batch *out)
{
    struct range r = {.dest = dest};
    int err = find_range(db, &r);

    *out = (struct archive_batch){.upto = r.archived};
    if (err != POSTBAG_OK || r.settled <= r.archived)
        return err;
    if (r.lowest > r.archived + 1)
        out->gone = r.lowest - r.archived - 1;
    err = hand_out(db, &r, most, row, ctx, out);
    if (err == POSTBAG_OK && out->rows < most)
        out->upto = r.settled;
    return err;
}

int postbag__archive_mark(struct db *db, const char *dest, int64_t upto)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "UPDATE outbox_dest SET archived = max(archived, ?2) WHERE name = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    postbag__bind_i64(&s, 2, upto);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}
