/* SPDX-License-Identifier: MIT */
/* The durable mark moves forward only, in 32-bit arithmetic; the gate is the
 * port's. */
#include "shared.h"

static int is_ahead(uint32_t a, uint32_t b)
{
    return a != b && a - b < 0x80000000u;
}

void postbag__start_durable(struct shared *s, int64_t seq)
{
    atomic_store(&s->durable, (unsigned)((uint64_t)seq & 0xffffffffu));
}

void postbag__note_durable(struct shared *s, int64_t seq)
{
    unsigned mine = (unsigned)((uint64_t)seq & 0xffffffffu);
    unsigned seen = atomic_load(&s->durable);

    while (is_ahead(mine, seen) &&
           !atomic_compare_exchange_weak(&s->durable, &seen, mine))
        ;
}

int postbag__is_durable(struct shared *s, int64_t seq)
{
    unsigned mine = (unsigned)((uint64_t)seq & 0xffffffffu);

    return !is_ahead(mine, atomic_load(&s->durable));
}

int postbag__gate_enter(struct shared *s, uint32_t wait_ms)
{
    int64_t until;

    if (s == NULL || s->gate == NULL)
        return POSTBAG_OK;
    until = s->port->mono_us(s->port->ctx) + (int64_t)wait_ms * 1000;
    return s->port->gate_enter(s->port->ctx, s->gate, until);
}

void postbag__gate_leave(struct shared *s)
{
    if (s != NULL && s->gate != NULL)
        s->port->gate_leave(s->port->ctx, s->gate);
}
