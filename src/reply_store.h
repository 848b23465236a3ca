/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  What a command was answered with, kept in its row of the inbox:
 * the payload in result, all else of the message in reply.  In a transaction
 * of the caller; one thread at a time, the connection's.
 */
#ifndef POSTBAG_SRC_REPLY_STORE_H
#define POSTBAG_SRC_REPLY_STORE_H

#include "db.h"
#include "inbox_store.h"

/* One that was found.  What message points to is borrowed until release. */
struct kept_reply {
    struct stmt row;
    struct postbag_id id;
    struct postbag_message message; /* without a topic */
};

/*
 * Keep m, without its topic, in the row of that number; nothing happens if
 * there is none.  The last one is kept.  One over POSTBAG_RESULT_MAX is not,
 * nor is an earlier one then, which would be another answer.
 */
POSTBAG_CHECK int postbag__reply_keep(struct db *db, int64_t arrival,
    const struct postbag_message *m, const struct postbag_id *id);

/* What a reply to the command of that number takes from it.  found_out 0: it
 * asks for none; 1: *out is borrowed until row is finalized. */
POSTBAG_CHECK int postbag__reply_asked(struct db *db, int64_t arrival,
    struct stmt *row, struct postbag_command *out, int *found_out);

/* That of the command, if it is done.  found_out 1: release it. */
POSTBAG_CHECK int postbag__reply_find(struct db *db,
    const struct inbox_arrival *a, struct kept_reply *out, int *found_out);
void postbag__reply_release(struct kept_reply *r);

#endif
