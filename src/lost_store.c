/* SPDX-License-Identifier: MIT */
/*
 * The table is keyed by the end of each range, so that a range grows, and a
 * reader finds a row, by a seek.  The sum of n is what was counted, so a range
 * that comes a second time adds to its entry.  Any thread, on its own
 * connection.
 */
#include "lost_store.h"

#include <stddef.h>
#include <string.h>

static const struct stmt_plan plan[] = {
    {offsetof(struct lost_store, grow),
        "UPDATE outbox_lost SET hi = ?3, n = n + ?4, bytes = bytes + ?5,"
        " at_ms = ?7 WHERE dest = ?1 AND hi = ?2 - 1 AND reason = ?6"},
    {offsetof(struct lost_store, merge),
        "UPDATE outbox_lost SET lo = min(lo, ?2), hi = max(hi, ?3),"
        " n = n + ?4, bytes = bytes + ?5, at_ms = ?7"
        " WHERE dest = ?1 AND reason = 'coalesced' AND reason = ?6"},
    {offsetof(struct lost_store, add),
        "INSERT INTO outbox_lost(dest, lo, hi, n, bytes, reason, at_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
        " ON CONFLICT(dest, hi, lo, reason) DO UPDATE SET n = n + excluded.n,"
        " bytes = bytes + excluded.bytes, at_ms = excluded.at_ms"},
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
    return postbag__run(s);
}

int postbag__lost_note(struct lost_store *l, const struct lost *lost,
    const char *reason, int64_t at_ms)
{
    int is_merged = strcmp(reason, "coalesced") == 0;
    int err = run(l, is_merged ? &l->merge : &l->grow, lost, reason, at_ms);

    if (err != POSTBAG_OK || postbag__changes(l->db) != 0)
        return err;
    return run(l, &l->add, lost, reason, at_ms);
}
