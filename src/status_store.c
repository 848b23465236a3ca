/* SPDX-License-Identifier: MIT */
/*
 * Status.  Rows put are the newest seq, since the log is dense; bytes put are
 * the last running total and the few rows after it; what is settled stands
 * beside the cursors.  Nothing here walks the backlog.  Any thread, on its
 * own connection.
 */
#include "status_store.h"

#include <stdio.h>
#include <string.h>

#include "error.h"
#include "inbox_limit.h"
#include "limit_store.h"
#include "row.h"
#include "schema.h"

enum {
    LANES = 4,
    /* how far to look for the oldest pending row that is ours */
    LOOK_ROWS = 10000,
    RATE_WINDOW_MS = 10000,
    RATE_LEAST_MS = 100
};

/* Run a prepared one-row query; its columns, in order, to where `to` says. */
static int read_row(struct stmt *s, int64_t *const *to, int count)
{
    int err = postbag__row(s);

    for (int i = 0; err == 1 && i < count; i++)
        *to[i] = postbag__col_i64(s, i);
    postbag__finalize(s);
    return err == 1 ? POSTBAG_OK : err;
}

/* ---- one destination ---- */

static void copy_profile(struct postbag_status *out, struct stmt *s, int col)
{
    if (!postbag__col_is_null(s, col))
        (void)snprintf(out->profile, sizeof(out->profile), "%s",
            postbag__col_string(s, col));
}

