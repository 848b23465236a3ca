/* SPDX-License-Identifier: MIT */
/* See window.h.  Token = generation (upper 16 bits) and slot. */
#include "window.h"

#include <string.h>

#include "mem.h"

int postbag__window_init(struct window *w, uint32_t size)
{
    memset(w, 0, sizeof(*w));
    w->slots = postbag__alloc(sizeof(*w->slots) * size);
    if (w->slots == NULL)
        return POSTBAG_ENOMEM;
    w->size = size;
    return POSTBAG_OK;
}

void postbag__window_free(struct window *w)
{
    postbag__free(w->slots);
    memset(w, 0, sizeof(*w));
}

void postbag__window_restart(struct window *w, uint32_t generation)
{
    memset(w->slots, 0, sizeof(*w->slots) * w->size);
    w->used = 0;
    w->bytes = 0;
    w->packets = 0;
    w->sends = 0;
    w->generation = generation & 0xffffu;
}

struct slot *postbag__window_take(struct window *w, uint32_t *token_out)
{
    for (uint32_t i = 0; i < w->size; i++) {
        struct slot *slot = &w->slots[i];

        if (slot->used)
            continue;
        slot->used = 1;
        slot->nth = ++w->sends;
        slot->is_answered = 0;
        slot->generation = w->generation;
        w->used++;
        *token_out = w->generation << 16 | i;
        return slot;
    }
    return NULL;
}

struct slot *postbag__window_of(struct window *w, uint32_t token)
{
    uint32_t i = token & 0xffffu;

    if (i >= w->size || !w->slots[i].used ||
        w->slots[i].generation != token >> 16)
        return NULL;
    return &w->slots[i];
}

void postbag__window_give_back(struct window *w, struct slot *slot)
{
    slot->used = 0;
    w->used--;
    w->bytes -= slot->bytes;
    w->packets -= slot->packet;
}

uint64_t postbag__window_oldest(const struct window *w)
{
    uint64_t oldest = 0;

    for (uint32_t i = 0; i < w->size; i++)
        if (w->slots[i].used && (oldest == 0 || w->slots[i].nth < oldest))
            oldest = w->slots[i].nth;
    return oldest;
}

int postbag__window_has_held(const struct window *w, int64_t seq)
{
    for (uint32_t i = 0; i < w->size; i++)
        if (w->slots[i].used && w->slots[i].is_held && w->slots[i].seq == seq)
            return 1;
    return 0;
}
