/* SPDX-License-Identifier: MIT */
/* See detach.h. */
#include "detach.h"

#include <stdio.h>
#include <string.h>

#include "held_store.h"
#include "moment.h"

enum {
    GRACE_US = 60 * 1000 * 1000,
    LOOK_US = 10 * 1000 * 1000,
    BATCH_ROWS = 1024
};

void postbag__detach_init(struct detach *d, struct db *db, struct lease *lease,
    const struct log *log, const struct detach_options *options)
{
    memset(d, 0, sizeof(*d));
    d->db = db;
    d->lease = lease;
    d->log = log;
    d->options = *options;
}

/* Nobody waits for longer than the age that is allowed. */
static int64_t at_most_after(const struct detach *d, int64_t wait_us)
{
    int64_t after_us = (int64_t)d->options.after_s * 1000000;

    return after_us != 0 && after_us < wait_us ? after_us : wait_us;
}

void postbag__detach_begin(struct detach *d, int64_t now_us)
{
    d->is_running = 0;
    d->rows = 0;
    d->bytes = 0;
    d->next_us = now_us + at_most_after(d, GRACE_US);
}

static int is_on(const struct detach *d)
{
    return d->options.after_s != 0 || d->options.after_bytes != 0;
}

/* ---- is one over a limit? ---- */

static const char over_bytes[] =
    "SELECT d.name FROM outbox_dest d WHERE d.name <> ?1"
    " AND (SELECT sum(settled_bytes) FROM outbox_cursor WHERE dest = ?1)"
    "  - (SELECT sum(settled_bytes) FROM outbox_cursor WHERE dest = d.name)"
    "  >= ?2 ORDER BY d.name LIMIT 1";

/*
 * Of each other cursor t that is behind ours, m: the oldest row between them,
 * whoever it is for, since it stays in the log either way.  Its age is taken
 * for 0 where the clocks cannot know it.  "priority > 0" must stand there
 * literally, or the index of urgent rows is not used.
 */
static const char over_age[] =
    "SELECT t.dest FROM outbox_cursor t"
    " CROSS JOIN outbox_cursor m ON m.dest = ?1 AND m.lane = t.lane"
    " CROSS JOIN outbox o ON o.seq = iif(t.lane = 0,"
    "  (SELECT seq FROM outbox WHERE seq > t.acked AND seq <= m.acked"
    "    AND priority = 0 ORDER BY seq LIMIT 1),"
    "  (SELECT seq FROM outbox WHERE seq > t.acked AND seq <= m.acked"
    "    AND priority = t.lane AND priority > 0 ORDER BY seq LIMIT 1))"
    " WHERE t.dest <> ?1 AND ?2 <= CASE"
    "  WHEN o.boot IS ?3 AND o.mono_ms > 0 THEN ?4 - o.mono_ms"
    "  WHEN o.created_ms >= ?6 THEN ?5 - o.created_ms ELSE 0 END"
    " ORDER BY t.dest LIMIT 1";

static void bind_clocks(const struct detach *d, struct stmt *s, int64_t now_us)
{
    const struct postbag_port *port = d->lease->shared->port;

    postbag__bind_blob(s, 3, d->lease->boot, sizeof(d->lease->boot));
    postbag__bind_i64(s, 4, now_us / 1000);
    postbag__bind_i64(s, 5, port->wall_ms(port->ctx));
    postbag__bind_i64(s, 6, POSTBAG__CLOCK_IS_SET_MS);
}

/* 1: d->other is the first; 0: there is none.  now_us 0: sql needs no clock */
static int find_by(
    struct detach *d, const char *sql, int64_t limit, int64_t now_us)
{
    struct stmt s;
    int err;

    if (limit == 0)
        return 0;
    err = postbag__prepare(d->db, &s, sql);
    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, d->lease->dest);
    postbag__bind_i64(&s, 2, limit);
    if (now_us != 0)
        bind_clocks(d, &s, now_us);
    err = postbag__row(&s);
    if (err == 1)
        (void)snprintf(
            d->other, sizeof(d->other), "%s", postbag__col_string(&s, 0));
    postbag__finalize(&s);
    return err;
}