static int read_lease(struct db *db, const char *dest, const struct moment *now,
    struct postbag_status *out)
{
    struct stmt s;
    const void *bytes;
    size_t len;
    int err = postbag__prepare(db, &s,
        "SELECT epoch, owner, boot, lease_until, profile FROM outbox_dest"
        " WHERE name = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    err = postbag__row(&s);
    if (err == POSTBAG_OK)
        err = postbag__fail(&db->fault, POSTBAG_ENOTFOUND,
            "there is no destination of that name");
    if (err != 1)
        goto out;
    err = POSTBAG_OK;
    copy_profile(out, &s, 4);
    out->epoch = postbag__col_i64(&s, 0);
    bytes = postbag__col_bytes(&s, 1, &len);
    if (len == 0)
        goto out;
    memcpy(out->owner, bytes, len < sizeof(out->owner) ? len : 16);
    bytes = postbag__col_bytes(&s, 2, &len);
    out->lease = POSTBAG_LEASE_OLD_BOOT;
    if (len != sizeof(now->boot) || memcmp(bytes, now->boot, len) != 0)
        goto out;
    out->lease_left_ms = postbag__col_i64(&s, 3) - now->mono_ms;
    out->lease =
        out->lease_left_ms > 0 ? POSTBAG_LEASE_VALID : POSTBAG_LEASE_EXPIRED;
out:
    postbag__finalize(&s);
    return err;
}

static int read_put(struct db *db, struct postbag_status *out)
{
    int err = postbag__query_i64(
        db, "SELECT ifnull(max(seq), 0) FROM outbox", &out->put);

    /* where there is no total there is no row */
    if (err == POSTBAG_OK)
        err = postbag__query_i64(db,
            "SELECT " POSTBAG__BYTES_PUT("") " FROM outbox_sum LIMIT 1",
            &out->put_bytes);
    return err;
}

static int read_settled(
    struct db *db, const char *dest, struct postbag_status *out)
{
    int64_t rows = 0;
    int64_t bytes = 0;
    int64_t *const to[] = {&rows, &bytes, &out->delivered, &out->dropped,
        &out->passed, &out->replayed, &out->held_bytes, &out->dead_bytes};
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT sum(settled_rows), sum(settled_bytes), sum(delivered),"
        " sum(dropped), sum(passed), sum(replayed), sum(held_bytes),"
        " sum(dead_bytes) FROM outbox_cursor WHERE dest = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    err = read_row(&s, to, 8);
    out->pending = out->put - rows;
    out->pending_bytes = out->put_bytes > bytes ? out->put_bytes - bytes : 0;
    return err;
}

static int read_lost(
    struct db *db, const char *dest, struct postbag_status *out)
{
    int64_t all = 0;
    int64_t *const to[] = {&out->dropped_ttl, &out->dropped_limit,
        &out->dropped_coalesced, &out->dropped_discarded, &all};
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT sum(n) FILTER (WHERE reason = 'ttl'),"
        " sum(n) FILTER (WHERE reason = 'limit'),"
        " sum(n) FILTER (WHERE reason = 'coalesced'),"
        " sum(n) FILTER (WHERE reason = 'discarded'), sum(n)"
        " FROM outbox_lost WHERE dest = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    err = read_row(&s, to, 5);
    out->dropped_other = all - out->dropped_ttl - out->dropped_limit -
                         out->dropped_coalesced - out->dropped_discarded;
    return err;
}

/* A row that was held ahead of the cursor still counts as pending. */
static int read_held(
    struct db *db, const char *dest, struct postbag_status *out)
{
    int64_t *const to[] = {
        &out->held_retry, &out->held_behind, &out->held_suspect, &out->dead};
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT count(*) FILTER (WHERE state = 'retry'),"
        " count(*) FILTER (WHERE state = 'behind'),"
        " count(*) FILTER (WHERE state = 'suspect'),"
        " count(*) FILTER (WHERE state = 'dead')"
        " FROM outbox_held h JOIN outbox_cursor c"
        " ON c.dest = h.dest AND c.lane = h.priority AND h.seq <= c.acked"
        " WHERE h.dest = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    err = read_row(&s, to, 4);
    out->held = out->held_retry + out->held_behind + out->held_suspect;
    return err;
}

/* A lane's mark is of no meaning once its row is settled. */
static int read_trial(
    struct db *db, const char *dest, struct postbag_status *out)
{
    int64_t *const to[] = {&out->on_trial};
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT (SELECT count(*) FROM outbox_cursor"
        "  WHERE dest = ?1 AND deaths > 0 AND tried > acked)"
        " + (SELECT count(*) FROM outbox_held"
        "  WHERE dest = ?1 AND deaths > 0 AND state <> 'dead')");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    return read_row(&s, to, 1);
}

/*
 * Per lane: the oldest row behind the cursor, and how many the relay has
 * reserved.  "priority > 0" must stand there literally, or the index of
 * urgent rows is not used.
 */
#define BULK " AND priority = ?2"
#define URGENT " AND priority = ?2 AND priority > 0"
#define CURSOR(column) \
    "(SELECT " #column " FROM outbox_cursor WHERE dest = ?1 AND lane = ?2)"
#define OURS " (dest IS NULL OR dest = ?1)"
#define OLDEST(lane) \
    "SELECT created_ms, boot, mono_ms FROM (SELECT created_ms, boot," \
    "  mono_ms, dest FROM outbox WHERE seq > " CURSOR(acked) lane \
        "  ORDER BY seq LIMIT ?3) WHERE" OURS " LIMIT 1"
#define RESERVED(lane) \
    "SELECT count(*) FROM outbox WHERE seq > " CURSOR( \
        acked) " AND seq <= " CURSOR(sent_hi) lane " AND" OURS

static int prepare_lane(
    struct db *db, struct stmt *s, const char *sql, const char *dest, int lane)
{
    int err = postbag__prepare(db, s, sql);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(s, 1, dest);
    postbag__bind_i64(s, 2, lane);
    return POSTBAG_OK;
}

static int read_oldest(struct db *db, const char *dest, int lane,
    const struct moment *now, struct postbag_status *out)
{
    struct stmt s;
    int64_t age;
    int err = prepare_lane(
        db, &s, lane == 0 ? OLDEST(BULK) : OLDEST(URGENT), dest, lane);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 3, LOOK_ROWS);
    err = postbag__row(&s);
    if (err == 1) {
        age = postbag__row_age_ms(&s, 0, now);
        if (out->oldest_ms == 0 || age > out->oldest_age_ms) {
            out->oldest_ms = postbag__col_i64(&s, 0);
            out->oldest_age_ms = age;
        }
        err = POSTBAG_OK;
    }
    postbag__finalize(&s);
    return err;
}

