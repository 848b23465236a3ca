/* SPDX-License-Identifier: MIT */
/*
 * What the demo's checker holds against what it received: the id of each
 * message, written in the transaction that queues it.  For the demo only; a
 * firmware needs no such table.
 */
#ifndef DEMO_LEDGER_H
#define DEMO_LEDGER_H

#include <sqlite3.h>

#include "postbag/postbag.h"

#define LEDGER_TABLE \
    "CREATE TABLE IF NOT EXISTS ledger(" \
    " id BLOB NOT NULL, kind TEXT NOT NULL, put_us INTEGER NOT NULL) STRICT;"

/* In the open transaction of the connection. */
int ledger_add(sqlite3 *db, const struct postbag_id *id, const char *kind);

/* The monotonic clock, also that of the checker. */
int64_t ledger_now_us(void);

#endif
