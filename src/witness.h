/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Is this the database that the last relay left here?  An older copy
 * is consistent in itself: it is seen only by what stands outside, the file
 * <db>-witness, and by the machine and the file that the database was on.
 * What is seen gets a new stream id, so that no number of the attribute
 * `sequence` means two messages; nothing else changes.  Engine thread.
 */
#ifndef POSTBAG_SRC_WITNESS_H
#define POSTBAG_SRC_WITNESS_H

#include "db.h"
#include "log.h"
#include "postbag/port.h"
#include "witness_note.h"

struct file_witness {
    struct db *db;
    const struct postbag_port *port;
    const struct log *log;
    char *path; /* NULL: off, the port cannot do it */
    struct witness_note here;
    int64_t next_us; /* do not write it before */
    int is_silent;   /* told that it cannot be written */
};

/* Compare, and give the database a new stream id if need be.  Before anything
 * reads that id.  A witness that cannot be read is none. */
POSTBAG_CHECK int postbag__witness_open(struct file_witness *w, struct db *db,
    const struct postbag_port *port, const struct log *log);
void postbag__witness_close(struct file_witness *w);

/* By the owner of a destination: note how far the log is, when it moved, but
 * not often (force: now), since what is noted must be on disk. */
void postbag__witness_step(
    struct file_witness *w, int64_t now_us, int64_t newest, int force);

#endif
