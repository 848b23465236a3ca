/* SPDX-License-Identifier: MIT */
/* Floor 3.  The writer, as the engine and the worker see it. */
#ifndef POSTBAG_SRC_WRITER_H
#define POSTBAG_SRC_WRITER_H

#include "arena.h"
#include "db.h"
#include "gauge.h"
#include "schema.h"
#include "shared.h"

struct postbag_writer {
    struct db db;
    const struct postbag_port *port;
    struct shared *shared; /* NULL: no engine in this process */
    struct stmt insert;
    struct stmt begin, check_headers;
    struct gauge gauge;
    uint8_t boot[16];
    uint32_t begin_timeout_ms;
    int holds_gate;
    int64_t newest;           /* seq of the last put of this transaction */
    const char *reply_topics; /* where replies may go; NULL: none are given */
    void *result;             /* of the last claim; NULL: none */
    struct arena pulled;      /* the last command's texts */
};

/* Where a connection of ours is used (the worker's).  Takes no gate and
 * begins nothing by itself: the worker does.  handle is borrowed. */
POSTBAG_CHECK int postbag__writer_open(struct postbag_writer **out,
    struct sqlite3 *handle, const struct postbag_port *port,
    struct shared *shared, struct postbag_fault *why);

/* What an engine shares with writers; NULL for NULL.  In postbag.c. */
struct shared *postbag__engine_shared(struct postbag *p);

/* After a commit that put rows up to newest (0: none): note what is durable
 * and wake the relay. */
void postbag__writer_committed(struct postbag_writer *w, int is_full);

#endif
