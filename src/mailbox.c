/* SPDX-License-Identifier: MIT */
/*
 * Each cell carries the turn at which it may be used: posting at position p
 * waits for turn p, reading for p + 1, and reading sets it to the position of
 * the next round.  All counters run modulo 2^32.
 */
#include "mailbox.h"

#include <string.h>

#include "mem.h"

int postbag__mailbox_init(struct mailbox *m, uint32_t room)
{
    uint32_t size = 2;

    while (size < room)
        size *= 2;
    memset(m, 0, sizeof(*m));
    m->cells = postbag__alloc(sizeof(*m->cells) * size);
    if (m->cells == NULL)
        return POSTBAG_ENOMEM;
    m->mask = size - 1;
    for (uint32_t i = 0; i < size; i++)
        atomic_init(&m->cells[i].turn, i);
    atomic_init(&m->tail, 0);
    return POSTBAG_OK;
}

void postbag__mailbox_free(struct mailbox *m)
{
    postbag__free(m->cells);
    m->cells = NULL;
}

int postbag__mailbox_post(struct mailbox *m, const struct settled *letter)
{
    unsigned at = atomic_load_explicit(&m->tail, memory_order_relaxed);

    for (;;) {
        struct mailbox_cell *cell = &m->cells[at & m->mask];
        unsigned turn = atomic_load_explicit(&cell->turn, memory_order_acquire);

        if (turn == at &&
            atomic_compare_exchange_weak_explicit(&m->tail, &at, at + 1,
                memory_order_relaxed, memory_order_relaxed)) {
            cell->letter = *letter;
            atomic_store_explicit(&cell->turn, at + 1, memory_order_release);
            return POSTBAG_OK;
        }
        if (turn != at && turn - at >= 0x80000000u)
            return POSTBAG_EAGAIN;
        if (turn != at)
            at = atomic_load_explicit(&m->tail, memory_order_relaxed);
    }
}

int postbag__mailbox_take(struct mailbox *m, struct settled *out)
{
    struct mailbox_cell *cell = &m->cells[m->head & m->mask];
    unsigned turn = atomic_load_explicit(&cell->turn, memory_order_acquire);

    if (turn != m->head + 1)
        return 0;
    *out = cell->letter;
    atomic_store_explicit(
        &cell->turn, m->head + m->mask + 1, memory_order_release);
    m->head++;
    return 1;
}
