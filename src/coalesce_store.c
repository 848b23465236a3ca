/* SPDX-License-Identifier: MIT */
/*
 * Coalescing.  The index outbox_coalesce has only rows that ask for it, so
 * others pay nothing.  The trigger runs in the application's transaction, the
 * rest on the engine's thread.
 */
#include "coalesce_store.h"

#include <stddef.h>
#include <string.h>

#define BYTES "length(CAST(o.topic AS BLOB)) + length(CAST(o.payload AS BLOB))"
#define NOW "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

/* For each destination what it loses, for itself or for others. */
#define LOSSES(columns) \
    "(SELECT d.name, " columns " FROM outbox o JOIN outbox_dest d" \
    "  WHERE " POSTBAG__REPLACED " GROUP BY d.name) l"
#define OWN_LOSSES(columns) \
    "(SELECT d.name, " columns " FROM outbox o JOIN outbox_dest d" \
    "  WHERE " POSTBAG__REPLACED \
    "  AND (o.dest IS NULL OR o.dest = d.name) GROUP BY d.name) l"

/* Bytes above the newest running total were never counted as put. */
#define COUNT_THEM \
    "UPDATE outbox_cursor SET settled_rows = settled_rows + l.n," \
    " settled_bytes = settled_bytes + l.bytes, dropped = dropped + l.ours," \
    " passed = passed + l.n - l.ours FROM " LOSSES( \
        "count(*) AS n, sum(o.dest IS NULL OR o.dest = d.name) AS ours," \
        " sum(iif(o.seq <= (SELECT max(seq) FROM outbox_sum), " BYTES \
        ", 0)) AS bytes") " WHERE dest = l.name AND lane = NEW.priority;"

/* An empty entry first: a conflict clause in a trigger gives way to that of
 * the application's statement. */
#define MAKE_ENTRIES \
    "INSERT INTO outbox_lost(dest, lo, hi, n, bytes, reason, at_ms)" \
    " SELECT l.name, l.lo, l.lo, 0, 0, 'coalesced', " NOW " FROM " OWN_LOSSES( \
        "min(o.seq) AS lo") " WHERE NOT EXISTS (SELECT 1 FROM outbox_lost" \
                            "  WHERE dest = l.name AND reason = 'coalesced');"
#define RECORD_THEM \
    "UPDATE outbox_lost SET lo = min(outbox_lost.lo, l.lo)," \
    " hi = max(outbox_lost.hi, l.hi), n = outbox_lost.n + l.n," \
    " bytes = outbox_lost.bytes + l.bytes, at_ms = " NOW " FROM " OWN_LOSSES( \
        "min(o.seq) AS lo, max(o.seq) AS hi," \
        " count(*) AS n, sum(" BYTES \
        ") AS bytes") " WHERE dest = l.name AND reason = 'coalesced';"
#define DELETE_THEM \
    "DELETE FROM outbox WHERE seq IN" \
    " (SELECT o.seq FROM outbox o WHERE " POSTBAG__REPLACED ");"

const char postbag__coalesce_trigger[] =
    "CREATE TRIGGER outbox_replace AFTER INSERT ON outbox"
    " WHEN NEW.coalesce IS NOT NULL AND EXISTS"
    " (SELECT 1 FROM outbox o WHERE " POSTBAG__REPLACED ")"
    " BEGIN " COUNT_THEM MAKE_ENTRIES RECORD_THEM DELETE_THEM " END";

/* ---- what the relay asks ---- */

#define ALIKE(newer, older) \
    newer ".coalesce = " older ".coalesce AND " newer ".seq > " older \
          ".seq AND " newer ".key IS " older ".key AND " newer \
          ".priority = " older ".priority"
#define WAITS(alias) alias ".state IN ('retry', 'behind')"

