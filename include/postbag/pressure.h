/* SPDX-License-Identifier: MIT */
/* How full the outbox is, for producers: measured against the options max_rows,
 * max_bytes and min_free_bytes (options.h). */
#ifndef POSTBAG_PRESSURE_H
#define POSTBAG_PRESSURE_H

#include "postbag/postbag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How full the outbox is.  Fills are per mille, rounded down; 0 without a
 * limit.  Those of rows and bytes are of what priority 0 may take of the limit,
 * which is all but an eighth: below 1000 every put is taken; from there on only
 * those of higher priorities, while rows < max_rows and bytes < max_bytes. */
struct postbag_pressure {
    size_t struct_size;
    int64_t rows;      /* that wait for the slowest destination; delivered, held
                     and dead messages do not count */
    int64_t bytes;     /* topics and payloads of these */
    int64_t max_rows;  /* as the database has it; 0: no limit */
    int64_t max_bytes; /* likewise */
    int64_t rows_fill;
    int64_t bytes_fill;
    int64_t oldest_age_ms; /* of the oldest that waits; 0: none does.  By the
                     time since boot, or the wall clock across boots */
    /* bytes that can still be taken: free on the file system, for a process
       without privileges, and in free pages of the database; -1: the port
       cannot tell */
    int64_t free_bytes;
    int64_t size_bytes;     /* of the file system */
    int64_t min_free_bytes; /* as the database has it */
    int64_t free_fill;      /* min_free_bytes of free_bytes: 500 while twice as
                     much is free as must be */
};

/**
 * How full is the outbox?  So that you can shed or thin out what you measure
 * before puts are refused.  Costs about as much as a put, at any backlog; on
 * the connection, in or outside a transaction, with your own puts counted.
 * @param out  struct_size is yours to set; the rest is filled, from the tables
 * @return POSTBAG_OK, EINVAL (out is NULL), EVERSION, EBUSY, EIO, ENOSPC,
 *         ENOMEM, ECORRUPT
 * Thread: the connection's.  Blocks: on SQLite only.
 */
POSTBAG_API POSTBAG_CHECK int postbag_pressure(
    struct postbag_writer *w, struct postbag_pressure *out);

/*
 * Levels for struct postbag_config, on_pressure: percent of the fullest of
 * rows, bytes and free room.  Told when the fill reaches one, and when it has
 * fallen 5 % below it.
 */
enum postbag_pressure_level {
    POSTBAG_PRESSURE_NONE = 0,
    POSTBAG_PRESSURE_HALF = 50,
    POSTBAG_PRESSURE_HIGH = 80,
    POSTBAG_PRESSURE_CRITICAL = 95,
    POSTBAG_PRESSURE_FULL = 100 /* puts are refused, the urgent ones later */
};

#ifdef __cplusplus
}
#endif

#endif
