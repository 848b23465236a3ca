/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Tells the application when the outbox passes a level of fullness.
 * Without a callback it does nothing at all.
 */
#ifndef POSTBAG_SRC_ALARM_H
#define POSTBAG_SRC_ALARM_H

#include "gauge.h"

struct alarm {
    const struct postbag_config *config;
    struct gauge gauge;
    int level;
    int is_due;      /* the database changed since the last look */
    int64_t next_us; /* not before */
};

/* All are borrowed until close; also after a failure. */
POSTBAG_CHECK int postbag__alarm_open(
    struct alarm *a, struct db *db, const struct postbag_config *config);
void postbag__alarm_close(struct alarm *a);

/* No transaction is open.  did_change: the database was written since the last
 * step. */
POSTBAG_CHECK int postbag__alarm_step(
    struct alarm *a, int64_t now_us, int did_change);
int64_t postbag__alarm_deadline(const struct alarm *a);

#endif
