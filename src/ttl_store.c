/* SPDX-License-Identifier: MIT */
/*
 * All by seek: index outbox_held_ttl has only held rows that can become too
 * old, outbox_unstamped and outbox_held_unstamped only rows of the log, and
 * held ones, that can and may not know since when they wait.
 */
#include "ttl_store.h"

#include <stddef.h>
#include <string.h>

/* As row.c: put by plain SQL, or before the clock was set, 2024-01-01. */
#define UNSTAMPED \
    "ttl_ms IS NOT NULL AND (mono_ms IS NULL OR created_ms < 1704067200000)"

_Static_assert(POSTBAG__CLOCK_IS_SET_MS == 1704067200000, "as in UNSTAMPED");

int postbag__ttl_create(struct db *db)
{
    static const char *const statements[] = {
        "CREATE TABLE outbox_seen("
        " dest TEXT NOT NULL, n INTEGER NOT NULL, seq INTEGER NOT NULL,"
        " boot BLOB NOT NULL, mono_ms INTEGER NOT NULL,"
        " wall_ms INTEGER NOT NULL, PRIMARY KEY(dest, n))"
        " STRICT, WITHOUT ROWID",
        "CREATE INDEX outbox_unstamped ON outbox(seq)"
        " WHERE " UNSTAMPED,
        "CREATE INDEX outbox_held_unstamped ON outbox_held(dest, seq)"
        " WHERE " UNSTAMPED,
    };

    return POSTBAG__EXEC_ALL(db, statements);
}

#define AGE_COLUMNS "SELECT seq, ttl_ms, created_ms, boot, mono_ms, priority"
#define HELD \
    "FROM outbox_held INDEXED BY outbox_held_unstamped WHERE dest = ?1 " \
    "AND " UNSTAMPED
#define AHEAD AGE_COLUMNS ", dest IS NULL OR dest = ?3 FROM outbox WHERE "

static const struct stmt_plan plan[] = {
    {offsetof(struct ttl_store, ahead_bulk),
        AHEAD "seq > ?1 AND priority = 0 ORDER BY seq LIMIT ?2"},
    /* "priority > 0" must stand there literally, or the planner does not see
       that the partial index fits */
    {offsetof(struct ttl_store, ahead_urgent),
        AHEAD "priority = ?4 AND priority > 0 AND seq > ?1"
              " ORDER BY seq LIMIT ?2"},
    {offsetof(struct ttl_store, held),
        AGE_COLUMNS ", 1 FROM outbox_held WHERE dest = ?1 AND seq > ?2"
                    " AND ttl_ms IS NOT NULL AND state <> 'dead'"
                    " ORDER BY seq LIMIT 1"},
    {offsetof(struct ttl_store, unstamped),
        "SELECT (SELECT max(seq) FROM outbox INDEXED BY outbox_unstamped"
        " WHERE " UNSTAMPED "), (SELECT min(seq) " HELD "),"
        " (SELECT max(seq) " HELD ")"},
    {offsetof(struct ttl_store, forget),
        "DELETE FROM outbox_seen WHERE dest = ?1"},
    {offsetof(struct ttl_store, see),
        "INSERT INTO outbox_seen(dest, n, seq, boot, mono_ms, wall_ms)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6)"},
};
enum { STATEMENTS = sizeof(plan) / sizeof(plan[0]) };

int postbag__ttl_open(struct ttl_store *t, struct db *db, const char *dest)
{
    memset(t, 0, sizeof(*t));
    t->db = db;
    t->dest = dest;
    return postbag__prepare_all(db, t, plan, STATEMENTS);
}

void postbag__ttl_close(struct ttl_store *t)
{
    postbag__finalize_all(t, plan, STATEMENTS);
}

static struct stmt *ahead_of(struct ttl_store *t, int lane)
{
    return lane == 0 ? &t->ahead_bulk : &t->ahead_urgent;
}

