/* SPDX-License-Identifier: MIT */
/* See lane.h.  Pure; used by the engine thread alone. */
#include "lane.h"

#include <string.h>

#include "mem.h"

int postbag__lane_init(struct lane *l, uint32_t size)
{
    memset(l, 0, sizeof(*l));
    l->ring = postbag__alloc(sizeof(*l->ring) * size);
    if (l->ring == NULL)
        return POSTBAG_ENOMEM;
    l->size = size;
    return POSTBAG_OK;
}

void postbag__lane_free(struct lane *l)
{
    postbag__free(l->ring);
    memset(l, 0, sizeof(*l));
}

void postbag__lane_restart(struct lane *l, int64_t acked, int64_t sent_hi)
{
    l->head = 0;
    l->count = 0;
    l->acked = acked;
    l->saved = acked;
    l->scanned = acked;
    l->sent_hi = sent_hi;
    l->begun = sent_hi;
    memset(&l->gain, 0, sizeof(l->gain));
}

int postbag__lane_is_full(const struct lane *l)
{
    return l->count == l->size;
}

struct entry *postbag__lane_at(struct lane *l, uint32_t i)
{
    return &l->ring[(l->head + i) % l->size];
}

struct entry *postbag__lane_push(
    struct lane *l, int64_t seq, uint32_t bytes, uint32_t key)
{
    struct entry *e = postbag__lane_at(l, l->count);

    l->count++;
    l->scanned = seq;
    e->seq = seq;
    e->bytes = bytes;
    e->key = key;
    e->state = ENTRY_READY;
    e->outcome = OUTCOME_DELIVERED;
    e->coalesces = 0;
    e->turned_down = 0;
    return e;
}

int postbag__lane_has_older(struct lane *l, uint32_t i)
{
    uint32_t key = postbag__lane_at(l, i)->key;

    for (uint32_t k = 0; k < i; k++) {
        const struct entry *e = postbag__lane_at(l, k);

        if (e->key == key && e->state != ENTRY_SETTLED)
            return 1;
    }
    return 0;
}

int postbag__lane_has_follower(struct lane *l, const struct entry *e)
{
    for (uint32_t k = l->count; e->key != 0 && k-- > 0;) {
        const struct entry *later = postbag__lane_at(l, k);

        if (later->seq <= e->seq)
            break;
        if (later->key == e->key && later->state != ENTRY_SETTLED)
            return 1;
    }
    return 0;
}

struct entry *postbag__lane_find(struct lane *l, int64_t seq)
{
    uint32_t low = 0;
    uint32_t high = l->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct entry *e = postbag__lane_at(l, middle);

        if (e->seq == seq)
            return e;
        if (e->seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

struct entry *postbag__lane_overtaken(struct lane *l)
{
    for (uint32_t k = l->count; k-- > 1;) {
        const struct entry *e = postbag__lane_at(l, k);

        if (e->state == ENTRY_SETTLED && e->outcome == OUTCOME_DELIVERED)
            return postbag__lane_at(l, 0);
    }
    return NULL;
}

static void count_lost(struct lost *lost, const struct entry *e)
{
    if (lost->n == 0)
        lost->lo = e->seq;
    lost->hi = e->seq;
    lost->n++;
    lost->bytes += e->bytes;
}

static void count_replaced(struct lane *l, const struct entry *e)
{
    struct lost *range = l->gain.replaced;
    const struct lost *last = range + POSTBAG__LANE_RANGES - 1;

    while (range < last && range->n != 0 && range->hi + 1 != e->seq)
        range++;
    count_lost(range, e);
}

static int is_dropped(const struct entry *e)
{
    return e->outcome == OUTCOME_EXPIRED || e->outcome == OUTCOME_DAMAGED;
}

static void count_gain(struct lane *l, const struct entry *e)
{
    if (e->outcome == OUTCOME_GONE)
        return;
    l->gain.rows++;
    l->gain.bytes += e->bytes;
    l->gain.delivered += e->outcome == OUTCOME_DELIVERED;
    l->gain.passed += e->outcome == OUTCOME_PASSED;
    l->gain.dropped += is_dropped(e) || e->outcome == OUTCOME_REPLACED;
    if (is_dropped(e)) {
        l->gain.is_damage = e->outcome == OUTCOME_DAMAGED;
        count_lost(&l->gain.expired, e);
    }
    if (e->outcome == OUTCOME_REPLACED)
        count_replaced(l, e);
}

/* An empty lane has looked at everything up to scanned and found nothing of
 * its own that is unsettled. */
static void advance(struct lane *l)
{
    while (l->count > 0) {
        const struct entry *e = postbag__lane_at(l, 0);

        if (e->state != ENTRY_SETTLED)
            return;
        count_gain(l, e);
        l->acked = e->seq;
        l->head = (l->head + 1) % l->size;
        l->count--;
    }
    l->acked = l->scanned;
}

void postbag__lane_settle(struct lane *l, struct entry *e, enum outcome outcome)
{
    e->state = ENTRY_SETTLED;
    e->outcome = (unsigned)outcome & 0x7fu;
    advance(l);
}

int postbag__lane_can_drop(struct lane *l, const struct entry *e, int is_damage)
{
    const struct lost *last = &l->gain.expired;

    if (e != postbag__lane_at(l, 0))
        return 0;
    if (last->n == 0)
        return 1;
    return last->hi + 1 == e->seq && l->gain.is_damage == is_damage ? 1 : -1;
}

void postbag__lane_release(struct lane *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        struct entry *e = postbag__lane_at(l, i);

        if (e->state == ENTRY_FLYING)
            e->state = ENTRY_READY;
    }
}

void postbag__lane_scanned_to(struct lane *l, int64_t seq)
{
    if (seq > l->scanned)
        l->scanned = seq;
    if (l->count == 0)
        l->acked = l->scanned;
}
