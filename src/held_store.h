/* SPDX-License-Identifier: MIT */
/* Floor 2.  SQL of outbox_held: rows that could not simply be settled. */
#ifndef POSTBAG_SRC_HELD_STORE_H
#define POSTBAG_SRC_HELD_STORE_H

#include "lost_store.h"
#include "row.h"

struct held_store {
    struct db *db;
    const char *dest;        /* borrowed */
    struct lost_store *lost; /* of the same destination; borrowed */
    struct stmt hold, exists, before, is_refused, due, next_due, fetch, again,
        postpone, is_suspect, was_turned_down, bury, remove, release,
        oldest_dead, has_old_plans, plan_anew, next_revival, revive,
        count_delivered, count_dropped, stats;
};

/* When a row may be tried again: CLOCK_BOOTTIME ms of one boot.  In another
 * boot it is due at once. */
struct due {
    const uint8_t *boot; /* 16 bytes */
    int64_t ms;
    int64_t furthest_ms; /* of a now: what is later has come, see moment.h */
};

struct held_stats {
    int64_t newest; /* highest seq held; 0: none */
    int64_t live;   /* rows that are not dead: retry or behind */
    int64_t live_bytes;
    int64_t dead;
    int64_t dead_bytes;
};

POSTBAG_CHECK int postbag__held_open(
    struct held_store *h, struct db *db, struct lost_store *lost);
void postbag__held_close(struct held_store *h);

POSTBAG_CHECK int postbag__held_stats(
    struct held_store *h, struct held_stats *out);
/* 1, 0 or an error. */
POSTBAG_CHECK int postbag__held_exists(struct held_store *h, int64_t seq);
/* How many retry and behind rows of this row's key and lane precede it in the
 * log?  No more than `most`, or an error. */
POSTBAG_CHECK int postbag__held_before(
    struct held_store *h, int64_t seq, uint32_t most);

/* Has one of those an error?  1, 0 or an error of ours. */
POSTBAG_CHECK int postbag__held_is_refused(struct held_store *h, int64_t seq);

/* The error of a suspect begins so; and goes on so if the link died of it. */
#define HELD_SUSPECT "suspect:"
POSTBAG_CHECK int postbag__held_is_suspect(struct held_store *h, int64_t seq);

/* Was its last refusal one that need not mean it (0x97, 0x91)? */
POSTBAG_CHECK int postbag__held_was_turned_down(
    struct held_store *h, int64_t seq);

/* Most bytes of an error.  Whatever it is made of, it is kept printable. */
enum { HELD_ERROR_MAX = 200 };

/* All below: in a fenced transaction of the caller. */

struct hold {
    const char *state; /* "retry", "behind" or "dead"; "retry" is kept as
                          "behind" where an older row of its key waits */
    int attempts;
    const struct due *due; /* NULL: not by the clock */
    const char *error;
    int deaths; /* of the process, with it in flight; see trial.h */
};

/* Copy a row of the log. */
POSTBAG_CHECK int postbag__held_hold(struct held_store *h, int64_t seq,
    const struct hold *hold, int64_t wall_ms);
typedef int held_planner(struct held_store *h, int64_t seq,
    const struct due *due, const char *error);
/* Charge another attempt.  It was answered, so it ended no process. */
POSTBAG_CHECK held_planner postbag__held_again;
/* The same without the charge; error NULL: as it is. */
POSTBAG_CHECK held_planner postbag__held_postpone;

/* These end a row's wait: the oldest behind it is due now.  They do nothing
 * where an operator has removed the row. */
/* again: when it comes back by itself, but only once; NULL: never. */
POSTBAG_CHECK int postbag__held_bury(struct held_store *h, int64_t seq,
    const char *error, int64_t wall_ms, const struct due *again);
/* Delivered: remove the row, count it; outbox_late has when, if outbox_acks
 * has when the cursor passed it. */
POSTBAG_CHECK int postbag__held_deliver(
    struct held_store *h, int64_t seq, int64_t wall_ms);
/* Dropped: remove the row, count it, record it in outbox_lost. */
POSTBAG_CHECK int postbag__held_drop(
    struct held_store *h, int64_t seq, const char *reason, int64_t wall_ms);

/* Drop the oldest dead ones of those that the
 * cursor has passed, at most 256, until so much is left.  Returns how many, or
 * an error. */
POSTBAG_CHECK int postbag__held_trim_dead(struct held_store *h,
    uint32_t max_rows, uint32_t max_bytes, int64_t wall_ms);

/* Are dead rows planned by the clock of another boot, or for later than one
 * that dies now?  1, 0 or an error. */
POSTBAG_CHECK int postbag__held_has_old_plans(
    struct held_store *h, const struct due *due);
POSTBAG_CHECK int postbag__held_plan_anew(
    struct held_store *h, const struct due *due);
/* When the next dead row comes back, in ms of this boot; INT64_MAX: none. */
POSTBAG_CHECK int postbag__held_next_revival(struct held_store *h, int64_t *ms);
/* The dead whose time has come, no more than `most`, are retry rows again. */
POSTBAG_CHECK int postbag__held_revive(
    struct held_store *h, int64_t now_ms, int64_t most, int64_t *count_out);

/* One of the rows of a lane that are due, after `skip` others of them: 1 and
 * the row, 0, or an error. */
POSTBAG_CHECK int postbag__held_due(struct held_store *h, int lane,
    int64_t skip, const struct due *now, struct arena *arena, struct row *out);
/* When the next row is due, in ms of this boot; INT64_MAX: none. */
POSTBAG_CHECK int postbag__held_next_due(
    struct held_store *h, const struct due *now, int64_t *out);
/* A held row by seq: attempts and key.  1, 0 or an error. */
POSTBAG_CHECK int postbag__held_fetch(struct held_store *h, int64_t seq,
    struct arena *arena, struct row *out, int *attempts_out);

#endif
