/* SPDX-License-Identifier: MIT */
/* Floor 2.  SQL of the log and its cursors, and nothing else. */
#ifndef POSTBAG_SRC_OUTBOX_STORE_H
#define POSTBAG_SRC_OUTBOX_STORE_H

#include "lane.h"
#include "row.h"

struct outbox_store {
    struct db *db;
    const char *dest; /* borrowed */
    struct stmt scan_bulk, scan_urgent, fetch, newest, save, release, note_ack;
};

/* A row as the scan sees it. */
struct scanned {
    int64_t seq;
    uint32_t bytes;
    uint32_t key; /* hash, as in struct entry; of coalesce, without a key */
    int is_ours;  /* addressed to this destination, or to all */
    int coalesces;
};

POSTBAG_CHECK int postbag__outbox_open(
    struct outbox_store *o, struct db *db, const char *dest);
void postbag__outbox_close(struct outbox_store *o);

/* Newest seq ever given; 0 for none. */
POSTBAG_CHECK int postbag__outbox_newest(struct outbox_store *o, int64_t *out);
/* Rows of a lane behind seq `after`, in order, at most `limit`: begin, then
 * next until it returns 0; negative is an error.  After 0 or an error the
 * statement is reset; a caller that stops early calls scan_end. */
void postbag__outbox_scan(
    struct outbox_store *o, int lane, int64_t after, uint32_t limit);
POSTBAG_CHECK int postbag__outbox_scan_next(
    struct outbox_store *o, int lane, struct scanned *out);
void postbag__outbox_scan_end(struct outbox_store *o, int lane);
/* The whole row: OK, ENOTFOUND, or an error. */
POSTBAG_CHECK int postbag__outbox_fetch(
    struct outbox_store *o, int64_t seq, struct arena *arena, struct row *out);
/* Read the four cursors into the lanes, which start again there. */
POSTBAG_CHECK int postbag__outbox_load(
    struct outbox_store *o, struct lane lanes[POSTBAG__LANES]);
/* Write one lane's cursor, reservation and gains.  In a fenced transaction.
 * EFENCED if the cursor in the database is ahead of ours. */
POSTBAG_CHECK int postbag__outbox_save(
    struct outbox_store *o, int lane, const struct lane *l, int64_t sent_hi);
/* Rows above `begun` were not sent: take the reservation back to there. */
POSTBAG_CHECK int postbag__outbox_release(
    struct outbox_store *o, int lane, int64_t begun);
/* Remember when the cursor moved: published_at of kept rows. */
POSTBAG_CHECK int postbag__outbox_note_ack(
    struct outbox_store *o, int lane, int64_t upto, const struct moment *now);

#endif
