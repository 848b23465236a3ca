/* SPDX-License-Identifier: MIT */
/* See housekeeper.h.  Engine thread. */
#include "housekeeper.h"

#include <stdio.h>
#include <string.h>

#include "error.h"
#include "mem.h"

enum {
    GATE_MS = 50,
    CONTEND_US = 5 * 1000 * 1000,
    AGEING_US = 5 * 1000 * 1000,
    RETRY_US = 2 * 1000,
    TROUBLE_US = 1000 * 1000,
    PURGE_ROWS = 256,
    SHM_FRAMES = 4062, /* what the -shm file has room for at open */
    SHM_AHEAD_FRAMES = 2000,
    ROOM_US = 1000 * 1000, /* the disk gets free without us */
    WAL_IS_LONG = 4,       /* times checkpoint_frames */
    CHECKPOINT_TRIES = 50, /* of microseconds each */
    LOCK_WAIT_MS = 20      /* when the WAL is far too long, and at the end */
};

static char *lock_path(const char *db_path)
{
    static const char end[] = "-housekeeper";
    size_t size = strlen(db_path) + sizeof(end);
    char *path = postbag__alloc(size);

    if (path != NULL)
        (void)snprintf(path, size, "%s%s", db_path, end);
    return path;
}

int postbag__housekeeper_open(struct housekeeper *h, struct db *db,
    struct shared *shared, const struct log *log, const char *db_path,
    const struct housekeeper_options *options)
{
    int err;

    memset(h, 0, sizeof(*h));
    h->db = db;
    h->counted = -1;
    h->shm_frames = SHM_FRAMES;
    h->shared = shared;
    h->log = log;
    h->options = *options;
    h->purge.keep_ms = (int64_t)options->keep_s * 1000;
    h->purge.keep_rows = options->keep_rows;
    h->purge.max_rows = PURGE_ROWS;
    h->is_sound =
        postbag__db_checkpoint_is_sound(postbag__db_library_version());
    h->lock_path = lock_path(db_path);
    if (h->lock_path == NULL)
        return postbag__fail(&db->fault, POSTBAG_ENOMEM, "no memory");
    err = shared->port->boot_id(shared->port->ctx, h->boot);
    if (err != POSTBAG_OK)
        return postbag__fail(&db->fault, err, "the port has no boot id");
    h->inbox = (struct inbox_keep){.db = db,
        .shared = shared,
        .log = log,
        .boot = h->boot,
        .options = options->inbox};
    err = postbag__db_open(&h->own, db_path, DB_WRITE, DB_NORMAL, 0);
    if (err == POSTBAG_OK)
        err =
            postbag__query_i64(&h->own, "PRAGMA main.page_size", &h->page_size);
    if (err != POSTBAG_OK)
        return postbag__pass(&db->fault, &h->own.fault);
    if (!h->is_sound)
        err = postbag__db_open(&h->pins, db_path, DB_WRITE, DB_NORMAL, 0);
    if (err != POSTBAG_OK)
        return postbag__pass(&db->fault, &h->pins.fault);
    err = postbag__prepare(
        db, &h->counts, "SELECT sum(settled_rows) FROM main.outbox_cursor");
    return err == POSTBAG_OK ? postbag__room_open(&h->room, db, shared->port)
                             : err;
}

static void unpin(struct housekeeper *h)
{
    postbag__rollback(&h->pins);
    h->is_pinned = 0;
}

void postbag__housekeeper_close(struct housekeeper *h)
{
    const struct postbag_port *port;

    if (h->db == NULL)
        return;
    port = h->shared->port;
    postbag__finalize(&h->counts);
    postbag__room_close(&h->room);
    unpin(h);
    postbag__db_close(&h->pins);
    postbag__db_close(&h->own);
    if (h->lock != NULL)
        port->unlock_file(port->ctx, h->lock);
    h->lock = NULL;
    postbag__free(h->lock_path);
    h->lock_path = NULL;
}

void postbag__housekeeper_note_damage(struct housekeeper *h, int is_damaged)
{
    h->is_damaged = is_damaged;
}

void postbag__housekeeper_note_full(struct housekeeper *h)
{
    h->is_tight = 1;
}

/* ---- checkpoints ---- */

/* Keep a snapshot open: while it stands, no foreign checkpoint can finish on
 * this WAL, so none can be caught out by a reset. */
static int pin(struct housekeeper *h)
{
    int err;

    if (h->is_sound || h->is_pinned)
        return POSTBAG_OK;
    err = postbag__pin(&h->pins);
    h->is_pinned = err == POSTBAG_OK;
    return err;
}

static int run_checkpoint(struct housekeeper *h, int *left_out)
{
    int frames = 0;
    int done = 0;
    int err = postbag__checkpoint(&h->own, &frames, &done);

    *left_out = err == POSTBAG_OK ? frames - done : 0;
    return err;
}

/*
 * The write lock is held.  A checkpoint of somebody else that began before
 * the last reset still believes in the old WAL; the pin, taken when all was
 * copied, keeps it from copying anything.  A new pin, taken while frames are
 * left, would not.  So let go only once a checkpoint of ours shows that no
 * other is under way: one that begins after that sees the WAL as it is.
 */
