/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  One housekeeper per database: checkpoints and purges.
 *
 * Exactly one, held by a lock file, because SQLite before 3.51.3 (but for the
 * backports 3.50.7 and 3.44.6) has the WAL-reset bug: a checkpoint that begins
 * on a WAL which is wholly copied, in the instant in which a commit starts
 * the WAL anew, takes frames of the new WAL for copied ones.  DESIGN.md tells
 * how this file keeps that from happening, also beside connections of others
 * that checkpoint by themselves.
 */
#ifndef POSTBAG_SRC_HOUSEKEEPER_H
#define POSTBAG_SRC_HOUSEKEEPER_H

#include "db.h"
#include "inbox_keep.h"
#include "log.h"
#include "purge_store.h"
#include "room.h"
#include "shared.h"

struct housekeeper_options {
    uint32_t checkpoint_frames, keep_s, keep_rows;
    struct inbox_keep_options inbox;
};

struct housekeeper {
    struct db *db;  /* the engine's connection: takes the write lock */
    struct db own;  /* checkpoints */
    struct db pins; /* holds a read transaction: see pin */
    struct shared *shared;
    const struct log *log;
    struct housekeeper_options options;
    uint8_t boot[16];
    char *lock_path;
    struct postbag_lock *lock;
    int is_sound;       /* this SQLite has no WAL-reset bug */
    int is_pinned;      /* own holds a read transaction */
    int64_t frames;     /* in the WAL when last looked at */
    int64_t shm_frames; /* that the -shm file has room for */
    int64_t page_size;
    int is_damaged;  /* nothing is deleted: it might free what others use */
    int is_tight;    /* the disk was full, and no checkpoint has run since */
    int64_t look_us; /* contend for the lock, or look at the WAL again */
    int64_t checkpoint_us; /* not before, after a failure */
    int64_t purge_us;      /* purge again */
    struct stmt counts;    /* rows settled by all relays ... */
    int64_t counted;       /* ... when last looked at; -1: never */
    int64_t settled;       /* since the last purge */
    int64_t room_us;       /* look at what is free again; 0: at a change */
    struct room room;
    struct purge purge;
    struct inbox_keep inbox;
};

POSTBAG_CHECK int postbag__housekeeper_open(struct housekeeper *h,
    struct db *db, struct shared *shared, const struct log *log,
    const char *db_path, const struct housekeeper_options *options);
/* An orderly end: plain SQL that is refused for want of room is let in, since
 * nobody would see that there is some again.  After an error it waits for the
 * next one that keeps house. */
POSTBAG_CHECK int postbag__housekeeper_shut(struct housekeeper *h);
void postbag__housekeeper_close(struct housekeeper *h);

/* Is the database damaged?  Then it is left as it is, but for checkpoints. */
void postbag__housekeeper_note_damage(struct housekeeper *h, int is_damaged);
/* A write of the relay's found no room for the WAL. */
void postbag__housekeeper_note_full(struct housekeeper *h);
/* Do what is due.  did_change: the database was written since the last step.
 * EBUSY is no error: it tries again. */
POSTBAG_CHECK int postbag__housekeeper_step(
    struct housekeeper *h, int64_t now_us, int did_change);
int64_t postbag__housekeeper_deadline(const struct housekeeper *h);

#endif
