/* SPDX-License-Identifier: MIT */
/*
 * Where the lives take place: one database file in a folder of the program's
 * own, put back to a known state before each trial.  What goes wrong here ends
 * the program.
 */
#ifndef POSTBAG_TORTURE_STAGE_H
#define POSTBAG_TORTURE_STAGE_H

#include <stddef.h>
#include <stdint.h>

struct sqlite3;
struct sim_port;
struct memdisk;

enum stage_base {
    STAGE_NONE,      /* no file */
    STAGE_BARE,      /* the application's own tables, in WAL mode */
    STAGE_FURNISHED, /* an outbox and an inbox in the middle of their life */
    STAGE_BASES
};

/* Before it is built: on a disk in memory (memdisk.h), whose calls can fail. */
void stage_use_memdisk(void);
struct memdisk *stage_disk(void);
/* The furnished database is made here, by the library. */
void stage_build(void);
/* The folder goes. */
void stage_strike(void);
/* As it was built, whoever wrote what since; nobody has it open. */
void stage_set(enum stage_base base);
const char *stage_path(void);
/* Of a second database, which is not there at first. */
const char *stage_other_path(void);
void stage_remove_other(void);
/* Is there a file that has something in it? */
int stage_exists(void);
/* A number of what is in the tables, but for names that luck or the file system
 * gave. */
uint64_t stage_print(struct sqlite3 *db);
/* A connection as an application makes it. */
struct sqlite3 *stage_connect(void);
struct sqlite3 *stage_connect_to(const char *name);
void stage_close(struct sqlite3 *db);
/* SQL that must succeed. */
void stage_run(struct sqlite3 *db, const char *sql);
/* The number that a query gives; -1 without a row. */
int64_t stage_get(struct sqlite3 *db, const char *sql);
/* A clock, a port. */
void stage_port(struct sim_port *port);

/* What the furnished database has: rows of the log up to this one are settled,
 * but for one that is held and one that is dead; as many wait behind it. */
enum { STAGE_SETTLED = 7, STAGE_HELD = 6, STAGE_DEAD = 4, STAGE_WAITING = 6 };

#endif
