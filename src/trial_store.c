/* SPDX-License-Identifier: MIT */
/*
 * A lane's mark stands beside its cursor and counts for one row; a held row
 * has its own.  So a mark needs no deleting: it is settled with its row.
 */
#include "trial_store.h"

#include <stddef.h>
#include <string.h>

static const struct stmt_plan plan[] = {
    {offsetof(struct trial_store, mark_lane),
        "UPDATE outbox_cursor SET tried = ?3, deaths = ?4"
        " WHERE dest = ?1 AND lane = ?2"},
    {offsetof(struct trial_store, mark_held),
        "UPDATE outbox_held SET deaths = ?3, due_boot = ifnull(?4, due_boot),"
        " due_ms = ifnull(?5, due_ms), error = ifnull(?6, error)"
        " WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct trial_store, deaths),
        "SELECT deaths FROM outbox_held WHERE dest = ?1 AND seq = ?2"},
    {offsetof(struct trial_store, end_lane),
        "UPDATE outbox_cursor SET sent_hi = max(acked, ?3), tried = 0,"
        " deaths = 0"
        " WHERE dest = ?1 AND lane = ?2"},
    {offsetof(struct trial_store, end_held),
        "UPDATE outbox_held SET deaths = 0"
        " WHERE dest = ?1 AND deaths > 0 AND deaths < ?2"},
};
enum { STATEMENTS = sizeof(plan) / sizeof(plan[0]) };

int postbag__trial_store_open(
    struct trial_store *s, struct db *db, const char *dest)
{
    memset(s, 0, sizeof(*s));
    s->db = db;
    s->dest = dest;
    return postbag__prepare_all(db, s, plan, STATEMENTS);
}

void postbag__trial_store_close(struct trial_store *s)
{
    postbag__finalize_all(s, plan, STATEMENTS);
}

/* ---- at the start ---- */

static int load_lanes(struct trial_store *s, const struct lane *lanes,
    struct trial *t, struct stmt *read)
{
    int err;

    postbag__bind_text(read, 1, s->dest);
    while ((err = postbag__row(read)) == 1) {
        int64_t i = postbag__col_i64(read, 0);
        int64_t tried = postbag__col_i64(read, 1);
        int deaths = (int)postbag__col_i64(read, 2);

        if (i < 0 || i >= TRIAL_HELD || lanes[i].begun <= lanes[i].acked)
            continue;
        if (tried <= lanes[i].acked)
            tried = deaths = 0; /* settled since */
        postbag__trial_open(t, (int)i, lanes[i].begun, tried, deaths);
    }
    return err;
}

static int load_held(struct trial_store *s, struct trial *t, struct stmt *read)
{
    int err;

    postbag__bind_text(read, 1, s->dest);
    postbag__bind_i64(read, 2, TRIAL_SUSPECT);
    err = postbag__row(read);
    if (err != 1)
        return err;
    postbag__trial_open(t, TRIAL_HELD, postbag__col_i64(read, 0), 0,
        (int)postbag__col_i64(read, 1));
    postbag__reset(read);
    return POSTBAG_OK;
}

int postbag__trial_store_load(
    struct trial_store *s, const struct lane lanes[TRIAL_HELD], struct trial *t)
{
    struct stmt read;
    int err = postbag__prepare(s->db, &read,
        "SELECT lane, tried, deaths FROM outbox_cursor WHERE dest = ?1");

    if (err != POSTBAG_OK)
        return err;
    err = load_lanes(s, lanes, t, &read);
    postbag__finalize(&read);
    if (err == POSTBAG_OK)
        err = postbag__prepare(s->db, &read,
            "SELECT (SELECT ifnull(max(seq), 0) FROM outbox_held"
            "  WHERE dest = ?1), (SELECT ifnull(max(deaths), 0)"
            "  FROM outbox_held WHERE dest = ?1 AND state = 'retry'"
            "  AND deaths > 0 AND deaths < ?2)");
    if (err != POSTBAG_OK)
        return err;
    err = load_held(s, t, &read);
    postbag__finalize(&read);
    return err;
}

int postbag__trial_store_deaths(struct trial_store *s, int64_t seq)
{
    int deaths;
    int err;

    postbag__bind_text(&s->deaths, 1, s->dest);
    postbag__bind_i64(&s->deaths, 2, seq);
    err = postbag__row(&s->deaths);
    if (err != 1)
        return err;
    deaths = (int)postbag__col_i64(&s->deaths, 0);
    postbag__reset(&s->deaths);
    return deaths;
}

/* ---- writing ---- */

static int mark_lane(
    struct trial_store *s, int lane, const struct trial_mark *m)
{
    postbag__bind_text(&s->mark_lane, 1, s->dest);
    postbag__bind_i64(&s->mark_lane, 2, lane);
    postbag__bind_i64(&s->mark_lane, 3, m->seq);
    postbag__bind_i64(&s->mark_lane, 4, m->deaths);
    return postbag__run(&s->mark_lane);
}

static int mark_held(
    struct trial_store *s, const struct trial_mark *m, const struct due *later)
{
    struct stmt *w = &s->mark_held;

    postbag__bind_text(w, 1, s->dest);
    postbag__bind_i64(w, 2, m->seq);
    postbag__bind_i64(w, 3, m->deaths);
    /* with the fifth in flight nothing is known yet */
    if (postbag__trial_is_suspect(m->deaths - m->is_flying)) {
        postbag__bind_blob(w, 4, later->boot, 16);
        postbag__bind_i64(w, 5, later->ms);
        postbag__bind_text(w, 6, TRIAL_TEXT);
    }
    return postbag__run(w);
}

int postbag__trial_store_save(
    struct trial_store *s, const struct trial *t, const struct due *later)
{
    int err = POSTBAG_OK;

    for (int i = 0; i < TRIAL_MARKS && err == POSTBAG_OK; i++) {
        const struct trial_mark *m = &t->marks[i];

        if (!m->is_owed)
            continue;
        err = i == TRIAL_HELD ? mark_held(s, m, later) : mark_lane(s, i, m);
    }
    return err;
}

int postbag__trial_store_end(
    struct trial_store *s, const struct lane lanes[TRIAL_HELD])
{
    int err = POSTBAG_OK;

    for (int i = 0; i < TRIAL_HELD && err == POSTBAG_OK; i++) {
        postbag__bind_text(&s->end_lane, 1, s->dest);
        postbag__bind_i64(&s->end_lane, 2, i);
        postbag__bind_i64(&s->end_lane, 3, lanes[i].begun);
        err = postbag__run(&s->end_lane);
    }
    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s->end_held, 1, s->dest);
    postbag__bind_i64(&s->end_held, 2, TRIAL_SUSPECT);
    return postbag__run(&s->end_held);
}
