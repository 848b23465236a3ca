/* SPDX-License-Identifier: MIT */
/* See patience.h. */
#include "patience.h"

#include <stddef.h>

void postbag__patience_restart(struct patience *p, int64_t now_us)
{
    p->since_us = now_us;
    p->is_half_seen = 0;
}

int64_t postbag__patience_deadline(const struct patience *p, int64_t wait_us)
{
    return p->since_us + (p->is_half_seen ? wait_us : wait_us / 2);
}

int postbag__patience_is_over(
    struct patience *p, int64_t now_us, int64_t wait_us, const uint64_t *taken)
{
    if (now_us >= p->since_us + wait_us) {
        int moves = p->is_half_seen && p->was_moving && taken != NULL &&
                    *taken != p->taken;

        if (!moves)
            return 1;
        postbag__patience_restart(p, now_us);
    } else if (!p->is_half_seen) {
        p->is_half_seen = 1;
        p->was_moving = taken != NULL;
        p->taken = taken != NULL ? *taken : 0;
    }
    return 0;
}

void postbag__overtaking_restart(
    struct overtaking *o, int64_t now_us, int64_t wait_us)
{
    o->look_us = now_us + wait_us;
    o->answered = 0;
}

int postbag__overtaking_is_due(const struct overtaking *o, int64_t now_us)
{
    return now_us >= o->look_us;
}

int postbag__overtaking_look(struct overtaking *o, int64_t now_us,
    int64_t wait_us, uint64_t oldest, uint64_t answered)
{
    int is_enough = oldest != 0 && oldest < o->answered;

    o->look_us = now_us + wait_us;
    o->answered = answered;
    return is_enough;
}
