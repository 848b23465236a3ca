/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  The database does not take what the relay must write, so sending
 * stops sooner or later: since when, why, and when it is time to say so.  That
 * is after a while, since others lock the database with every commit, and on a
 * full disk one write in two may find room.  Pure.
 */
#ifndef POSTBAG_SRC_STANDSTILL_H
#define POSTBAG_SRC_STANDSTILL_H

#include <stdint.h>

struct standstill {
    int err; /* of the last write; POSTBAG_OK: there is none */
    int is_told;
    int64_t since_us;
    int64_t quiet_us; /* not told again before */
};

enum standstill_news { STANDSTILL_SAME, STANDSTILL_BEGAN, STANDSTILL_OVER };

/* After each step.  err: what it came to; wrote: it committed something.
 * Another error than of writing changes nothing. */
enum standstill_news postbag__standstill_note(
    struct standstill *s, int64_t now_us, int err, int wrote);

/* "locked", "full" or "failing" once that was told; else "". */
const char *postbag__standstill_name(const struct standstill *s);

#endif
