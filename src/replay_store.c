/* SPDX-License-Identifier: MIT */
/*
 * Replay: copies of settled rows among the held ones, marked, so that all that
 * holds for a held row holds for them: due at once, order per key, attempts,
 * dead.  Their first life is in the ledger already, so each counts as replayed
 * there, and what becomes of it counts as usual.  Any thread, on its own
 * connection.
 */
#include "replay_store.h"

#include "row.h"
#include "schema.h"

/* What the destination has settled, was not dropped and is not held. */
#define IS_WANTED \
    " o.seq >= ?2 AND (?3 = 0 OR o.seq <= ?3)" \
    " AND (?4 = 0 OR o.created_ms >= ?4) AND (?5 = 0 OR o.created_ms <= ?5)" \
    " AND (o.dest IS NULL OR o.dest = ?1)" \
    " AND o.seq >= (SELECT first_seq FROM outbox_dest WHERE name = ?1)" \
    " AND o.seq <= (SELECT acked FROM outbox_cursor k WHERE k.dest = ?1" \
    "  AND k.lane = o.priority)" \
    " AND NOT EXISTS (SELECT 1 FROM outbox_held h WHERE h.dest = ?1" \
    "  AND h.seq = o.seq)" \
    " AND NOT EXISTS (SELECT 1 FROM outbox_lost l WHERE l.dest = ?1" \
    "  AND " POSTBAG__LOST_NAMES_ROW ")"

static int prepare(struct db *db, struct stmt *s, const char *sql,
    const struct postbag_replay *which)
{
    int err = postbag__prepare(db, s, sql);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(s, 1, which->dest);
    postbag__bind_i64(s, 2, which->from_seq);
    postbag__bind_i64(s, 3, which->to_seq);
    postbag__bind_i64(s, 4, which->from_ms);
    postbag__bind_i64(s, 5, which->to_ms);
    return POSTBAG_OK;
}

/* The last row that is queued now, and the first that is left; 0: none. */
static int find_end(struct db *db, const struct postbag_replay *which,
    int64_t *last, int64_t *next)
{
    struct stmt s;
    int err = prepare(db, &s,
        "SELECT o.seq FROM outbox o WHERE" IS_WANTED " ORDER BY o.seq LIMIT ?6",
        which);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 6, which->max_rows + 1);
    *last = 0;
    *next = 0;
    for (int64_t i = 0; (err = postbag__row(&s)) == 1; i++)
        *(i < which->max_rows ? last : next) = postbag__col_i64(&s, 0);
    postbag__finalize(&s);
    return err;
}

static const char count[] =
    "UPDATE outbox_cursor AS c SET replayed = replayed"
    " + (SELECT count(*) FROM outbox o WHERE o.priority = c.lane AND" IS_WANTED
    ") WHERE dest = ?1";

/* due_boot NULL is "another boot": due at once */
static const char copy[] =
    "INSERT INTO outbox_held(dest, seq, state, held_ms, replay, " ROW_COLUMNS
    ") SELECT ?1, seq, 'retry', ?6, 1, " ROW_COLUMNS
    " FROM outbox o WHERE" IS_WANTED;

static int run(struct db *db, const char *sql,
    const struct postbag_replay *which, const int64_t *wall_ms)
{
    struct stmt s;
    int err = prepare(db, &s, sql, which);

    if (err != POSTBAG_OK)
        return err;
    if (wall_ms != NULL)
        postbag__bind_i64(&s, 6, *wall_ms);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

int postbag__replay(struct db *db, const struct postbag_replay *which,
    int64_t wall_ms, int64_t *count_out, int64_t *next_out)
{
    struct postbag_replay part = *which;
    int err = find_end(db, which, &part.to_seq, next_out);

    *count_out = 0;
    if (err != POSTBAG_OK || part.to_seq == 0)
        return err;
    err = run(db, count, &part, NULL);
    if (err == POSTBAG_OK)
        err = run(db, copy, &part, &wall_ms);
    if (err != POSTBAG_OK)
        return err;
    *count_out = postbag__changes(db);
    return POSTBAG_OK;
}
