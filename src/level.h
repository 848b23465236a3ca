/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  The level of a fill, with hysteresis: up as soon as a mark is
 * reached, down only when the fill is well below it, so that a fill that
 * trembles at a mark is told once.
 */
#ifndef POSTBAG_SRC_LEVEL_H
#define POSTBAG_SRC_LEVEL_H

#include <stdint.h>

/* The level in percent: 0, 50, 80, 95 or 100.  level: what it was before.
 * fill: per mille. */
int postbag__level(int level, int64_t fill);

#endif
