/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  How long to wait for a PUBACK.  The time counts from the last
 * progress: a PUBACK, a first send, or bytes that the peer's kernel took, for
 * a large message on a slow link is no fault.  Bytes are compared twice in a
 * wait, at half of it and at its end, so that a broker that went silent is
 * noticed at the end of it all the same.  Pure.
 */
#ifndef POSTBAG_SRC_PATIENCE_H
#define POSTBAG_SRC_PATIENCE_H

#include <stdint.h>

struct patience {
    int64_t since_us; /* of the last progress */
    int is_half_seen; /* half of the wait has passed, and was looked at */
    int was_moving;   /* then bytes waited for the peer's kernel */
    uint64_t taken;   /* and it had taken so many */
};

/*
 * One message may be passed over while others are answered all the time.
 * Twice a look, so far apart as the wait is long: does the oldest in flight
 * stand before what was answered at the look before?
 */
struct overtaking {
    int64_t look_us;   /* next look */
    uint64_t answered; /* the last answered send at the last one */
};

/* A new connection. */
void postbag__overtaking_restart(
    struct overtaking *o, int64_t now_us, int64_t wait_us);
/* Is it time to look, so that it is worth to find out what is oldest? */
int postbag__overtaking_is_due(const struct overtaking *o, int64_t now_us);
/* Look.  1: enough.  Sends are counted from 1; oldest 0: none is in flight. */
int postbag__overtaking_look(struct overtaking *o, int64_t now_us,
    int64_t wait_us, uint64_t oldest, uint64_t answered);

/* Progress. */
void postbag__patience_restart(struct patience *p, int64_t now_us);
/* When to look again. */
int64_t postbag__patience_deadline(const struct patience *p, int64_t wait_us);
/* Is it over?  Not to be asked before the deadline: it costs a system call to
 * learn what it is told.  taken: bytes that the peer's kernel has taken, while
 * some still wait; NULL if none do. */
int postbag__patience_is_over(
    struct patience *p, int64_t now_us, int64_t wait_us, const uint64_t *taken);

#endif