/* Where our own cursors are. */
static int read_ours(struct detach *d)
{
    struct stmt s;
    int err = postbag__prepare(d->db, &s,
        "SELECT acked FROM outbox_cursor WHERE dest = ?1 ORDER BY lane");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, d->lease->dest);
    for (int i = 0; i < POSTBAG__LANES && (err = postbag__row(&s)) == 1; i++)
        d->upto[i] = postbag__col_i64(&s, 0);
    postbag__finalize(&s);
    return err;
}

/* 1: d says whom to detach, and up to where; 0: nobody */
static int find(struct detach *d, int64_t now_us)
{
    int64_t age_ms = (int64_t)d->options.after_s * 1000;
    int err = find_by(d, over_bytes, d->options.after_bytes, 0);

    if (err == 0)
        err = find_by(d, over_age, age_ms, now_us);
    return err == 1 ? read_ours(d) : err;
}

/* ---- the jump ---- */

struct jump {
    struct detach *d;
    struct outbox_store outbox;
    struct lost_store lost;
    struct held_store held;
    struct lane lanes[POSTBAG__LANES];
    struct lost run; /* rows one after the other, not recorded yet */
    int64_t rows;    /* settled */
    struct moment now;
    int is_cut; /* there is more to do */
};

static int record(struct jump *j)
{
    int err = POSTBAG_OK;

    if (j->run.n != 0)
        err = postbag__lost_note(&j->lost, &j->run, "detached", j->now.wall_ms);
    j->d->rows += j->run.n;
    j->d->bytes += j->run.bytes;
    memset(&j->run, 0, sizeof(j->run));
    return err;
}

static int drop(struct jump *j, struct lane *l, const struct scanned *row)
{
    int err = POSTBAG_OK;

    if (j->run.n > 0 && j->run.hi + 1 != row->seq)
        err = record(j);
    if (j->run.n == 0)
        j->run.lo = row->seq;
    j->run.hi = row->seq;
    j->run.n++;
    j->run.bytes += row->bytes;
    l->gain.dropped++;
    return err;
}

/* What is held was settled when it was, and stays. */
static int pass(struct jump *j, struct lane *l, const struct scanned *row)
{
    int is_held;

    l->acked = row->seq;
    l->gain.rows++;
    l->gain.bytes += row->bytes;
    j->rows++;
    if (!row->is_ours) {
        l->gain.passed++;
        return POSTBAG_OK;
    }
    is_held = postbag__held_exists(&j->held, row->seq);
    return is_held == 0 ? drop(j, l, row) : is_held < 0 ? is_held : POSTBAG_OK;
}

static int pass_rows(struct jump *j, int lane, int64_t upto)
{
    struct lane *l = &j->lanes[lane];
    uint32_t limit = (uint32_t)(BATCH_ROWS - j->rows);
    uint32_t count = 0;
    struct scanned row;
    int err;

    postbag__outbox_scan(&j->outbox, lane, l->acked, limit);
    while ((err = postbag__outbox_scan_next(&j->outbox, lane, &row)) == 1 &&
           row.seq <= upto) {
        err = pass(j, l, &row);
        if (err != POSTBAG_OK)
            break;
        count++;
    }
    postbag__outbox_scan_end(&j->outbox, lane);
    if (count == limit)
        j->is_cut = 1;
    else
        l->acked = upto;
    return err < 0 ? err : record(j);
}

