/* SPDX-License-Identifier: MIT */
/*
 * What a bystander reads in the database after each step, on a connection of
 * its own that writes nothing.
 */
#ifndef POSTBAG_SIM_LOOK_H
#define POSTBAG_SIM_LOOK_H

#include <stddef.h>
#include <stdint.h>

struct sqlite3;
struct sqlite3_stmt;
struct world;

enum {
    LOOK_CURSORS,
    LOOK_DEST,
    LOOK_NEW,
    LOOK_HELD,
    LOOK_LOST,
    LOOK_INBOX,
    LOOK_EFFECTS,
    LOOK_STORY,
    LOOK_LOG,
    LOOK_VERSION,
    LOOK_HELD_ROW,
    LOOK_INTEGRITY,
    LOOK_STATEMENTS
};

struct lane_seen {
    int64_t acked, sent_hi, settled, delivered, dropped, passed, replayed;
    int64_t held_rows, dead_rows;
};

struct look {
    struct sqlite3 *db;
    struct sqlite3_stmt *statements[LOOK_STATEMENTS];
    int64_t version;
    int is_fresh;   /* read anew, by the last look */
    int has_moved;  /* somebody has committed since the look before */
    int first_told; /* transactions below were not asked for */
    uint8_t boot;   /* of the look before */
    int64_t newest;
    struct lane_seen lanes[4];
    int64_t epoch, lease_until;
    int has_owner, owner_is_of_boot;
    uint64_t cursor_print;
    int64_t held, dead;   /* rows of outbox_held */
    int64_t held_settled; /* of them behind the cursor */
    int64_t lost_ttl, lost_limit, lost_coalesced, lost_other, lost;
    int64_t oldest, waiting; /* of the log: first seq, rows above cursors */
    int64_t inbox_open, inbox_done, inbox_dead;
};

/* Read what has changed; is_full: also all that does not change by itself. */
void look_again(struct world *w, int is_full);
void look_close(struct world *w);
/* 'r', 'b', 'd', 's' of outbox_held, 0: it is not there. */
char look_state(struct world *w, int64_t seq, int64_t *due_ms, int *is_of_boot);

/* Of the destination, now. */
int64_t look_epoch(struct world *w);
/* 1: something is wrong with the file. */
int look_integrity(struct world *w, char *out, size_t size);

#endif
