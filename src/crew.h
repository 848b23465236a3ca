/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  The workers of an engine: one for all quick consumers, and one,
 * with its own connection and thread, for each that has a slow part, so that
 * it holds up its own commands only.
 *
 * All belongs to the thread that opened it, which also calls run_one; the
 * wakes ring by any thread.
 */
#ifndef POSTBAG_SRC_CREW_H
#define POSTBAG_SRC_CREW_H

#include "worker.h"

struct crew;

/* c->consumers: at least one, the slow ones last. */
POSTBAG_CHECK int postbag__crew_open(struct crew **out,
    const struct worker_config *c, struct postbag_fault *why);
/* Threads for all.  After an error stop those that did start. */
POSTBAG_CHECK int postbag__crew_start(struct crew *crew);
/* Returns when the handlers and slow parts that are running have returned.
 * Fine without threads, and for NULL. */
void postbag__crew_stop(struct crew *crew);
/* Without threads: as postbag__worker_run_one, of one after the other. */
POSTBAG_CHECK int postbag__crew_run_one(struct crew *crew, int *did_out);
/* One for each worker; borrowed until close. */
struct postbag_wake *const *postbag__crew_wakes(
    const struct crew *crew, size_t *count_out);
/* Without threads.  NULL is fine. */
void postbag__crew_close(struct crew *crew);

#endif
