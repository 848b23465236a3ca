/* SPDX-License-Identifier: MIT */
/* Floor 0.  What the clocks say at one moment. */
#ifndef POSTBAG_SRC_MOMENT_H
#define POSTBAG_SRC_MOMENT_H

#include <stdint.h>

/* 2024-01-01: a wall clock before it was never set. */
#define POSTBAG__CLOCK_IS_SET_MS INT64_C(1704067200000)

struct moment {
    int64_t wall_ms;
    int64_t mono_ms;  /* CLOCK_BOOTTIME */
    uint8_t boot[16]; /* in which mono_ms counts */
};

#endif
