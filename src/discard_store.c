/* SPDX-License-Identifier: MIT */
/*
 * Discard: a held row leaves without having been delivered.  outbox_lost says
 * which, the ledger counts it as dropped, and the next of its key takes its
 * place.  Any thread, on its own connection.
 */
#include "discard_store.h"

#include "error.h"

/* A row held but not yet passed by the saved cursor is, without its copy,
 * unsettled: it would be sent after the next start and counted twice. */
static int find(
    struct db *db, const char *dest, const struct postbag_id *id, int64_t *seq)
{
    struct stmt s;
    int64_t is_passed;
    int err = postbag__prepare(db, &s,
        "SELECT h.seq, h.seq <= c.acked FROM outbox_held h"
        " JOIN outbox_cursor c ON c.dest = h.dest AND c.lane = h.priority"
        " WHERE h.dest = ?1 AND (?3 IS NOT NULL OR h.seq = ?2)"
        " AND (?3 IS NULL OR h.id = ?3)");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    postbag__bind_i64(&s, 2, *seq);
    if (id != NULL)
        postbag__bind_blob(&s, 3, id->b, sizeof(id->b));
    err = postbag__row(&s);
    if (err == 1) {
        *seq = postbag__col_i64(&s, 0);
        is_passed = postbag__col_i64(&s, 1);
        err = is_passed ? POSTBAG_OK
                        : postbag__fail(&db->fault, POSTBAG_EAGAIN,
                              "an older message is not settled yet");
    } else if (err == POSTBAG_OK) {
        err = postbag__fail(&db->fault, POSTBAG_ENOTFOUND,
            "there is no such message among the held and dead");
    }
    postbag__finalize(&s);
    return err;
}

static const char record[] =
    "INSERT INTO outbox_lost(dest, lo, hi, n, bytes, reason, at_ms)"
    " SELECT dest, seq, seq, 1, length(CAST(topic AS BLOB))"
    "  + length(CAST(payload AS BLOB)), 'discarded', ?3"
    " FROM outbox_held WHERE dest = ?1 AND seq = ?2";

static const char *const steps[] = {
    "UPDATE outbox_cursor SET dropped = dropped + 1"
    " WHERE dest = ?1 AND lane ="
    " (SELECT priority FROM outbox_held WHERE dest = ?1 AND seq = ?2)",

    /* The next of its key, if nobody of the key is before that one.  due_boot
       NULL is "another boot": due at once. */
    "UPDATE outbox_held AS t SET state = 'retry', due_boot = NULL,"
    " due_ms = NULL"
    " FROM outbox_held h WHERE h.dest = ?1 AND h.seq = ?2"
    " AND t.dest = h.dest AND t.key = h.key"
    " AND t.key IS NOT NULL AND t.priority = h.priority"
    " AND t.state = 'behind'"
    " AND NOT EXISTS (SELECT 1 FROM outbox_held e WHERE e.dest = ?1"
    "  AND e.key = t.key AND e.key IS NOT NULL AND e.priority = t.priority"
    "  AND e.state <> 'dead' AND e.seq <> ?2 AND e.seq < t.seq)",

    "DELETE FROM outbox_held WHERE dest = ?1 AND seq = ?2",
};

static int run_step(struct db *db, const char *sql, const char *dest,
    int64_t seq, const int64_t *wall_ms)
{
    struct stmt s;
    int err = postbag__prepare(db, &s, sql);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    postbag__bind_i64(&s, 2, seq);
    if (wall_ms != NULL)
        postbag__bind_i64(&s, 3, *wall_ms);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

int postbag__discard(struct db *db, const char *dest, int64_t seq,
    const struct postbag_id *id, int64_t wall_ms)
{
    int err = find(db, dest, id, &seq);

    if (err == POSTBAG_OK)
        err = run_step(db, record, dest, seq, &wall_ms);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (err == POSTBAG_OK)
            err = run_step(db, steps[i], dest, seq, NULL);
    return err;
}
