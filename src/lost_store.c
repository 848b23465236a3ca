/* SPDX-License-Identifier: MIT */
/*
 * The table is keyed by the end of each range, so that a range grows, and a
 * reader finds a row, by a seek.  The sum of n is what was counted, so a range
 * that comes a second time adds to its entry.  Triggers bound the table, since
 * those of limits add to it in anybody's transaction.  Any thread, on its own
 * connection.
 */
#include "lost_store.h"

#include <stddef.h>
#include <string.h>

#include "drop_sql.h"

/* How many entries name what they tell of, beside the cursor that is written
 * when one comes. */
#define LOSSES \
    "(SELECT losses FROM outbox_cursor WHERE dest = NEW.dest AND lane = 0)"
#define COUNT(entry, change) \
    " UPDATE outbox_cursor SET losses = losses " change " WHERE dest = " entry \
    ".dest AND lane = 0;"
/* The oldest of them, if there are too many. */
#define SURPLUS \
    " FROM outbox_lost WHERE dest = NEW.dest AND exact" \
    " AND " LOSSES " > 1000 ORDER BY hi, lo, reason LIMIT 1"
#define SUM_UP_SURPLUS \
    " INSERT INTO outbox_lost" \
    "  SELECT dest, lo, hi, n, bytes, reason, 0, at_ms" SURPLUS DROP_MERGE ";" \
    " DELETE FROM outbox_lost WHERE (dest, hi, lo, reason, exact)" \
    "  = (SELECT dest, hi, lo, reason, exact" SURPLUS ");"

_Static_assert(POSTBAG__LOST_MOST == 1000, "as in SURPLUS");

static const char *const statements[] = {
    /* quick_check of SQLite 3.40 takes the last column here for the last of
       the record, and those behind that for NULL */
    "CREATE TABLE outbox_lost("
    " dest TEXT NOT NULL, lo INTEGER NOT NULL, hi INTEGER NOT NULL,"
    " n INTEGER NOT NULL, bytes INTEGER NOT NULL, reason TEXT NOT NULL,"
    " exact INTEGER NOT NULL DEFAULT 1, at_ms INTEGER NOT NULL,"
    " PRIMARY KEY(dest, hi, lo, reason, exact)) STRICT, WITHOUT ROWID",
    "CREATE UNIQUE INDEX outbox_lost_sum ON outbox_lost(dest, reason)"
    " WHERE NOT exact",

    "CREATE TRIGGER outbox_lost_in AFTER INSERT ON outbox_lost WHEN NEW.exact"
    " BEGIN" COUNT("NEW", "+ 1") SUM_UP_SURPLUS " END",

    "CREATE TRIGGER outbox_lost_out AFTER DELETE ON outbox_lost WHEN OLD.exact"
    " BEGIN" COUNT("OLD", "- 1") " END",
};

int postbag__lost_create(struct db *db)
{
    return POSTBAG__EXEC_ALL(db, statements);
}

static const struct stmt_plan plan[] = {
    {offsetof(struct lost_store, grow),
        "UPDATE outbox_lost SET hi = ?3, n = n + ?4, bytes = bytes + ?5,"
        " at_ms = ?7 WHERE dest = ?1 AND hi = ?2 - 1 AND reason = ?6"
        " AND exact AND ?8"},
    {offsetof(struct lost_store, add),
        "INSERT INTO outbox_lost(dest, lo, hi, n, bytes, reason, at_ms, exact)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)" DROP_MERGE},
};
enum { STATEMENTS = sizeof(plan) / sizeof(plan[0]) };

int postbag__lost_open(struct lost_store *l, struct db *db, const char *dest)
{
    memset(l, 0, sizeof(*l));
    l->db = db;
    l->dest = dest;
    return postbag__prepare_all(db, l, plan, STATEMENTS);
}

void postbag__lost_close(struct lost_store *l)
{
    postbag__finalize_all(l, plan, STATEMENTS);
}

static int run(struct lost_store *l, struct stmt *s, const struct lost *lost,
    const char *reason, int64_t at_ms)
{
    postbag__bind_text(s, 1, l->dest);
    postbag__bind_i64(s, 2, lost->lo);
    postbag__bind_i64(s, 3, lost->hi);
    postbag__bind_i64(s, 4, lost->n);
    postbag__bind_i64(s, 5, lost->bytes);
    postbag__bind_text(s, 6, reason);
    postbag__bind_i64(s, 7, at_ms);
    postbag__bind_i64(
        s, 8, !lost->is_replay && lost->n == lost->hi - lost->lo + 1);
    return postbag__run(s);
}

int postbag__lost_note(struct lost_store *l, const struct lost *lost,
    const char *reason, int64_t at_ms)
{
    int err = run(l, &l->grow, lost, reason, at_ms);

    if (err != POSTBAG_OK || postbag__changes(l->db) != 0)
        return err;
    return run(l, &l->add, lost, reason, at_ms);
}