static const struct stmt_plan plan[] = {
    {offsetof(struct coalesce_store, newer),
        "SELECT 1 FROM outbox o JOIN outbox n ON " ALIKE(
            "n", "o") " AND (n.dest IS NULL OR n.dest = ?1) WHERE o.seq = ?2 "
                      "LIMIT 1"},
    {offsetof(struct coalesce_store, newer_than_held),
        "SELECT 1 FROM outbox_held h WHERE h.dest = ?1 AND h.seq = ?2"
        " AND (EXISTS (SELECT 1 FROM outbox n WHERE " ALIKE("n",
            "h") "   AND (n.dest IS NULL OR n.dest = ?1) AND NOT EXISTS"
                 "    (SELECT 1 FROM outbox_held x WHERE x.dest = ?1"
                 "     AND x.seq = n.seq AND x.state = 'dead'))"
                 "  OR EXISTS (SELECT 1 FROM outbox_held n WHERE n.dest = ?1"
                 "   AND " ALIKE("n", "h") " AND " WAITS("n") "))"},
    {offsetof(struct coalesce_store, older_held),
        "SELECT h.seq FROM outbox o JOIN outbox_held h ON h.dest = ?1"
        " AND " ALIKE("o", "h") " AND " WAITS(
            "h") " WHERE o.seq = ?2 ORDER BY h.seq LIMIT 1"},
    {offsetof(struct coalesce_store, note),
        "UPDATE outbox_lost SET lo = min(lo, ?2), hi = max(hi, ?3),"
        " n = n + ?4, bytes = bytes + ?5, at_ms = ?6"
        " WHERE dest = ?1 AND reason = 'coalesced'"},
    {offsetof(struct coalesce_store, note_first),
        "INSERT INTO outbox_lost(dest, lo, hi, n, bytes, reason, at_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, 'coalesced', ?6)"},
};
enum { STATEMENTS = sizeof(plan) / sizeof(plan[0]) };

int postbag__coalesce_open(
    struct coalesce_store *c, struct db *db, const char *dest)
{
    memset(c, 0, sizeof(*c));
    c->db = db;
    c->dest = dest;
    return postbag__prepare_all(db, c, plan, STATEMENTS);
}

void postbag__coalesce_close(struct coalesce_store *c)
{
    postbag__finalize_all(c, plan, STATEMENTS);
}

static int ask(
    struct coalesce_store *c, struct stmt *s, int64_t seq, int64_t *out)
{
    int err;

    postbag__bind_text(s, 1, c->dest);
    postbag__bind_i64(s, 2, seq);
    err = postbag__row(s);
    if (err != 1)
        return err;
    *out = postbag__col_i64(s, 0);
    postbag__reset(s);
    return 1;
}

int postbag__coalesce_newer(struct coalesce_store *c, int64_t seq)
{
    int64_t one;

    return ask(c, &c->newer, seq, &one);
}

int postbag__coalesce_newer_than_held(struct coalesce_store *c, int64_t seq)
{
    int64_t one;

    return ask(c, &c->newer_than_held, seq, &one);
}

int postbag__coalesce_older_held(
    struct coalesce_store *c, int64_t seq, int64_t *out)
{
    return ask(c, &c->older_held, seq, out);
}

static int run_note(struct coalesce_store *c, struct stmt *s,
    const struct lost *lost, int64_t at_ms)
{
    postbag__bind_text(s, 1, c->dest);
    postbag__bind_i64(s, 2, lost->lo);
    postbag__bind_i64(s, 3, lost->hi);
    postbag__bind_i64(s, 4, lost->n);
    postbag__bind_i64(s, 5, lost->bytes);
    postbag__bind_i64(s, 6, at_ms);
    return postbag__run(s);
}

int postbag__coalesce_note(
    struct coalesce_store *c, const struct lost *lost, int64_t at_ms)
{
    int err = run_note(c, &c->note, lost, at_ms);

    if (err != POSTBAG_OK || postbag__changes(c->db) != 0)
        return err;
    return run_note(c, &c->note_first, lost, at_ms);
}
