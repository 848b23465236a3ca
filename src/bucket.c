/* SPDX-License-Identifier: MIT */
/* See bucket.h.  rate x microseconds = millionths. */
#include "bucket.h"

enum { MILLIONTHS = 1000 * 1000, BURSTS_A_SECOND = 8 };

static int64_t burst(const struct bucket *b)
{
    int64_t tokens = b->rate / BURSTS_A_SECOND;

    return (tokens > 0 ? tokens : 1) * MILLIONTHS;
}

void postbag__bucket_init(struct bucket *b, uint32_t rate, int64_t now_us)
{
    b->rate = rate;
    b->level = 0;
    b->since_us = now_us;
}

int64_t postbag__bucket_ready_us(const struct bucket *b, uint32_t tokens)
{
    int64_t wanted = (int64_t)tokens * MILLIONTHS;

    if (b->rate == 0)
        return INT64_MIN;
    if (wanted > burst(b))
        wanted = burst(b);
    if (b->level >= wanted)
        return b->since_us;
    return b->since_us + (wanted - b->level) / b->rate;
}

/* Divided first: a pause may be long, the product too large. */
static void fill(struct bucket *b, int64_t now_us)
{
    int64_t elapsed = now_us - b->since_us;
    int64_t missing = burst(b) - b->level;

    if (elapsed <= 0)
        return;
    if (elapsed > missing / b->rate)
        b->level = burst(b);
    else
        b->level += elapsed * b->rate;
    b->since_us = now_us;
}

void postbag__bucket_take(struct bucket *b, uint32_t tokens, int64_t now_us)
{
    if (b->rate == 0)
        return;
    fill(b, now_us);
    b->level -= (int64_t)tokens * MILLIONTHS;
}
