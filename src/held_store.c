/* SPDX-License-Identifier: MIT */
/*
 * Held rows are copies, so that one refused row never pins the log.  The
 * table is small: what is here was refused, waits behind such a row, or is
 * dead.  Engine thread.
 */
#include "held_store.h"

#include <stddef.h>
#include <string.h>

static const struct stmt_plan plan[] = {
    {offsetof(struct held_store, hold),
        "INSERT INTO outbox_held(dest, seq, state, attempts,"
        " due_boot, due_ms, error, held_ms, dead_ms, " ROW_COLUMNS
        ") SELECT ?1, seq, ?3, ?4, ?5, ?6, ?7, ?8,"
        " iif(?3 = 'dead', ?8, NULL), " ROW_COLUMNS
        " FROM outbox WHERE seq = ?2"
        " ON CONFLICT(dest, seq) DO NOTHING"},
    {offsetof(struct held_store, exists),
        "SELECT 1 FROM outbox_held WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct held_store, key_is_held),
        "SELECT 1 FROM outbox_held h JOIN outbox o ON o.seq = ?2"
        " WHERE h.dest = ?1 AND h.key = o.key AND h.key IS NOT NULL"
        " AND h.priority = o.priority AND h.state <> 'dead'"
        " AND h.seq < ?2 LIMIT 1"},
    {offsetof(struct held_store, due),
        "SELECT seq, attempts, " ROW_COLUMNS
        ", replay FROM outbox_held WHERE dest = ?1 AND state = 'retry'"
        " AND seq > ?2 AND (due_boot IS NOT ?3 OR due_ms <= ?4)"
        " ORDER BY seq LIMIT 1"},
    {offsetof(struct held_store, next_due),
        "SELECT min(iif(due_boot IS ?2, due_ms, ?3)) FROM outbox_held"
        " WHERE dest = ?1 AND state = 'retry'"},
    {offsetof(struct held_store, fetch),
        "SELECT seq, attempts, " ROW_COLUMNS
        ", replay FROM outbox_held WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct held_store, again),
        "UPDATE outbox_held SET attempts = attempts + 1,"
        " due_boot = ?3, due_ms = ?4, error = ?5"
        " WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct held_store, postpone),
        "UPDATE outbox_held SET due_boot = ?3, due_ms = ?4, error = ?5"
        " WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct held_store, is_suspect),
        "SELECT 1 FROM outbox_held WHERE dest = ?1 AND seq = ?2"
        " AND state = 'retry' AND error LIKE '" HELD_SUSPECT "%'"},
    {offsetof(struct held_store, bury),
        "UPDATE outbox_held SET state = 'dead',"
        " attempts = attempts + 1, error = ?3, dead_ms = ?4"
        " WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct held_store, drop),
        "DELETE FROM outbox_held WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct held_store, release),
        "UPDATE outbox_held SET state = 'retry', due_boot = ?4,"
        " due_ms = ?5 WHERE dest = ?1 AND seq ="
        " (SELECT min(seq) FROM outbox_held WHERE dest = ?1 AND key = ?2"
        "  AND key IS NOT NULL AND priority = ?3 AND state = 'behind')"
        " AND NOT EXISTS (SELECT 1 FROM outbox_held WHERE dest = ?1"
        "  AND key = ?2 AND key IS NOT NULL AND priority = ?3"
        "  AND state = 'retry')"},
    {offsetof(struct held_store, count_delivered),
        "UPDATE outbox_cursor SET delivered = delivered + 1"
        " WHERE dest = ?1 AND lane = ?2"},
    {offsetof(struct held_store, count_dropped),
        "UPDATE outbox_cursor SET dropped = dropped + 1"
        " WHERE dest = ?1 AND lane = ?2"},
    {offsetof(struct held_store, stats),
        "SELECT ifnull(max(seq), 0),"
        " count(*) FILTER (WHERE state IN ('retry', 'behind'))"
        " FROM outbox_held WHERE dest = ?1"},
};
enum { STATEMENTS = sizeof(plan) / sizeof(plan[0]) };

int postbag__held_open(struct held_store *h, struct db *db, const char *dest)
{

    memset(h, 0, sizeof(*h));
    h->db = db;
    h->dest = dest;
    return postbag__prepare_all(db, h, plan, STATEMENTS);
}

void postbag__held_close(struct held_store *h)
{
    postbag__finalize_all(h, plan, STATEMENTS);
}

int postbag__held_stats(struct held_store *h, struct held_stats *out)
{
    int err;

    postbag__bind_text(&h->stats, 1, h->dest);
    err = postbag__row(&h->stats);
    if (err != 1)
        return err == POSTBAG_OK ? POSTBAG_EIO : err;
    out->newest = postbag__col_i64(&h->stats, 0);
    out->live = postbag__col_i64(&h->stats, 1);
    postbag__reset(&h->stats);
    return POSTBAG_OK;
}

static int has_row(struct held_store *h, struct stmt *s, int64_t seq)
{
    int err;

    postbag__bind_text(s, 1, h->dest);
    postbag__bind_i64(s, 2, seq);
    err = postbag__row(s);
    if (err == 1)
        postbag__reset(s);
    return err;
}

int postbag__held_exists(struct held_store *h, int64_t seq)
{
    return has_row(h, &h->exists, seq);
}

int postbag__held_key_is_held(struct held_store *h, int64_t seq)
{
    return has_row(h, &h->key_is_held, seq);
}

