/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Handles one command in one write transaction, on the worker's
 * thread and connection.
 */
#ifndef POSTBAG_SRC_HANDLING_H
#define POSTBAG_SRC_HANDLING_H

#include "arena.h"
#include "consumers.h"
#include "db.h"
#include "deferral.h"
#include "inbox_store.h"
#include "log.h"
#include "postbag/port.h"
#include "shared.h"

/* For the gate, and for SQLite's lock. */
enum { HANDLING_LOCK_WAIT_MS = 1000 };

struct handling {
    /* filled by the worker before open */
    const struct postbag_port *port;
    struct log log;
    uint32_t retry_base_ms;
    uint32_t retry_cap_ms;
    uint32_t max_attempts;
    const char *reply_topics; /* borrowed until close */
    int reply_dead;           /* the senders of dead commands are told */
    /* made by open */
    struct shared *shared;
    struct db db;
    struct inbox_store inbox;
    struct deferral deferral;
    struct postbag_writer *writer;
    uint8_t boot[16];
    struct arena slow; /* the command that a slow part is at */
    int has_turn;      /* at the gate */
    int denied;        /* a handler runs */
    uint32_t hindered; /* runs in a row that failed by no fault of theirs */
    int64_t charged;   /* row charged ahead whose run has no result; 0: none */
};

/* The error stands in h->db.fault; close in any case. */
POSTBAG_CHECK int postbag__handling_open(
    struct handling *h, const char *db_path, struct shared *shared);
void postbag__handling_close(struct handling *h);

/*
 * Handle the consumer's next command, if there still is one.
 * is_proven  of this consumer, zero at open: a command of its own that was
 *            never tried before has come back from its handler
 * did_out    1: a handler ran, or a command was given up before it
 * Returns OK; EBUSY, EIO, ENOSPC, ENOMEM, ECORRUPT: the command is as it was.
 */
POSTBAG_CHECK int postbag__handling_run(struct handling *h,
    const struct consumer *who, unsigned char *is_proven, int *did_out);

/* Let a command of the consumer go on that has waited for long enough. */
POSTBAG_CHECK int postbag__handling_end_wait(
    struct handling *h, const struct consumer *who);

struct inbox_now postbag__handling_now(const struct handling *h);
uint32_t postbag__handling_backoff_ms(
    const struct handling *h, int64_t failures, uint32_t base, uint32_t cap);

/* A turn at the gate; leave is fine without one. */
POSTBAG_CHECK int postbag__handling_enter(struct handling *h, uint32_t wait_ms);
void postbag__handling_leave(struct handling *h);

/* ---- handling_slow.c: outside any transaction ---- */

/*
 * Call the slow part for *row, which was chosen in the transaction that is
 * open.  That one ends, and the turn at the gate; when this returns there is
 * another of each, in which *row is chosen once more.
 * found_out 0: it is no longer due, or no longer the first of its key.
 * On an error no transaction is open.
 */
POSTBAG_CHECK int postbag__handling_slow(struct handling *h,
    const struct consumer *who, struct inbox_row *row,
    enum postbag_outcome *outcome_out, int *found_out);

/* ---- handling_trial.c: before the handler ---- */

/*
 * In the transaction in which *row was chosen.  If the row may be what ended
 * the process before, it is charged an attempt on disk, and chosen once more
 * in a new transaction.  found_out 0: somebody else finished it meanwhile.
 */
POSTBAG_CHECK int postbag__handling_charge(
    struct handling *h, struct inbox_row *row, int is_proven, int *found_out);
/* Take the charge back of a run that the storage left without a result.  No
 * transaction is open. */
POSTBAG_CHECK int postbag__handling_forgive(struct handling *h);
/* Why a row is given up before its handler is called. */
struct objection {
    const char *text;   /* of the row, or for ever */
    const char *status; /* for its sender */
};
/* Is this one?  1: *out says why. */
int postbag__handling_objects(const struct handling *h,
    const struct inbox_row *row, const struct inbox_now *at,
    struct objection *out);

#endif