static int move_pin(struct housekeeper *h)
{
    int left = 0;
    int err = run_checkpoint(h, &left);
    int pinned;

    for (int i = 1; i < CHECKPOINT_TRIES && err == POSTBAG_EBUSY; i++)
        err = run_checkpoint(h, &left);
    if (err != POSTBAG_OK)
        return err;
    unpin(h);
    if (left > 0)
        err = run_checkpoint(h, &left);
    pinned = pin(h);
    return err == POSTBAG_OK ? pinned : err;
}

/*
 * With the write lock in our hand no commit can reset the WAL, so this form
 * is sound on every version.  The lock is the engine connection's; the pin is
 * let go and taken again inside, so that it is never missing while others can
 * commit.
 */
static int locked_checkpoint(struct housekeeper *h)
{
    int err = postbag__gate_enter(h->shared, GATE_MS);

    if (err != POSTBAG_OK)
        return err;
    if (h->frames > 4 * (int64_t)h->options.checkpoint_frames)
        h->db->busy_ms = LOCK_WAIT_MS;
    err = postbag__begin(h->db, h->db->sync);
    h->db->busy_ms = 0;
    if (err == POSTBAG_OK) {
        err = move_pin(h);
        postbag__rollback(h->db);
    }
    postbag__gate_leave(h->shared);
    return err;
}

/* Fixed versions: copy while writers run; only if frames are left take the
 * lock for the rest, so that the WAL can start anew. */
static int two_step_checkpoint(struct housekeeper *h)
{
    int left = 0;
    int err = run_checkpoint(h, &left);

    if (err != POSTBAG_OK || left == 0)
        return err;
    return locked_checkpoint(h);
}

/* Enough frames, or no pin yet, which only a checkpoint can place, or no room
 * for more frames: those that are there can be used again when copied. */
static int is_due(const struct housekeeper *h)
{
    return h->frames >= (int64_t)h->options.checkpoint_frames ||
           (!h->is_sound && !h->is_pinned) || (h->is_tight && h->frames > 0);
}

/* The -shm file grows with the WAL, and must not meet a full disk; the first
 * of its pieces was made sure of at open.  Where there is no room it is done
 * again: all the more the WAL must be emptied. */
static void back_shm(struct housekeeper *h)
{
    int64_t frames = h->frames + (int64_t)2 * SHM_AHEAD_FRAMES;

    if (h->frames + SHM_AHEAD_FRAMES > h->shm_frames &&
        postbag__shm_back(h->db, h->shared->port, frames) == POSTBAG_OK)
        h->shm_frames = frames;
}

/* A WAL that grew while the disk was full gives its room back.  Sound with the
 * bug, too: it has the write lock before it looks, or else, beside the pin,
 * does nothing. */
static int shrink_wal(struct housekeeper *h)
{
    int64_t bytes = 0;
    int err = postbag__wal_bytes(&h->own, &bytes);

    if (err != POSTBAG_OK || !h->is_tight)
        return err;
    if (bytes >
        WAL_IS_LONG * (int64_t)h->options.checkpoint_frames * h->page_size) {
        err = postbag__gate_enter(h->shared, GATE_MS);
        if (err != POSTBAG_OK)
            return err;
        err = postbag__wal_truncate(&h->own);
        postbag__gate_leave(h->shared);
    }
    h->is_tight = err != POSTBAG_OK;
    return err;
}

static int checkpoint(struct housekeeper *h)
{
    int err = h->is_sound ? two_step_checkpoint(h) : locked_checkpoint(h);

    if (err == POSTBAG_ENOSPC)
        h->is_tight = 1;
    return err == POSTBAG_OK ? shrink_wal(h) : err;
}

static int see_wal(struct housekeeper *h)
{
    int err = postbag__wal_frames(h->db, &h->frames);

    if (err != POSTBAG_OK)
        return err;
    back_shm(h);
    return postbag__db_grow_ahead(&h->own, h->page_size);
}

/* What failed is due again in a while, not at once: so no step spins. */
static int look_at_wal(struct housekeeper *h, int64_t now_us)
{
    int err = see_wal(h);

    if (err == POSTBAG_OK) {
        if (now_us < h->checkpoint_us)
            return POSTBAG_OK;
        h->checkpoint_us = 0;
        if (!is_due(h))
            return POSTBAG_OK;
        err = checkpoint(h);
    }
    if (err == POSTBAG_EBUSY)
        h->checkpoint_us = now_us + RETRY_US;
    else if (err != POSTBAG_OK)
        h->checkpoint_us = now_us + TROUBLE_US;
    return err;
}

/* ---- what is free on the disk ---- */

static int guard_room(struct housekeeper *h, int64_t now_us)
{
    int err = postbag__room_guard_is_due(&h->room, now_us);

    if (err == 1) {
        err = postbag__gate_enter(h->shared, GATE_MS);
        if (err == POSTBAG_OK) {
            err = postbag__room_turn_guard(&h->room);
            postbag__gate_leave(h->shared);
        }
    }
    h->room_us = err != POSTBAG_OK || h->room.guard == 1 ? now_us + ROOM_US : 0;
    return err;
}