int postbag__held_is_suspect(struct held_store *h, int64_t seq)
{
    return has_row(h, &h->is_suspect, seq);
}

static void bind_due(struct stmt *s, int index, const struct due *due)
{
    if (due == NULL)
        return;
    postbag__bind_blob(s, index, due->boot, 16);
    postbag__bind_i64(s, index + 1, due->ms);
}

int postbag__held_hold(
    struct held_store *h, int64_t seq, const struct hold *hold, int64_t wall_ms)
{
    struct stmt *s = &h->hold;

    postbag__bind_text(s, 1, h->dest);
    postbag__bind_i64(s, 2, seq);
    postbag__bind_text(s, 3, hold->state);
    postbag__bind_i64(s, 4, hold->attempts);
    bind_due(s, 5, hold->due);
    postbag__bind_text(s, 7, hold->error);
    postbag__bind_i64(s, 8, wall_ms);
    return postbag__run(s);
}

static int put_off(struct held_store *h, struct stmt *s, int64_t seq,
    const struct due *due, const char *error)
{
    postbag__bind_text(s, 1, h->dest);
    postbag__bind_i64(s, 2, seq);
    bind_due(s, 3, due);
    postbag__bind_text(s, 5, error);
    return postbag__run(s);
}

int postbag__held_again(
    struct held_store *h, int64_t seq, const struct due *due, const char *error)
{
    return put_off(h, &h->again, seq, due, error);
}

int postbag__held_postpone(
    struct held_store *h, int64_t seq, const struct due *due, const char *error)
{
    return put_off(h, &h->postpone, seq, due, error);
}

int postbag__held_bury(
    struct held_store *h, int64_t seq, const char *error, int64_t wall_ms)
{
    struct stmt *s = &h->bury;

    postbag__bind_text(s, 1, h->dest);
    postbag__bind_i64(s, 2, seq);
    postbag__bind_text(s, 3, error);
    postbag__bind_i64(s, 4, wall_ms);
    return postbag__run(s);
}

int postbag__held_expire(struct held_store *h, int64_t seq, int lane)
{
    int err;

    postbag__bind_text(&h->drop, 1, h->dest);
    postbag__bind_i64(&h->drop, 2, seq);
    err = postbag__run(&h->drop);
    if (err != POSTBAG_OK || postbag__changes(h->db) == 0)
        return err;
    postbag__bind_text(&h->count_dropped, 1, h->dest);
    postbag__bind_i64(&h->count_dropped, 2, lane);
    err = postbag__run(&h->count_dropped);
    return err == POSTBAG_OK ? 1 : err;
}

int postbag__held_deliver(struct held_store *h, int64_t seq, int lane)
{
    int err;

    postbag__bind_text(&h->drop, 1, h->dest);
    postbag__bind_i64(&h->drop, 2, seq);
    err = postbag__run(&h->drop);
    /* an operator may have removed it while it was in flight */
    if (err != POSTBAG_OK || postbag__changes(h->db) == 0)
        return err;
    postbag__bind_text(&h->count_delivered, 1, h->dest);
    postbag__bind_i64(&h->count_delivered, 2, lane);
    return postbag__run(&h->count_delivered);
}

int postbag__held_release(
    struct held_store *h, const char *key, int lane, const struct due *due)
{
    struct stmt *s = &h->release;

    if (key == NULL)
        return POSTBAG_OK;
    postbag__bind_text(s, 1, h->dest);
    postbag__bind_text(s, 2, key);
    postbag__bind_i64(s, 3, lane);
    bind_due(s, 4, due);
    return postbag__run(s);
}

static int read_held(
    struct stmt *s, struct arena *arena, struct row *out, int *attempts_out)
{
    int err = postbag__row(s);

    if (err != 1)
        return err;
    err = postbag__row_read(s, 2, arena, out);
    out->seq = postbag__col_i64(s, 0);
    out->is_replay = postbag__col_i64(s, 2 + ROW_COLUMN_COUNT) != 0;
    *attempts_out = (int)postbag__col_i64(s, 1);
    postbag__reset(s);
    return err == POSTBAG_OK ? 1 : err;
}

int postbag__held_due(struct held_store *h, int64_t after,
    const struct due *now, struct arena *arena, struct row *out,
    int *attempts_out)
{
    postbag__bind_text(&h->due, 1, h->dest);
    postbag__bind_i64(&h->due, 2, after);
    bind_due(&h->due, 3, now);
    return read_held(&h->due, arena, out, attempts_out);
}

int postbag__held_next_due(
    struct held_store *h, const struct due *now, int64_t *out)
{
    int err;

    postbag__bind_text(&h->next_due, 1, h->dest);
    bind_due(&h->next_due, 2, now);
    err = postbag__row(&h->next_due);
    if (err != 1)
        return err == POSTBAG_OK ? POSTBAG_EIO : err;
    *out = postbag__col_is_null(&h->next_due, 0)
               ? INT64_MAX
               : postbag__col_i64(&h->next_due, 0);
    postbag__reset(&h->next_due);
    return POSTBAG_OK;
}

int postbag__held_fetch(struct held_store *h, int64_t seq, struct arena *arena,
    struct row *out, int *attempts_out)
{
    postbag__bind_text(&h->fetch, 1, h->dest);
    postbag__bind_i64(&h->fetch, 2, seq);
    return read_held(&h->fetch, arena, out, attempts_out);
}