static int read_reserved(
    struct db *db, const char *dest, int lane, struct postbag_status *out)
{
    struct stmt s;
    int64_t n = 0;
    int64_t *const to[] = {&n};
    int err = prepare_lane(
        db, &s, lane == 0 ? RESERVED(BULK) : RESERVED(URGENT), dest, lane);

    if (err == POSTBAG_OK)
        err = read_row(&s, to, 1);
    out->sending += n;
    return err;
}

/* ---- rate of puts ---- */

static int64_t per_1000_s(int64_t rows, int64_t ms)
{
    enum { SECONDS = 1000000 };

    /* a damaged log may be that long */
    return rows > INT64_MAX / SECONDS ? INT64_MAX : rows * SECONDS / ms;
}

/*
 * The log is dense, so one row with its age tells how many came since.  Step
 * back 1, 2, 4 ... rows until one is old enough.  A burst after long silence
 * would drown in the silence: what came within the window counts at least.
 */
static int walk_back(
    struct stmt *s, const struct moment *now, int64_t put, int64_t *rate)
{
    int64_t young = 0;
    int64_t young_age = 0;
    int err = POSTBAG_OK;

    for (int64_t back = 0; back < put; back = back == 0 ? 1 : 2 * back) {
        int64_t rows;
        int64_t age;

        postbag__bind_i64(s, 1, put - back);
        err = postbag__row(s);
        if (err != 1)
            break;
        rows = put - postbag__col_i64(s, 0);
        age = postbag__row_age_ms(s, 1, now);
        postbag__reset(s);
        if (age >= RATE_WINDOW_MS) {
            int64_t least = per_1000_s(young, RATE_WINDOW_MS);

            *rate = per_1000_s(rows, age);
            *rate = *rate < least ? least : *rate;
            return POSTBAG_OK;
        }
        young = rows;
        young_age = age;
    }
    *rate = young_age < RATE_LEAST_MS ? -1 : per_1000_s(young, young_age);
    return err < 0 ? err : POSTBAG_OK;
}

static int read_rate(
    struct db *db, const struct moment *now, struct postbag_status *out)
{
    struct stmt s;
    int err;

    if (out->put == 0)
        return POSTBAG_OK;
    err = postbag__prepare(db, &s,
        "SELECT seq, created_ms, boot, mono_ms FROM outbox"
        " WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1");
    if (err != POSTBAG_OK)
        return err;
    err = walk_back(&s, now, out->put, &out->put_rate_milli);
    postbag__finalize(&s);
    return err;
}

int postbag__status_read(struct db *db, const char *dest,
    const struct moment *now, struct postbag_status *out)
{
    int err = read_lease(db, dest, now, out);

    if (err == POSTBAG_OK)
        err = read_put(db, out);
    if (err == POSTBAG_OK)
        err = read_settled(db, dest, out);
    if (err == POSTBAG_OK)
        err = read_held(db, dest, out);
    if (err == POSTBAG_OK)
        err = read_trial(db, dest, out);
    if (err == POSTBAG_OK)
        err = read_lost(db, dest, out);
    for (int lane = 0; lane < LANES && err == POSTBAG_OK; lane++) {
        err = read_oldest(db, dest, lane, now, out);
        if (err == POSTBAG_OK)
            err = read_reserved(db, dest, lane, out);
    }
    if (err == POSTBAG_OK)
        err = read_rate(db, now, out);
    out->ledger_gap = out->put + out->replayed -
                      (out->delivered + out->pending + out->held + out->dead +
                          out->dropped + out->passed);
    return err;
}

/* ---- the file ---- */

