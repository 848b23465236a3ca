/* SPDX-License-Identifier: MIT */
/* See ttl_store.h.  All by seek: index outbox_held_ttl has only held rows that
 * can become too old. */
#include "ttl_store.h"

#include <stddef.h>
#include <string.h>

#define AGE_COLUMNS "SELECT seq, ttl_ms, created_ms, boot, mono_ms, priority"
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