static int read_next(struct stmt *s, struct ageing *out)
{
    int err = postbag__row(s);

    if (err != 1)
        return err;
    memset(out, 0, sizeof(*out));
    out->row.seq = postbag__col_i64(s, 0);
    postbag__row_read_age(s, 1, &out->row);
    out->row.priority = (int)postbag__col_i64(s, 5);
    out->is_ours = postbag__col_i64(s, 6) != 0;
    return 1;
}

void postbag__ttl_ahead(
    struct ttl_store *t, int lane, int64_t after, uint32_t limit)
{
    struct stmt *s = ahead_of(t, lane);

    postbag__bind_i64(s, 1, after);
    postbag__bind_i64(s, 2, limit);
    postbag__bind_text(s, 3, t->dest);
    if (lane != 0)
        postbag__bind_i64(s, 4, lane);
}

int postbag__ttl_ahead_next(struct ttl_store *t, int lane, struct ageing *out)
{
    return read_next(ahead_of(t, lane), out);
}

void postbag__ttl_ahead_end(struct ttl_store *t, int lane)
{
    postbag__reset(ahead_of(t, lane));
}

int postbag__ttl_held(struct ttl_store *t, int64_t after, struct ageing *out)
{
    int err;

    postbag__bind_text(&t->held, 1, t->dest);
    postbag__bind_i64(&t->held, 2, after);
    err = read_next(&t->held, out);
    if (err == 1)
        postbag__reset(&t->held);
    return err;
}

/* ---- what was seen ---- */

int postbag__ttl_unstamped(
    struct ttl_store *t, int64_t *newest, struct askers *who)
{
    int err;

    postbag__bind_text(&t->unstamped, 1, t->dest);
    err = postbag__row(&t->unstamped);
    if (err != 1)
        return err == POSTBAG_OK ? POSTBAG_EIO : err;
    *newest = postbag__col_i64(&t->unstamped, 0);
    who->first_held = postbag__col_i64(&t->unstamped, 1);
    who->last_held = postbag__col_i64(&t->unstamped, 2);
    postbag__reset(&t->unstamped);
    return POSTBAG_OK;
}

static void read_sighting(struct stmt *s, struct sightings *out)
{
    size_t len;
    const void *boot = postbag__col_bytes(s, 1, &len);
    struct moment at = {
        .mono_ms = postbag__col_i64(s, 2), .wall_ms = postbag__col_i64(s, 3)};

    if (boot == NULL || len != sizeof(at.boot))
        return;
    memcpy(at.boot, boot, len);
    postbag__sightings_add(out, postbag__col_i64(s, 0), &at);
}

int postbag__ttl_load(struct ttl_store *t, struct sightings *out)
{
    struct stmt s;
    int err = postbag__prepare(t->db, &s,
        "SELECT seq, boot, mono_ms, wall_ms FROM outbox_seen"
        " WHERE dest = ?1 ORDER BY n");

    memset(out, 0, sizeof(*out));
    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, t->dest);
    while ((err = postbag__row(&s)) == 1)
        read_sighting(&s, out);
    postbag__finalize(&s);
    return err;
}

int postbag__ttl_save(struct ttl_store *t, const struct sightings *seen)
{
    struct stmt *s = &t->see;
    int err;

    postbag__bind_text(&t->forget, 1, t->dest);
    err = postbag__run(&t->forget);
    for (int i = 0; i < seen->count && err == POSTBAG_OK; i++) {
        const struct sighting *one = &seen->list[i];

        postbag__bind_text(s, 1, t->dest);
        postbag__bind_i64(s, 2, i);
        postbag__bind_i64(s, 3, one->seq);
        postbag__bind_blob(s, 4, one->at.boot, sizeof(one->at.boot));
        postbag__bind_i64(s, 5, one->at.mono_ms);
        postbag__bind_i64(s, 6, one->at.wall_ms);
        err = postbag__run(s);
    }
    return err;
}
