/* SPDX-License-Identifier: MIT */
/* Floor 0.  Full-jitter exponential backoff, pure. */
#ifndef POSTBAG_SRC_BACKOFF_H
#define POSTBAG_SRC_BACKOFF_H

#include <stdint.h>

/*
 * The delay before the next try after `failures` (1 = the first) failed ones:
 * a random part of min(cap, base * 2^(failures - 1)), at least a tenth of it,
 * so that a fleet spreads but nobody spins.  random is any 32 random bits.
 */
uint32_t postbag__backoff_ms(
    uint32_t failures, uint32_t base_ms, uint32_t cap_ms, uint32_t random);

#endif
