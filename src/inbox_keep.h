/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  The part of the housekeeper that keeps the inbox within its bounds,
 * some rows at a time.
 */
#ifndef POSTBAG_SRC_INBOX_KEEP_H
#define POSTBAG_SRC_INBOX_KEEP_H

#include "db.h"
#include "inbox_purge.h"
#include "log.h"
#include "shared.h"

struct inbox_keep_options {
    uint32_t keep_s, done_max_rows, dead_max_rows;
};

struct inbox_keep {
    struct db *db;
    struct shared *shared;
    const struct log *log;
    const uint8_t *boot;
    struct inbox_keep_options options;
    int64_t next_us; /* do not look before */
    int is_due;      /* written since the last look, or out of its bounds */
    struct inbox_sweep sweep;
    int has_told;     /* that done commands are too many */
    int64_t given_up; /* dead ones; not told yet ... */
    int64_t tell_us;  /* ... nor before */
};

/* Do what is due, in transactions of its own.  did_change: the database was
 * written since the last step.  EBUSY: it tries again. */
POSTBAG_CHECK int postbag__inbox_keep_step(
    struct inbox_keep *k, int64_t now_us, int did_change);
int64_t postbag__inbox_keep_deadline(const struct inbox_keep *k);
/* Say what is not told yet. */
void postbag__inbox_keep_end(struct inbox_keep *k);

#endif
