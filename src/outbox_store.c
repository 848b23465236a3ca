/* SPDX-License-Identifier: MIT */
/*
 * The log is read by seek only: what it costs does not grow with the
 * backlog.  Engine thread, one connection.
 */
#include "outbox_store.h"

#include <stddef.h>
#include <string.h>

#include "error.h"

#define SCAN_COLUMNS \
    "SELECT seq, length(CAST(topic AS BLOB)) + length(CAST(payload AS BLOB))," \
    " ifnull(key, coalesce), dest IS NULL OR dest = ?3," \
    " coalesce IS NOT NULL FROM outbox"

static const struct stmt_plan plan[] = {
    {offsetof(struct outbox_store, scan_bulk),
        SCAN_COLUMNS " WHERE seq > ?1 AND priority = 0"
                     " ORDER BY seq LIMIT ?2"},
    /* "priority > 0" must stand there literally, or the planner does not
           see that the partial index fits */
    {offsetof(struct outbox_store, scan_urgent),
        SCAN_COLUMNS " WHERE priority = ?4 AND priority > 0"
                     " AND seq > ?1 ORDER BY seq LIMIT ?2"},
    {offsetof(struct outbox_store, fetch),
        "SELECT " ROW_COLUMNS " FROM outbox WHERE seq = ?1"},
    {offsetof(struct outbox_store, newest), "SELECT max(seq) FROM outbox"},
    {offsetof(struct outbox_store, save),
        "UPDATE outbox_cursor SET acked = ?3, sent_hi = max(sent_hi, ?4),"
        " settled_rows = settled_rows + ?5,"
        " settled_bytes = settled_bytes + ?6,"
        " delivered = delivered + ?7, passed = passed + ?8,"
        " dropped = dropped + ?9"
        " WHERE dest = ?1 AND lane = ?2 AND acked <= ?3"},
    {offsetof(struct outbox_store, release),
        "UPDATE outbox_cursor SET sent_hi = max(acked, ?3)"
        " WHERE dest = ?1 AND lane = ?2 AND sent_hi > ?3"},
    {offsetof(struct outbox_store, note_ack),
        "INSERT INTO outbox_acks(dest, lane, upto, at_ms, boot, mono_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        " ON CONFLICT(dest, lane, upto) DO NOTHING"},
};
enum { STATEMENTS = sizeof(plan) / sizeof(plan[0]) };

int postbag__outbox_open(
    struct outbox_store *o, struct db *db, const char *dest)
{

    memset(o, 0, sizeof(*o));
    o->db = db;
    o->dest = dest;
    return postbag__prepare_all(db, o, plan, STATEMENTS);
}

void postbag__outbox_close(struct outbox_store *o)
{
    postbag__finalize_all(o, plan, STATEMENTS);
}

int postbag__outbox_newest(struct outbox_store *o, int64_t *out)
{
    int err = postbag__row(&o->newest);

    if (err != 1)
        return err == POSTBAG_OK ? POSTBAG_EIO : err;
    *out = postbag__col_i64(&o->newest, 0);
    postbag__reset(&o->newest);
    return POSTBAG_OK;
}

static struct stmt *scan_of(struct outbox_store *o, int lane)
{
    return lane == 0 ? &o->scan_bulk : &o->scan_urgent;
}

void postbag__outbox_scan(
    struct outbox_store *o, int lane, int64_t after, uint32_t limit)
{
    struct stmt *s = scan_of(o, lane);

    postbag__bind_i64(s, 1, after);
    postbag__bind_i64(s, 2, limit);
    postbag__bind_text(s, 3, o->dest);
    if (lane != 0)
        postbag__bind_i64(s, 4, lane);
}

/* FNV-1a; two keys of one hash only wait for each other. */
static uint32_t hash_of(const char *key)
{
    uint32_t hash = 2166136261u;

    for (const unsigned char *p = (const unsigned char *)key; *p != 0; p++)
        hash = (hash ^ *p) * 16777619u;
    return hash == 0 ? 1 : hash;
}

int postbag__outbox_scan_next(
    struct outbox_store *o, int lane, struct scanned *out)
{
    struct stmt *s = scan_of(o, lane);
    const char *key;
    int err = postbag__row(s);

    if (err != 1)
        return err;
    key = postbag__col_text(s, 2);
    out->seq = postbag__col_i64(s, 0);
    out->bytes = (uint32_t)postbag__col_i64(s, 1);
    out->key = key == NULL ? 0 : hash_of(key);
    out->is_ours = postbag__col_i64(s, 3) != 0;
    out->coalesces = postbag__col_i64(s, 4) != 0;
    return 1;
}

void postbag__outbox_scan_end(struct outbox_store *o, int lane)
{
    postbag__reset(scan_of(o, lane));
}

int postbag__outbox_fetch(
    struct outbox_store *o, int64_t seq, struct arena *arena, struct row *out)
{
    int err;

    out->is_damaged = 0;
    postbag__bind_i64(&o->fetch, 1, seq);
    err = postbag__row(&o->fetch);
    if (err == POSTBAG_OK)
        return postbag__fail(&o->db->fault, POSTBAG_ENOTFOUND,
            "row %lld is gone", (long long)seq);
    if (err != 1)
        return err;
    err = postbag__row_read(&o->fetch, 0, arena, out);
    out->seq = seq;
    postbag__reset(&o->fetch);
    return err;
}

int postbag__outbox_load(
    struct outbox_store *o, struct lane lanes[POSTBAG__LANES])
{
    struct stmt s;
    int found = 0;
    int err = postbag__prepare(o->db, &s,
        "SELECT lane, acked, sent_hi FROM outbox_cursor WHERE dest = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, o->dest);
    while ((err = postbag__row(&s)) == 1) {
        int64_t lane = postbag__col_i64(&s, 0);

        if (lane < 0 || lane >= POSTBAG__LANES)
            continue;
        postbag__lane_restart(
            &lanes[lane], postbag__col_i64(&s, 1), postbag__col_i64(&s, 2));
        found++;
    }
    postbag__finalize(&s);
    if (err == POSTBAG_OK && found != POSTBAG__LANES)
        err = postbag__fail(&o->db->fault, POSTBAG_ECORRUPT,
            "destination %s has %d cursors, not 4", o->dest, found);
    return err;
}

int postbag__outbox_save(
    struct outbox_store *o, int lane, const struct lane *l, int64_t sent_hi)
{
    struct stmt *s = &o->save;
    int err;

    postbag__bind_text(s, 1, o->dest);
    postbag__bind_i64(s, 2, lane);
    postbag__bind_i64(s, 3, l->acked);
    postbag__bind_i64(s, 4, sent_hi);
    postbag__bind_i64(s, 5, l->gain.rows);
    postbag__bind_i64(s, 6, l->gain.bytes);
    postbag__bind_i64(s, 7, l->gain.delivered);
    postbag__bind_i64(s, 8, l->gain.passed);
    postbag__bind_i64(s, 9, l->gain.dropped);
    err = postbag__run(s);
    if (err == POSTBAG_OK && postbag__changes(o->db) != 1)
        err = postbag__fail(&o->db->fault, POSTBAG_EFENCED,
            "the cursor of lane %d moved past ours", lane);
    return err;
}

int postbag__outbox_release(struct outbox_store *o, int lane, int64_t begun)
{
    postbag__bind_text(&o->release, 1, o->dest);
    postbag__bind_i64(&o->release, 2, lane);
    postbag__bind_i64(&o->release, 3, begun);
    return postbag__run(&o->release);
}

int postbag__outbox_note_ack(
    struct outbox_store *o, int lane, int64_t upto, const struct moment *now)
{
    postbag__bind_text(&o->note_ack, 1, o->dest);
    postbag__bind_i64(&o->note_ack, 2, lane);
    postbag__bind_i64(&o->note_ack, 3, upto);
    postbag__bind_i64(&o->note_ack, 4, now->wall_ms);
    postbag__bind_blob(&o->note_ack, 5, now->boot, sizeof(now->boot));
    postbag__bind_i64(&o->note_ack, 6, now->mono_ms);
    return postbag__run(&o->note_ack);
}
