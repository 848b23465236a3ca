/* SPDX-License-Identifier: MIT */
/* Full jitter: why the random part is the whole delay is in DESIGN.md. */
#include "backoff.h"

static uint32_t ceiling(uint32_t failures, uint32_t base_ms, uint32_t cap_ms)
{
    uint64_t top = base_ms;

    for (uint32_t i = 1; i < failures && top < cap_ms; i++)
        top *= 2;
    return top < cap_ms ? (uint32_t)top : cap_ms;
}

uint32_t postbag__backoff_ms(
    uint32_t failures, uint32_t base_ms, uint32_t cap_ms, uint32_t random)
{
    uint32_t top = ceiling(failures, base_ms, cap_ms);
    uint32_t floor_ms = top / 10;
    uint64_t span = (uint64_t)top - floor_ms + 1;

    return floor_ms + (uint32_t)(((uint64_t)random * span) >> 32);
}
