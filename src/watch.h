/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  Has another connection committed?
 *
 * In-process commits ring the wake.  Other processes are seen by the port's
 * watch on the -wal file, but that event is the write, and the commit becomes
 * visible only after its fsync, with no event of its own.  So after an event
 * PRAGMA data_version is read again and again, first after 0.2 ms, then at
 * doubling distances, until it moves or a second has passed.
 */
#ifndef POSTBAG_SRC_WATCH_H
#define POSTBAG_SRC_WATCH_H

#include "db.h"

struct watch {
    struct stmt version_pragma;
    int64_t version;
    int64_t poll_us; /* the safety net: look at least so often */
    int64_t next_us;
    int64_t until_us; /* the search after an event ends */
    int64_t step_us;
};

POSTBAG_CHECK int postbag__watch_open(
    struct watch *w, struct db *db, uint32_t poll_ms);
void postbag__watch_close(struct watch *w);
/* reasons: what ended the last wait (port.h).  *changed_out: 1 if another
 * connection committed since the last call. */
POSTBAG_CHECK int postbag__watch_step(
    struct watch *w, int64_t now_us, unsigned reasons, int *changed_out);
/* What was found could not be looked at: it is news again at at_us. */
void postbag__watch_forget(struct watch *w, int64_t at_us);
int64_t postbag__watch_deadline(const struct watch *w);

#endif
