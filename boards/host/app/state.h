/* SPDX-License-Identifier: MIT */
/*
 * The firmware's own state, in the file that also holds the outbox: what each
 * sensor said last, and settings that commands change.  A reading changes its
 * row and queues its message in one transaction.
 *
 * One connection, of the main thread.
 */
#ifndef DEMO_STATE_H
#define DEMO_STATE_H

#include <sqlite3.h>

#include "postbag/postbag.h"
#include "sensors.h"

struct state {
    sqlite3 *db;
    struct postbag_writer *writer;
    sqlite3_stmt *update;
    sqlite3_stmt *alarm;
    sqlite3_stmt *interval;
};

/* *s starts as zeros.  After a failure, too: state_close.
   engine: made the outbox in the file, and is woken by our commits. */
int state_open(struct state *s, const char *path, struct postbag *engine);
void state_close(struct state *s);

/* POSTBAG_OK: on disk and queued.  EIO: perhaps, the storage is failing.
   Else: neither. */
int state_record(struct state *s, const struct sensor *sensor, double value);

/* Milliseconds between two readings, as the last command said. */
int state_interval_ms(struct state *s, int *out);

#endif
