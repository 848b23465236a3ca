/* SPDX-License-Identifier: MIT */
/* What stands in the databases of the stage. */
#ifndef POSTBAG_TORTURE_FURNISH_H
#define POSTBAG_TORTURE_FURNISH_H

struct sqlite3;

/* The application's tables: state(n), one row, and effect(what). */
void furnish_bare(struct sqlite3 *db);
/* ... with an outbox and an inbox in which there is something of each kind:
 * settled, dead, held and waiting messages, two destinations, commands that are
 * due, done and dead. */
void furnish_all(struct sqlite3 *db);

#endif
