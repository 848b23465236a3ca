/* SPDX-License-Identifier: MIT */
/* All luck of an episode comes from one number: the same seed, the same luck.
 * A Weyl sequence, mixed. */
#ifndef POSTBAG_SIM_LUCK_H
#define POSTBAG_SIM_LUCK_H

#include <stddef.h>
#include <stdint.h>

struct luck {
    uint64_t state;
};

static inline uint64_t luck_next(struct luck *l)
{
    uint64_t x = l->state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* 0 to n - 1. */
static inline uint32_t luck_below(struct luck *l, uint32_t n)
{
    return (uint32_t)(luck_next(l) >> 32) % n;
}

/* Both ends included. */
static inline int64_t luck_between(struct luck *l, int64_t low, int64_t high)
{
    return low + (int64_t)(luck_next(l) % (uint64_t)(high - low + 1));
}

/* In so many of a thousand times. */
static inline int luck_hits(struct luck *l, uint32_t permille)
{
    return permille != 0 && luck_below(l, 1000) < permille;
}

static inline void luck_fill(struct luck *l, void *buf, size_t len)
{
    uint8_t *out = buf;

    while (len-- > 0)
        *out++ = (uint8_t)(luck_next(l) >> 56);
}

#endif
