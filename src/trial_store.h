/* SPDX-License-Identifier: MIT */
/* Floor 2.  SQL of the marks: which message may be what ends the process. */
#ifndef POSTBAG_SRC_TRIAL_STORE_H
#define POSTBAG_SRC_TRIAL_STORE_H

#include "held_store.h"
#include "lane.h"
#include "trial.h"

/* In the error of a suspect. */
#define TRIAL_TEXT \
    HELD_SUSPECT " the relay died 5 times with it in flight, 3 times alone"

struct trial_store {
    struct db *db;
    const char *dest; /* borrowed */
    struct stmt mark_lane, mark_held, deaths, end_lane, end_held;
};

POSTBAG_CHECK int postbag__trial_store_open(
    struct trial_store *s, struct db *db, const char *dest);
void postbag__trial_store_close(struct trial_store *s);

/* Open the marks after an end that was not orderly.  lanes: as loaded. */
POSTBAG_CHECK int postbag__trial_store_load(struct trial_store *s,
    const struct lane lanes[TRIAL_HELD], struct trial *t);
/* Deaths of a held row, 0 if it is gone; or an error. */
POSTBAG_CHECK int postbag__trial_store_deaths(
    struct trial_store *s, int64_t seq);

/* In a fenced transaction of the caller. */

/* Write what is owed.  later: when a suspect may be tried again. */
POSTBAG_CHECK int postbag__trial_store_save(
    struct trial_store *s, const struct trial *t, const struct due *later);
/* An orderly end: forget the marks, but for suspects, and lower each lane's
 * sent_hi to what was sent. */
POSTBAG_CHECK int postbag__trial_store_end(
    struct trial_store *s, const struct lane lanes[TRIAL_HELD]);

#endif
