/* SPDX-License-Identifier: MIT */
/*
 * Held rows are few, and each costs a commit to disk when it is delivered: the
 * statement is prepared for each.  Engine thread.
 */
#include "late_store.h"

int postbag__late_note(
    struct db *db, const char *dest, int64_t seq, int64_t wall_ms)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "INSERT INTO outbox_late(dest, lane, seq, at_ms, attempts)"
        " SELECT h.dest, h.priority, h.seq, ?3, h.attempts + 1"
        " FROM outbox_held h WHERE h.dest = ?1 AND h.seq = ?2 AND h.replay = 0"
        " AND EXISTS (SELECT 1 FROM outbox o WHERE o.seq = h.seq)"
        " AND EXISTS (SELECT 1 FROM outbox_acks a WHERE a.dest = h.dest"
        "  AND a.lane = h.priority AND a.upto >= h.seq)"
        " ON CONFLICT(dest, lane, seq) DO NOTHING");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    postbag__bind_i64(&s, 2, seq);
    postbag__bind_i64(&s, 3, wall_ms);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}
