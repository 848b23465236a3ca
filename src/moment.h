/* SPDX-License-Identifier: MIT */
/* Floor 0.  What the clocks say at one moment. */
#ifndef POSTBAG_SRC_MOMENT_H
#define POSTBAG_SRC_MOMENT_H

#include <stdint.h>

/* 2024-01-01: a wall clock before it was never set. */
#define POSTBAG__CLOCK_IS_SET_MS INT64_C(1704067200000)

struct postbag_port;

struct moment {
    int64_t wall_ms;
    int64_t mono_ms;  /* CLOCK_BOOTTIME; 0: not noted */
    uint8_t boot[16]; /* in which mono_ms counts */
};

/* What they say now; `_at`: mono_us was read before, as now_us.  `boot` is the
 * port's boot_id. */
struct moment postbag__moment_now(
    const struct postbag_port *port, const uint8_t boot[16]);
struct moment postbag__moment_at(
    const struct postbag_port *port, const uint8_t boot[16], int64_t now_us);

/* The wall clock at `then`, put right by what is known now: if it was not set
 * then, it was as much earlier as CLOCK_BOOTTIME says, in the same boot.
 * 0: nobody knows. */
int64_t postbag__moment_wall_ms(
    const struct moment *then, const struct moment *now);

/* How long ago that was: at least so long, whatever the clocks went through.
 * By CLOCK_BOOTTIME in the same boot; else by the wall clock where it was set
 * at both times, and not less than since the machine was booted. */
int64_t postbag__moment_age_ms(
    const struct moment *then, const struct moment *now);

/* The furthest moment that a deadline of this boot can be at, where none is set
 * further away than most_ms.  Since one that is was set, CLOCK_BOOTTIME began
 * anew (a container's time namespace): it says nothing, and counts as come. */
int64_t postbag__moment_furthest(int64_t now_ms, int64_t most_ms);

#endif
