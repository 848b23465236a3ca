/* SPDX-License-Identifier: MIT */
/*
 * Held rows are copies, so that one refused row never pins the log.  What is
 * here was refused, waits, or is dead: the table is small.  Engine thread.
 */
#include "held_store.h"

#include <stddef.h>
#include <string.h>

#include "late_store.h"
#include "printable.h"

/* What the end of a row's wait needs to know of it. */
#define WHO_ENDS \
    " RETURNING key, priority, length(CAST(topic AS BLOB))" \
    " + length(CAST(payload AS BLOB)), replay"

/* of one lane */
#define RETRIES \
    "FROM outbox_held WHERE dest = ?1 AND state = 'retry' AND priority = ?5"
#define PLANNED \
    "FROM outbox_held WHERE dest = ?1 AND state = 'dead' AND due_ms NOTNULL"

static const struct stmt_plan plan[] = {
    {offsetof(struct held_store, hold),
        "INSERT INTO outbox_held(dest, seq, state, attempts,"
        " due_boot, due_ms, error, held_ms, dead_ms, deaths, " ROW_COLUMNS
        ") SELECT ?1, seq, ?3, ?4, ?5, ?6, ?7, ?8,"
        " iif(?3 = 'dead', ?8, NULL), ?9, " ROW_COLUMNS
        " FROM outbox WHERE seq = ?2"
        " ON CONFLICT(dest, seq) DO NOTHING"},
    {offsetof(struct held_store, exists),
        "SELECT 1 FROM outbox_held WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct held_store, before),
        "SELECT count(*) FROM (SELECT 1 FROM outbox_held h"
        " JOIN outbox o ON o.seq = ?2"
        " WHERE h.dest = ?1 AND h.key = o.key AND h.key IS NOT NULL"
        " AND h.priority = o.priority AND h.state <> 'dead'"
        " AND h.seq < ?2 LIMIT ?3)"},
    {offsetof(struct held_store, is_refused),
        "SELECT 1 FROM outbox_held h JOIN outbox o ON o.seq = ?2 WHERE"
        " h.dest = ?1 AND h.key = o.key AND h.priority = o.priority AND"
        " h.state <> 'dead' AND h.seq < ?2 AND h.error IS NOT NULL"},
    /* each part is a range of the index on what is due */
    {offsetof(struct held_store, due),
        "SELECT seq, attempts, " ROW_COLUMNS
        ", replay FROM outbox_held WHERE dest = ?1 AND seq = (SELECT seq FROM ("
        "SELECT seq " RETRIES " AND due_boot IS NULL UNION ALL"
        " SELECT seq " RETRIES " AND due_boot < ?3 UNION ALL"
        " SELECT seq " RETRIES " AND due_boot > ?3 UNION ALL"
        " SELECT seq " RETRIES " AND due_boot = ?3 AND due_ms > ?6 UNION ALL"
        " SELECT seq " RETRIES " AND due_boot = ?3 AND due_ms <= ?4)"
        " LIMIT 1 OFFSET ?2)"},
    {offsetof(struct held_store, next_due),
        "SELECT CASE WHEN EXISTS (SELECT 1 " RETRIES " AND due_boot IS NULL)"
        " OR EXISTS (SELECT 1 " RETRIES " AND due_boot < ?2)"
        " OR EXISTS (SELECT 1 " RETRIES " AND due_boot > ?2)"
        " OR EXISTS (SELECT 1 " RETRIES " AND due_boot = ?2 AND due_ms > ?4)"
        " THEN ?3 ELSE (SELECT min(due_ms) " RETRIES " AND due_boot = ?2) END"},
    {offsetof(struct held_store, fetch),
        "SELECT seq, attempts, " ROW_COLUMNS
        ", replay FROM outbox_held WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct held_store, again),
        "UPDATE outbox_held SET attempts = attempts + 1, deaths = 0,"
        " due_boot = ?3, due_ms = ?4, error = ?5"
        " WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct held_store, postpone),
        "UPDATE outbox_held SET due_boot = ?3, due_ms = ?4,"
        " error = ifnull(?5, error) WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct held_store, is_suspect),
        "SELECT 1 FROM outbox_held WHERE dest = ?1 AND seq = ?2"
        " AND state = 'retry' AND error LIKE '" HELD_SUSPECT " the link%'"},
    {offsetof(struct held_store, was_turned_down),
        "SELECT 1 FROM outbox_held WHERE dest = ?1 AND seq = ?2"
        " AND error GLOB 'refused: *(0x9[17])*'"},
    {offsetof(struct held_store, bury),
        "UPDATE outbox_held SET state = 'dead',"
        " attempts = attempts + 1, error = ?3, dead_ms = ?4,"
        " due_boot = iif(revived, NULL, ?5), due_ms = iif(revived, NULL, ?6)"
        " WHERE dest = ?1 AND seq = ?2" WHO_ENDS},
    {offsetof(struct held_store, remove),
        "DELETE FROM outbox_held WHERE dest = ?1 AND seq = ?2" WHO_ENDS},
    /* due_boot NULL is "another boot": due at once */
    {offsetof(struct held_store, release),
        "UPDATE outbox_held SET state = 'retry', due_boot = NULL,"
        " due_ms = NULL WHERE dest = ?1 AND state = 'behind' AND seq ="
        " (SELECT min(seq) FROM outbox_held WHERE dest = ?1 AND key = ?2"
        "  AND key IS NOT NULL AND priority = ?3 AND state <> 'dead')"},
    {offsetof(struct held_store, has_old_plans),
        "SELECT 1 " PLANNED " AND (due_boot IS NOT ?2 OR due_ms > ?3) LIMIT 1"},
    {offsetof(struct held_store, plan_anew),
        "UPDATE outbox_held SET due_boot = ?2, due_ms = ?3"
        " WHERE dest = ?1 AND state = 'dead' AND due_ms IS NOT NULL"
        " AND (due_boot IS NOT ?2 OR due_ms > ?3)"},
    {offsetof(struct held_store, next_revival),
        "SELECT ifnull(min(due_ms), 9223372036854775807) " PLANNED},
    {offsetof(struct held_store, revive),
        "UPDATE outbox_held SET state = 'retry', attempts = 0,"
        " due_boot = NULL, due_ms = NULL, dead_ms = NULL, revived = 1"
        " WHERE dest = ?1 AND seq IN (SELECT seq " PLANNED
        " AND due_ms <= ?2 ORDER BY due_ms LIMIT ?3)"},
    /* one that the saved cursor has not passed would, without its copy, be
       sent after the next start and counted twice */
    {offsetof(struct held_store, oldest_dead),
        "SELECT h.seq FROM outbox_held h JOIN outbox_cursor c"
        " ON c.dest = h.dest AND c.lane = h.priority AND c.acked >= h.seq"
        " WHERE h.dest = ?1 AND h.state = 'dead' ORDER BY h.seq LIMIT 1"},
    {offsetof(struct held_store, count_delivered),
        "UPDATE outbox_cursor SET delivered = delivered + 1"
        " WHERE dest = ?1 AND lane = ?2"},
    {offsetof(struct held_store, count_dropped),
        "UPDATE outbox_cursor SET dropped = dropped + 1"
        " WHERE dest = ?1 AND lane = ?2"},
    {offsetof(struct held_store, stats),
        "SELECT (SELECT max(seq) FROM outbox_held WHERE dest = ?1),"
        " sum(held_rows), sum(held_bytes), sum(dead_rows), sum(dead_bytes)"
        " FROM outbox_cursor WHERE dest = ?1"},
};
enum { STATEMENTS = sizeof(plan) / sizeof(plan[0]), MOST_DROPS = 256 };

