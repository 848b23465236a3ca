/* SPDX-License-Identifier: MIT */
/* Floor 2.  The table of held rows: its indexes, and how it is counted. */
#ifndef POSTBAG_SRC_SCHEMA_HELD_H
#define POSTBAG_SRC_SCHEMA_HELD_H

#include "db.h"

/* In the transaction that creates the tables, after outbox_cursor. */
POSTBAG_CHECK int postbag__schema_create_held(struct db *db);

#endif
