/* SPDX-License-Identifier: MIT */
/* See book.h. */
#include <stdlib.h>
#include <string.h>

#include "world.h"

static uint32_t slot_of(const uint8_t id[16])
{
    uint32_t h = 2166136261u;

    for (int i = 0; i < 16; i++)
        h = (h ^ id[i]) * 16777619u;
    return h % (4u * BOOK_MESSAGES);
}

struct message *book_find(struct world *w, const uint8_t id[16])
{
    struct book *b = &w->book;

    for (uint32_t i = slot_of(id); b->by_id[i] != 0;
         i = (i + 1) % (4u * BOOK_MESSAGES)) {
        struct message *m = &b->messages[b->by_id[i] - 1];

        if (memcmp(m->id, id, 16) == 0)
            return m;
    }
    return NULL;
}

struct message *book_at(struct world *w, int64_t seq)
{
    if (seq < 1 || seq > BOOK_MESSAGES || w->book.by_seq[seq] == 0)
        return NULL;
    return &w->book.messages[w->book.by_seq[seq] - 1];
}

int number_of_command(const char *id)
{
    int n = id[0] == 'c' ? atoi(id + 1) : 0;

    return n >= 0 && n < BOOK_COMMANDS ? n : 0;
}

int book_begin(struct world *w, int command)
{
    struct book *b = &w->book;

    if (b->txn_count == BOOK_TXNS)
        return -1;
    b->txns[b->txn_count] =
        (struct txn){.first = b->message_count, .command = command};
    return b->txn_count++;
}

struct message *book_put(struct world *w, int txn, const uint8_t id[16])
{
    struct book *b = &w->book;
    uint32_t i = slot_of(id);
    struct message *m;

    if (b->message_count == BOOK_MESSAGES)
        return NULL;
    while (b->by_id[i] != 0)
        i = (i + 1) % (4u * BOOK_MESSAGES);
    m = &b->messages[b->message_count++];
    b->by_id[i] = b->message_count;
    *m = (struct message){
        .txn = txn, .put_us = w->now_us, .boot = w->boot, .last_process = -1};
    memcpy(m->id, id, 16);
    b->txns[txn].count++;
    return m;
}

/* Its place stays, as if it had been put and taken back. */
void book_take_back(struct world *w, struct message *m)
{
    (void)w;
    m->is_back = 1;
}

void book_end(struct world *w, int txn, enum outcome outcome, int is_durable)
{
    static const enum sim_mark marks[] = {[UNKNOWN] = OUTCOME_UNKNOWN,
        [COMMITTED] = COMMIT_HELD,
        [GONE] = ROLLED_BACK};
    struct txn *t = &w->book.txns[txn];

    t->outcome = outcome;
    t->is_durable = is_durable;
    t->boot = w->boot;
    t->ended = w->steps;
    happened(w, marks[outcome]);
    /* a sync of the WAL is one of all that stands before */
    for (int i = 0; is_durable && i <= txn; i++)
        if (w->book.txns[i].outcome == COMMITTED)
            w->book.txns[i].is_durable = 1;
}

int book_stands(const struct world *w, const struct message *m)
{
    return !m->is_back && w->book.txns[m->txn].outcome == COMMITTED;
}

/* As old as it may seem to anybody: over a restart the wall clock tells, which
 * may be anything. */
int book_may_expire(const struct world *w, const struct message *m)
{
    if (m->ttl_ms == 0)
        return 0;
    if (m->boot == w->boot)
        return w->now_us - m->put_us >= m->ttl_ms * 1000;
    return 1;
}

/* By one that was put later; what was put again is later than its number. */
int book_may_be_replaced(const struct world *w, const struct message *m)
{
    const struct book *b = &w->book;

    for (int i = 0; m->coalesce != 0 && i < b->message_count; i++) {
        const struct message *n = &b->messages[i];

        if (n != m && n->coalesce == m->coalesce && n->key == m->key &&
            n->lane == m->lane && book_stands(w, n) &&
            (m->seq == 0 || n->seq == 0 || n->seq > m->seq))
            return 1;
    }
    return 0;
}

int book_may_drop(const struct world *w, const struct message *m)
{
    const char *overflow = w->p.config.overflow;

    if (m->is_discarded || book_may_expire(w, m) || book_may_be_replaced(w, m))
        return 1;
    return overflow != NULL && overflow[0] == 'd' && m->lane == 0;
}
