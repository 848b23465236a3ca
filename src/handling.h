/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Handles one command in one write transaction, on the worker's
 * thread and connection.
 */
#ifndef POSTBAG_SRC_HANDLING_H
#define POSTBAG_SRC_HANDLING_H

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
    /* made by open */
    struct shared *shared;
    struct db db;
    struct inbox_store inbox;
    struct deferral deferral;
    struct postbag_writer *writer;
    uint8_t boot[16];
    int denied;        /* a handler runs */
    uint32_t hindered; /* runs in a row that failed by no fault of theirs */
};

/* The error stands in h->db.fault; close in any case. */
POSTBAG_CHECK int postbag__handling_open(struct handling *h,
    const char *db_path, struct shared *shared,
    const struct order_rules *order);
void postbag__handling_close(struct handling *h);

/*
 * Handle the consumer's next command, if there still is one.
 * did_out  1: a handler ran
 * Returns OK; EBUSY, EIO, ENOSPC, ENOMEM, ECORRUPT: the command is as it was.
 */
POSTBAG_CHECK int postbag__handling_run(
    struct handling *h, const struct consumer *who, int *did_out);

/* Let a command of the consumer go on that has waited for long enough. */
POSTBAG_CHECK int postbag__handling_end_wait(
    struct handling *h, const struct consumer *who);

struct inbox_now postbag__handling_now(const struct handling *h);
uint32_t postbag__handling_backoff_ms(
    const struct handling *h, int64_t failures, uint32_t base, uint32_t cap);

#endif