int postbag__housekeeper_shut(struct housekeeper *h)
{
    int err;

    if (h->lock == NULL)
        return POSTBAG_OK;
    postbag__inbox_keep_end(&h->inbox);
    err = postbag__gate_enter(h->shared, GATE_MS);
    if (err != POSTBAG_OK)
        return err;
    h->db->busy_ms = LOCK_WAIT_MS;
    err = postbag__room_drop_guard(&h->room);
    h->db->busy_ms = 0;
    postbag__gate_leave(h->shared);
    return err;
}

/* ---- purges ---- */

static int purge_some(struct housekeeper *h)
{
    struct moment now = postbag__moment_now(h->shared->port, h->boot);
    struct purge before = h->purge;
    int err = postbag__gate_enter(h->shared, GATE_MS);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__begin(h->db, DB_NORMAL);
    if (err == POSTBAG_OK) {
        err = postbag__purge(h->db, &h->purge, &now);
        if (err == POSTBAG_OK)
            err = postbag__commit(h->db);
        else
            postbag__rollback(h->db);
    }
    postbag__gate_leave(h->shared);
    if (err != POSTBAG_OK)
        h->purge = before;
    return err;
}

/* Other processes' relays settle rows, too.  A destination that is removed
 * takes its count along. */
static int count_settled(struct housekeeper *h)
{
    int64_t now;
    int err = postbag__row(&h->counts);

    if (err < 0)
        return err;
    now = postbag__col_i64(&h->counts, 0);
    postbag__reset(&h->counts);
    if (h->counted >= 0 && now > h->counted)
        h->settled += now - h->counted;
    h->counted = now;
    return POSTBAG_OK;
}

/* After each 256 settled rows one purge of as many, so that purging keeps up
 * under any load; with keep_s rows also become old without any news. */
static int purge_if_due(struct housekeeper *h, int64_t now_us)
{
    int err;

    if (h->is_damaged ||
        (h->settled < PURGE_ROWS && (h->purge_us == 0 || now_us < h->purge_us)))
        return POSTBAG_OK;
    err = purge_some(h);
    if (err != POSTBAG_OK) {
        h->purge_us = now_us + (err == POSTBAG_EBUSY ? RETRY_US : TROUBLE_US);
        h->is_tight |= err == POSTBAG_ENOSPC;
        return err;
    }
    h->settled =
        h->purge.more && h->settled > PURGE_ROWS ? h->settled - PURGE_ROWS : 0;
    h->purge_us = 0;
    if (h->purge.more)
        h->purge_us = now_us + RETRY_US;
    else if (h->purge.keep_ms != 0)
        h->purge_us = now_us + AGEING_US;
    return POSTBAG_OK;
}

/* ---- steps ---- */

static int contend(struct housekeeper *h, int64_t now_us)
{
    const struct postbag_port *port = h->shared->port;
    int err;

    if (now_us < h->look_us)
        return POSTBAG_OK;
    h->look_us = now_us + CONTEND_US;
    err = port->lock_file(port->ctx, h->lock_path, &h->lock);
    if (err == POSTBAG_OK) {
        h->purge_us = now_us;      /* what the last one left */
        h->checkpoint_us = now_us; /* place the pin */
        h->inbox.is_due = 1;
    }
    return err == POSTBAG_EBUSY ? POSTBAG_OK : err;
}

static int first_error(int a, int b)
{
    return a == POSTBAG_OK || a == POSTBAG_EBUSY ? b : a;
}

int postbag__housekeeper_step(
    struct housekeeper *h, int64_t now_us, int did_change)
{
    int err = POSTBAG_OK;

    if (h->lock == NULL)
        err = contend(h, now_us);
    if (err != POSTBAG_OK || h->lock == NULL)
        return err;
    if (did_change || h->is_tight || h->checkpoint_us != 0)
        err = look_at_wal(h, now_us);
    if (did_change || (h->room_us != 0 && now_us >= h->room_us))
        err = first_error(err, guard_room(h, now_us));
    if (did_change || h->counted < 0)
        err = first_error(err, count_settled(h));
    err = first_error(err, purge_if_due(h, now_us));
    err = first_error(
        err, postbag__inbox_keep_step(&h->inbox, now_us, did_change));
    return err == POSTBAG_EBUSY ? POSTBAG_OK : err;
}

int64_t postbag__housekeeper_deadline(const struct housekeeper *h)
{
    int64_t at = INT64_MAX;

    if (h->lock == NULL)
        return h->look_us;
    if (h->checkpoint_us != 0)
        at = h->checkpoint_us;
    if (h->purge_us != 0 && h->purge_us < at && !h->is_damaged)
        at = h->purge_us;
    if (h->room_us != 0 && h->room_us < at)
        at = h->room_us;
    if (postbag__inbox_keep_deadline(&h->inbox) < at)
        at = postbag__inbox_keep_deadline(&h->inbox);
    return at;
}