int postbag__held_open(
    struct held_store *h, struct db *db, struct lost_store *lost)
{
    memset(h, 0, sizeof(*h));
    h->db = db;
    h->dest = lost->dest;
    h->lost = lost;
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
    out->live_bytes = postbag__col_i64(&h->stats, 2);
    out->dead = postbag__col_i64(&h->stats, 3);
    out->dead_bytes = postbag__col_i64(&h->stats, 4);
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

#define ANSWERS(question) \
    int postbag__held_##question(struct held_store *h, int64_t seq) \
    { \
        return has_row(h, &h->question, seq); \
    }
ANSWERS(exists)
ANSWERS(is_refused)
ANSWERS(is_suspect)
ANSWERS(was_turned_down)

int postbag__held_before(struct held_store *h, int64_t seq, uint32_t most)
{
    struct stmt *s = &h->before;
    int err;
    int rows;

    postbag__bind_text(s, 1, h->dest);
    postbag__bind_i64(s, 2, seq);
    postbag__bind_i64(s, 3, most);
    err = postbag__row(s);
    if (err != 1)
        return err;
    rows = (int)postbag__col_i64(s, 0);
    postbag__reset(s);
    return rows;
}

static void bind_due(struct stmt *s, int index, const struct due *due)
{
    if (due == NULL)
        return;
    postbag__bind_blob(s, index, due->boot, 16);
    postbag__bind_i64(s, index + 1, due->ms);
}

struct error {
    char text[HELD_ERROR_MAX + 1];
};

/* Every error passes here; *clean is borrowed until the statement is run. */
static void bind_error(
    struct stmt *s, int index, const char *error, struct error *clean)
{
    if (error == NULL) {
        postbag__bind_null(s, index);
        return;
    }
    postbag__printable(clean->text, sizeof(clean->text), error);
    postbag__bind_text(s, index, clean->text);
}

int postbag__held_hold(
    struct held_store *h, int64_t seq, const struct hold *hold, int64_t wall_ms)
{
    struct stmt *s = &h->hold;
    struct error clean;