/* The entry of outbox_acks lets the purge go on where rows are kept. */
static int jump_lane(struct jump *j, int lane)
{
    struct lane *l = &j->lanes[lane];
    int64_t upto = j->d->upto[lane];
    int err;

    if (l->acked >= upto)
        return POSTBAG_OK;
    if (j->rows == BATCH_ROWS) {
        j->is_cut = 1;
        return POSTBAG_OK;
    }
    err = pass_rows(j, lane, upto);
    if (err == POSTBAG_OK)
        err = postbag__outbox_save(&j->outbox, lane, l, l->acked);
    if (err == POSTBAG_OK)
        err = postbag__outbox_note_ack(&j->outbox, lane, l->acked, &j->now);
    return err;
}

/* 1: done.  0: there is no such destination any more. */
static int fence(struct detach *d)
{
    struct stmt s;
    int err = postbag__prepare(
        d->db, &s, "UPDATE outbox_dest SET epoch = epoch + 1 WHERE name = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, d->other);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err == POSTBAG_OK ? postbag__changes(d->db) > 0 : err;
}

static int jump(struct jump *j)
{
    struct detach *d = j->d;
    int err = fence(d);

    if (err != 1)
        return err;
    err = postbag__outbox_open(&j->outbox, d->db, d->other);
    if (err == POSTBAG_OK)
        err = postbag__lost_open(&j->lost, d->db, d->other);
    if (err == POSTBAG_OK)
        err = postbag__held_open(&j->held, d->db, &j->lost);
    if (err == POSTBAG_OK)
        err = postbag__outbox_load(&j->outbox, j->lanes);
    for (int i = 0; i < POSTBAG__LANES && err == POSTBAG_OK; i++)
        err = jump_lane(j, i);
    postbag__held_close(&j->held);
    postbag__lost_close(&j->lost);
    postbag__outbox_close(&j->outbox);
    return err == POSTBAG_OK ? j->rows > 0 : err;
}

/* ---- steps ---- */

/* In a transaction; 1: commit it.  Another relay may have got on since the
 * look outside, so the first batch looks again. */
static int work(struct detach *d, struct jump *j, int64_t now_us)
{
    int err = d->is_running ? 1 : find(d, now_us);

    return err == 1 ? jump(j) : err;
}

static int run_batch(struct detach *d, struct jump *j, int64_t now_us)
{
    int err = postbag__lease_begin(d->lease, DB_FULL);

    if (err != POSTBAG_OK)
        return err;
    err = work(d, j, now_us);
    if (err == 1) {
        err = postbag__lease_commit(d->lease);
        return err == POSTBAG_OK ? 1 : err;
    }
    postbag__lease_rollback(d->lease);
    return err;
}

/* Rows of others alone are no loss. */
static void finish(struct detach *d)
{
    if (d->rows > 0)
        postbag__log(d->log, POSTBAG_LOG_ERROR, POSTBAG_OK,
            "destination %s is detached: %lld messages (%lld bytes) that waited"
            " for it are dropped; outbox_lost names them",
            d->other, (long long)d->rows, (long long)d->bytes);
    d->rows = 0;
    d->bytes = 0;
    d->is_running = 0;
}

static int detach_some(struct detach *d, int64_t now_us)
{
    struct jump j = {.d = d,
        .now =
            postbag__moment_at(d->lease->shared->port, d->lease->boot, now_us)};
    const struct detach before = *d;
    int err = run_batch(d, &j, now_us);

    if (err < 0) {
        *d = before;
        return err;
    }
    d->is_running = j.is_cut;
    if (!d->is_running)
        finish(d);
    d->next_us = err == 1 ? now_us : now_us + at_most_after(d, LOOK_US);
    return POSTBAG_OK;
}

int postbag__detach_step(struct detach *d, int64_t now_us)
{
    int err;

    if (!is_on(d) || now_us < d->next_us)
        return POSTBAG_OK;
    err = d->is_running ? 1 : find(d, now_us);
    if (err == 1)
        return detach_some(d, now_us);
    if (err == 0)
        d->next_us = now_us + at_most_after(d, LOOK_US);
    return err;
}

int64_t postbag__detach_deadline(const struct detach *d)
{
    return is_on(d) ? d->next_us : INT64_MAX;
}
