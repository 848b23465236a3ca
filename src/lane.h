/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  One lane's look-ahead: the rows between the cursor and the newest
 * one looked at, in commit order.
 *
 *      acked                                   scanned
 *        |  SETTLED?  FLYING  READY  FLYING ... |
 *        +--head-------------------------tail---+
 *
 * The head is never SETTLED: a settled prefix leaves at once and moves acked.
 * Everything is in RAM; the sender saves acked and the counters when due.
 */
#ifndef POSTBAG_SRC_LANE_H
#define POSTBAG_SRC_LANE_H

#include <stdint.h>

#include "postbag/postbag.h"

/* As many as there are priorities. */
enum { POSTBAG__LANES = 4 };
/* Ranges of replaced rows that are told apart, between two saves. */
enum { POSTBAG__LANE_RANGES = 16 };
enum entry_state { ENTRY_READY, ENTRY_FLYING, ENTRY_SETTLED };
/* How a row was settled. */
enum outcome {
    OUTCOME_DELIVERED,
    OUTCOME_PASSED,
    OUTCOME_HELD,
    OUTCOME_EXPIRED,
    OUTCOME_DAMAGED,  /* it cannot be sent, and not be kept either */
    OUTCOME_REPLACED, /* by a newer one of its coalesce */
    OUTCOME_GONE      /* from the log: whoever deleted it has counted it */
};

struct entry {
    int64_t seq;
    uint32_t bytes; /* topic and payload */
    uint32_t key;   /* hash of its key, not 0; 0: no key */
    uint8_t state;
    unsigned outcome : 7;
    unsigned coalesces : 1; /* and so may be replaced by a newer row */
    uint8_t turned_down;    /* so often, others being taken in between */
    uint32_t taken_then;    /* how many had been, at the last time */
};

/* Rows that were dropped one after the other; n is 0: none. */
struct lost {
    int64_t lo, hi, n, bytes;
    int is_replay; /* they were delivered before: no entry may name them */
};

/* What passed the cursor since the last save. */
struct lane_gain {
    int64_t rows, bytes, delivered, passed, dropped;
    struct lost expired; /* or damaged: one of both between two saves */
    int is_damage;
    /* in the last all that come after, with others between them */
    struct lost replaced[POSTBAG__LANE_RANGES];
};

struct lane {
    struct entry *ring;
    uint32_t size, head, count;
    int64_t acked;   /* every row of this lane up to here is settled */
    int64_t saved;   /* what the database says of acked */
    int64_t sent_hi; /* what the database allows to be sent */
    int64_t begun;   /* up to here rows may have been sent, or settled in RAM */
    int64_t scanned; /* rows up to here were looked at */
    struct lane_gain gain;
};

POSTBAG_CHECK int postbag__lane_init(struct lane *l, uint32_t size);
void postbag__lane_free(struct lane *l);
/* Start again behind acked, as the database has it. */
void postbag__lane_restart(struct lane *l, int64_t acked, int64_t sent_hi);
int postbag__lane_is_full(const struct lane *l);
/* Add a row behind the others; the ring must not be full. */
struct entry *postbag__lane_push(
    struct lane *l, int64_t seq, uint32_t bytes, uint32_t key);
/* The i-th entry from the head, i < count. */
struct entry *postbag__lane_at(struct lane *l, uint32_t i);
/* Is one of the entries before the i-th of its key, and not settled? */
int postbag__lane_has_older(struct lane *l, uint32_t i);
/* Does one that is not settled wait in the ring for this one's key? */
int postbag__lane_has_follower(struct lane *l, const struct entry *e);
/* NULL if the row is not in the ring. */
struct entry *postbag__lane_find(struct lane *l, int64_t seq);
/* The oldest that is not settled, if a later one was delivered; or NULL. */
struct entry *postbag__lane_overtaken(struct lane *l);
/* Settle an entry; moves acked over the settled prefix. */
void postbag__lane_settle(
    struct lane *l, struct entry *e, enum outcome outcome);
/* May this row be dropped now, by what can be recorded?  It is the oldest that
 * is not settled, and the last dropped one since the save stands right before
 * it, for the same reason.  0: later.  -1: after a save. */
int postbag__lane_can_drop(
    struct lane *l, const struct entry *e, int is_damage);
/* Nothing is in flight any more: FLYING becomes READY. */
void postbag__lane_release(struct lane *l);
/* All rows up to seq were looked at; an empty lane's cursor moves there. */
void postbag__lane_scanned_to(struct lane *l, int64_t seq);

#endif