    postbag__bind_text(s, 1, h->dest);
    postbag__bind_i64(s, 2, seq);
    postbag__bind_text(s, 3, hold->state);
    postbag__bind_i64(s, 4, hold->attempts);
    bind_due(s, 5, hold->due);
    bind_error(s, 7, hold->error, &clean);
    postbag__bind_i64(s, 8, wall_ms);
    postbag__bind_i64(s, 9, hold->deaths);
    return postbag__run(s);
}

static int put_off(struct held_store *h, struct stmt *s, int64_t seq,
    const struct due *due, const char *error)
{
    struct error clean;

    postbag__bind_text(s, 1, h->dest);
    postbag__bind_i64(s, 2, seq);
    bind_due(s, 3, due);
    bind_error(s, 5, error, &clean);
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

/* ---- the end of a row's wait ---- */

/* 1: s stands on WHO_ENDS of the row.  0: there is no such row. */
static int end(struct held_store *h, struct stmt *s, int64_t seq)
{
    postbag__bind_text(s, 1, h->dest);
    postbag__bind_i64(s, 2, seq);
    return postbag__row(s);
}

static int count(struct held_store *h, struct stmt *counter, struct stmt *ended)
{
    postbag__bind_text(counter, 1, h->dest);
    postbag__bind_i64(counter, 2, postbag__col_i64(ended, 1));
    return postbag__run(counter);
}

/* Last: the oldest that waits behind it, if none of its key is before that. */
static int release(struct held_store *h, struct stmt *ended)
{
    const char *key = postbag__col_text(ended, 0);
    struct stmt *s = &h->release;
    int err = POSTBAG_OK;

    if (key != NULL) {
        postbag__bind_text(s, 1, h->dest);
        postbag__bind_text(s, 2, key);
        postbag__bind_i64(s, 3, postbag__col_i64(ended, 1));
        err = postbag__run(s);
    }
    postbag__reset(ended);
    return err;
}

int postbag__held_bury(struct held_store *h, int64_t seq, const char *error,
    int64_t wall_ms, const struct due *again)
{
    struct error clean;
    int err;

    bind_error(&h->bury, 3, error, &clean);
    postbag__bind_i64(&h->bury, 4, wall_ms);
    postbag__bind_null(&h->bury, 5);
    postbag__bind_null(&h->bury, 6);
    bind_due(&h->bury, 5, again);
    err = end(h, &h->bury, seq);
    return err == 1 ? release(h, &h->bury) : err;
}

int postbag__held_deliver(struct held_store *h, int64_t seq, int64_t wall_ms)
{
    int err = postbag__late_note(h->db, h->dest, seq, wall_ms);

    if (err == POSTBAG_OK)
        err = end(h, &h->remove, seq);
    if (err != 1)
        return err;
    err = count(h, &h->count_delivered, &h->remove);
    if (err == POSTBAG_OK)
        return release(h, &h->remove);
    postbag__reset(&h->remove);
    return err;
}

int postbag__held_drop(
    struct held_store *h, int64_t seq, const char *reason, int64_t wall_ms)
{
    struct lost lost = {.lo = seq, .hi = seq, .n = 1};
    int err = end(h, &h->remove, seq);

    if (err != 1)
        return err;
    lost.bytes = postbag__col_i64(&h->remove, 2);
    lost.is_replay = postbag__col_i64(&h->remove, 3) != 0;
    err = count(h, &h->count_dropped, &h->remove);
    if (err == POSTBAG_OK)
        err = postbag__lost_note(h->lost, &lost, reason, wall_ms);
    if (err == POSTBAG_OK)
        return release(h, &h->remove);
    postbag__reset(&h->remove);
    return err;
}

/* 1 and the row, 0, or an error. */
static int find_oldest_dead(struct held_store *h, int64_t *seq)
{
    int err;

    postbag__bind_text(&h->oldest_dead, 1, h->dest);
    err = postbag__row(&h->oldest_dead);
    if (err != 1)
        return err;
    *seq = postbag__col_i64(&h->oldest_dead, 0);
    postbag__reset(&h->oldest_dead);
    return 1;
}

/* Drop the oldest if there are too many: 1, 0, or an error. */
static int trim_one(struct held_store *h, uint32_t max_rows, uint32_t max_bytes,
    int64_t wall_ms)
{
    struct held_stats stats;
    int64_t seq;
    int err = postbag__held_stats(h, &stats);

    if (err != POSTBAG_OK ||
        (stats.dead <= max_rows && stats.dead_bytes <= max_bytes))
        return err;
    err = find_oldest_dead(h, &seq);
    if (err != 1)
        return err;
    err = postbag__held_drop(h, seq, "dead_overflow", wall_ms);
    return err == POSTBAG_OK ? 1 : err;
}

int postbag__held_trim_dead(struct held_store *h, uint32_t max_rows,
    uint32_t max_bytes, int64_t wall_ms)
{
    int dropped = 0;
    int err = 1;

    while (dropped < MOST_DROPS && err == 1) {
        err = trim_one(h, max_rows, max_bytes, wall_ms);
        dropped += err == 1;
    }
    return err < 0 ? err : dropped;
}

/* ---- dead rows that come back by themselves ---- */

int postbag__held_has_old_plans(struct held_store *h, const struct due *due)
{
    int err;

    postbag__bind_text(&h->has_old_plans, 1, h->dest);
    bind_due(&h->has_old_plans, 2, due);
    err = postbag__row(&h->has_old_plans);
    if (err == 1)
        postbag__reset(&h->has_old_plans);
    return err;
}

int postbag__held_plan_anew(struct held_store *h, const struct due *due)
{
    postbag__bind_text(&h->plan_anew, 1, h->dest);
    bind_due(&h->plan_anew, 2, due);
    return postbag__run(&h->plan_anew);
}

int postbag__held_next_revival(struct held_store *h, int64_t *ms)
{
    int err;

    postbag__bind_text(&h->next_revival, 1, h->dest);
    err = postbag__row(&h->next_revival);
    if (err != 1)
        return err == POSTBAG_OK ? POSTBAG_EIO : err;
    *ms = postbag__col_i64(&h->next_revival, 0);
    postbag__reset(&h->next_revival);
    return POSTBAG_OK;
}

int postbag__held_revive(
    struct held_store *h, int64_t now_ms, int64_t most, int64_t *count_out)
{
    int err;

    postbag__bind_text(&h->revive, 1, h->dest);
    postbag__bind_i64(&h->revive, 2, now_ms);
    postbag__bind_i64(&h->revive, 3, most);
    err = postbag__run(&h->revive);
    *count_out = postbag__changes(h->db);
    return err;
}

/* ---- what is due ---- */

static int read_held(
    struct stmt *s, struct arena *arena, struct row *out, int *attempts_out)
{
    int err = postbag__row(s);

    out->is_damaged = 0;
    if (err != 1)
        return err;
    err = postbag__row_read(s, 2, arena, out);
    out->seq = postbag__col_i64(s, 0);
    out->is_replay = postbag__col_i64(s, 2 + ROW_COLUMN_COUNT) != 0;
    *attempts_out = (int)postbag__col_i64(s, 1);
    postbag__reset(s);
    return err == POSTBAG_OK ? 1 : err;
}

int postbag__held_due(struct held_store *h, int lane, int64_t skip,
    const struct due *now, struct arena *arena, struct row *out)
{
    int attempts;

    postbag__bind_text(&h->due, 1, h->dest);
    postbag__bind_i64(&h->due, 2, skip);
    bind_due(&h->due, 3, now);
    postbag__bind_i64(&h->due, 5, lane);
    postbag__bind_i64(&h->due, 6, now->furthest_ms);
    return read_held(&h->due, arena, out, &attempts);
}

static int next_due(
    struct held_store *h, int lane, const struct due *now, int64_t *earliest)
{
    struct stmt *s = &h->next_due;
    int err;

    postbag__bind_text(s, 1, h->dest);
    bind_due(s, 2, now);
    postbag__bind_i64(s, 4, now->furthest_ms);
    postbag__bind_i64(s, 5, lane);
    err = postbag__row(s);
    if (err != 1)
        return err == POSTBAG_OK ? POSTBAG_EIO : err;
    if (!postbag__col_is_null(s, 0) && postbag__col_i64(s, 0) < *earliest)
        *earliest = postbag__col_i64(s, 0);
    postbag__reset(s);
    return POSTBAG_OK;
}

int postbag__held_next_due(
    struct held_store *h, const struct due *now, int64_t *out)
{
    int err = POSTBAG_OK;

    *out = INT64_MAX;
    for (int i = 0; i < POSTBAG__LANES && err == POSTBAG_OK; i++)
        err = next_due(h, i, now, out);
    return err;
}

int postbag__held_fetch(struct held_store *h, int64_t seq, struct arena *arena,
    struct row *out, int *attempts_out)
{
    postbag__bind_text(&h->fetch, 1, h->dest);
    postbag__bind_i64(&h->fetch, 2, seq);
    return read_held(&h->fetch, arena, out, attempts_out);
}
