/* SPDX-License-Identifier: MIT */
/*
 * Discard: a held row leaves without having been delivered.  outbox_lost says
 * which, the ledger counts it as dropped, and the next of its key takes its
 * place.  Any thread, on its own connection.
 */
#include "discard_store.h"

#include "error.h"
#include "held_store.h"

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

static int drop(struct db *db, const char *dest, int64_t seq, int64_t wall_ms)
{
    struct lost_store lost;
    struct held_store held = {0};
    int err = postbag__lost_open(&lost, db, dest);

    if (err == POSTBAG_OK)
        err = postbag__held_open(&held, db, &lost);
    if (err == POSTBAG_OK)
        err = postbag__held_drop(&held, seq, "discarded", wall_ms);
    postbag__held_close(&held);
    postbag__lost_close(&lost);
    return err;
}

int postbag__discard(struct db *db, const char *dest, int64_t seq,
    const struct postbag_id *id, int64_t wall_ms)
{
    int err = find(db, dest, id, &seq);

    return err == POSTBAG_OK ? drop(db, dest, seq, wall_ms) : err;
}