static int read_inbox(struct db *db, struct postbag_database *out)
{
    int64_t *const to[] = {&out->inbox_due, &out->inbox_deferred,
        &out->inbox_done, &out->inbox_dead, &out->inbox_claimed,
        &out->inbox_expired};
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT count(*) FILTER (WHERE state = 'due'),"
        " count(*) FILTER (WHERE state = 'deferred'),"
        " count(*) FILTER (WHERE state = 'done'),"
        " count(*) FILTER (WHERE state = 'dead'),"
        " count(*) FILTER (WHERE state = 'claimed'),"
        " count(*) FILTER (WHERE state = 'dead' AND error GLOB 'expired*')"
        " FROM inbox");

    return err == POSTBAG_OK ? read_row(&s, to, 6) : err;
}

static int read_inbox_fill(struct db *db, struct postbag_database *out)
{
    struct inbox_fill fill = {0};
    int err = postbag__inbox_fill(db, &fill);

    out->inbox_bytes = fill.bytes;
    out->inbox_max_rows = fill.max_rows;
    out->inbox_max_bytes = fill.max_bytes;
    out->inbox_forgotten = fill.forgotten;
    return err;
}

static int read_meta(struct db *db, const char *key, int64_t *out)
{
    int64_t *const to[] = {out};
    struct stmt s;
    int err = postbag__prepare(
        db, &s, "SELECT value FROM outbox_meta WHERE key = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, key);
    return read_row(&s, to, 1);
}

static int read_waiting(struct db *db, struct postbag_database *out)
{
    struct postbag_pressure fill = {.struct_size = sizeof(fill)};
    struct stmt s;
    int err = postbag__pressure_prepare(db, &s);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__pressure_read(&s, &fill);
    postbag__finalize(&s);
    out->waiting_rows = fill.rows;
    out->waiting_bytes = fill.bytes;
    out->rows_fill = fill.rows_fill;
    out->bytes_fill = fill.bytes_fill;
    return err;
}

/* The destination with the least in that column of its cursors. */
static int read_slowest(struct db *db, const char *sql, char out[65])
{
    struct stmt s;
    int err = postbag__prepare(db, &s, sql);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__row(&s);
    if (err == 1)
        (void)snprintf(out, 65, "%s", postbag__col_string(&s, 0));
    postbag__finalize(&s);
    return err == 1 ? POSTBAG_OK : err;
}

#define SLOWEST_BY(column) \
    "SELECT dest FROM outbox_cursor GROUP BY dest ORDER BY sum(" column \
    "), dest LIMIT 1"

int postbag__database_read(struct db *db, struct postbag_database *out)
{
    int64_t pages = 0;
    int64_t free_pages = 0;
    int err = read_meta(db, "schema_version", &out->schema_version);

    if (err == POSTBAG_OK)
        err = read_meta(db, "max_payload", &out->max_payload);
    if (err == POSTBAG_OK)
        err = read_meta(db, "max_rows", &out->max_rows);
    if (err == POSTBAG_OK)
        err = read_meta(db, "max_bytes", &out->max_bytes);
    if (err == POSTBAG_OK)
        err = postbag__db_pragma(db, "main.page_size", &out->page_bytes);
    if (err == POSTBAG_OK)
        err = postbag__db_pragma(db, "main.page_count", &pages);
    if (err == POSTBAG_OK)
        err = postbag__db_pragma(db, "main.freelist_count", &free_pages);
    if (err == POSTBAG_OK)
        err = postbag__wal_bytes(db, &out->wal_bytes);
    if (err == POSTBAG_OK)
        err = read_inbox(db, out);
    if (err == POSTBAG_OK)
        err = read_inbox_fill(db, out);
    if (err == POSTBAG_OK)
        err = read_waiting(db, out);
    if (err == POSTBAG_OK)
        err = read_slowest(db, SLOWEST_BY("settled_rows"), out->rows_dest);
    if (err == POSTBAG_OK)
        err = read_slowest(db, SLOWEST_BY("settled_bytes"), out->bytes_dest);
    out->db_bytes = pages * out->page_bytes;
    out->free_bytes = free_pages * out->page_bytes;
    return err;
}
