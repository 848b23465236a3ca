/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Runs the handlers of commands, each in one write transaction
 * with the mark that its command is done.
 *
 * run_one belongs to one thread: the one of the loop, or the one that calls
 * postbag_work.  stop and wake are for any thread.
 */
#ifndef POSTBAG_SRC_WORKER_H
#define POSTBAG_SRC_WORKER_H

#include <stdint.h>

#include "consumers.h"
#include "log.h"
#include "postbag/port.h"
#include "shared.h"

struct worker;

struct worker_config {
    const char *db_path;
    const struct postbag_port *port; /* borrowed until close */
    struct log log;
    const struct consumers *consumers; /* borrowed until close */
    struct shared *shared;             /* borrowed until close; may be NULL */
    uint32_t retry_base_ms;
    uint32_t retry_cap_ms;
    uint32_t max_attempts;
    const char *reply_topics; /* copied; NULL or "": no replies */
    uint32_t reply_dead;      /* 1: also to commands that become dead */
};

POSTBAG_CHECK int postbag__worker_open(struct worker **out,
    const struct worker_config *c, struct postbag_fault *why);

/*
 * Handle one command if one is due.
 * did_out       1: a handler ran
 * next_us_out   when to look again at the latest, in the port's mono_us
 * Returns OK; EBUSY, EIO, ENOSPC, ENOMEM, ECORRUPT: the command, if any, is as
 * it was, and until *next_us_out every call does nothing.
 */
POSTBAG_CHECK int postbag__worker_run_one(
    struct worker *w, int *did_out, int64_t *next_us_out);

/* The thread's function: run what is due, sleep, until told to stop. */
void postbag__worker_loop(void *worker);
/* Ends one run of the loop, after the handler that is running. */
void postbag__worker_stop(struct worker *w);
/* Rings when there may be work. */
struct postbag_wake *postbag__worker_wake(struct worker *w);
/* What the last failed run_one ran into; its thread only. */
const struct postbag_fault *postbag__worker_fault(const struct worker *w);
/* Not while the loop runs.  NULL is fine. */
void postbag__worker_close(struct worker *w);

#endif
