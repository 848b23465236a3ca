/* SPDX-License-Identifier: MIT */
/* Rules of a packet and of a held row: see invariants.h. */
#include <inttypes.h>
#include <string.h>

#include "invariants.h"
#include "world.h"

static int number_of(const struct world *w, const struct message *m)
{
    return (int)(m - w->book.messages);
}

/* ---- a packet ---- */

void S5_same_bytes(struct world *w, const struct message *m, uint64_t print)
{
    if (m->published > 0 && m->print != print)
        broken(w, "S5_same_bytes", "m%d differs from what was sent before",
            number_of(w, m));
}

/* At most once, unless there is a reason to send it again since. */
void S6_repeated_for_a_reason(struct world *w, const struct message *m)
{
    if (m->last_process >= 0 && !m->may_repeat &&
        m->last_disruption == w->disruptions)
        broken(w, "S6_repeated_for_a_reason", "m%d is sent again, without one",
            number_of(w, m));
}

/* May those behind it go: delivered, dead, or dropped? */
static int lets_go(struct world *w, struct message *m)
{
    int64_t due_ms;
    int is_of_boot;

    if (m->acked > 0 || book_may_drop(w, m))
        return 1;
    if (look_state(w, m->seq, &due_ms, &is_of_boot) != 'd')
        return 0;
    m->was_released = 1;
    return 1;
}

void S7_key_in_order(struct world *w, const struct message *m)
{
    struct book *b = &w->book;

    for (int i = 0; m->key != 0 && i < b->message_count; i++) {
        struct message *e = &b->messages[i];

        if (e->key == m->key && e->lane == m->lane && e->seq > 0 &&
            e->seq < m->seq && book_stands(w, e) && !lets_go(w, e))
            broken(w, "S7_key_in_order", "m%d is sent before m%d of its key",
                number_of(w, m), i);
    }
}

/* Not so of what was dropped by a relay that died before it could write so. */
void S7_first_deliveries_ascend(struct world *w)
{
    struct book *b = &w->book;

    for (int i = 0; i < b->message_count; i++)
        for (int j = 0; j < b->message_count; j++) {
            const struct message *a = &b->messages[i];
            const struct message *z = &b->messages[j];

            if (a->key != 0 && a->key == z->key && a->lane == z->lane &&
                a->seq > 0 && a->seq < z->seq && a->first_place > 0 &&
                z->first_place > 0 && a->first_place > z->first_place &&
                !a->was_dead && a->ttl_ms == 0 && a->coalesce == 0)
                broken(w, "S7_first_deliveries_ascend",
                    "m%d arrived before m%d of its key", j, i);
        }
}

void S8_sent_by_the_owner(
    struct world *w, const struct process *p, const struct message *m)
{
    if (w->owner != p && !w->was_nested)
        broken(w, "S8_lease", "p%d sends m%d, and is not the owner", p->index,
            number_of(w, m));
}

void S9_reconnects_back_off(struct world *w, struct wire *wire)
{
    if (wire->failures++ == 0)
        wire->failing_us = w->now_us;
    if (wire->failures > 12 &&
        w->now_us - wire->failing_us <
            (int64_t)w->p.config.reconnect_base_ms * 1000)
        broken(w, "S9_reconnects_back_off",
            "p%d made %d attempts in %" PRId64 " us", wire->process->index,
            wire->failures, w->now_us - wire->failing_us);
}

void S9_not_before_it_is_due(struct world *w, const struct message *m)
{
    int64_t due_ms;
    int is_of_boot;
    char state;

    if (m->state == 0)
        return;
    state = look_state(w, m->seq, &due_ms, &is_of_boot);
    /* what may kill the process is put off, or dead, before it is tried */
    if ((state == 'b' || state == 'd') && m->state == state)
        broken(w, "S9_not_before_it_is_due", "m%d is sent, and is %s",
            number_of(w, m), state == 'b' ? "behind" : "dead");
    if (state == 'r' && is_of_boot && due_ms > boot_ms(w) &&
        m->is_due_of_boot && m->due_ms > boot_ms(w))
        broken(w, "S9_not_before_it_is_due",
            "m%d is sent %" PRId64 " ms too early", number_of(w, m),
            due_ms - boot_ms(w));
}

void check_attempt(
    struct world *w, struct process *p, struct message *m, uint64_t print)
{
    if (!book_stands(w, m))
        broken(w, "S1_atomicity", "m%d is sent, and was not committed",
            number_of(w, m));
    if (!m->is_reply) { /* each time that it is put it has another seq */
        S5_same_bytes(w, m, print);
        S6_repeated_for_a_reason(w, m);
        S9_not_before_it_is_due(w, m);
    }
    S7_key_in_order(w, m);
    S8_sent_by_the_owner(w, p, m);
    m->last_process = p->index;
}

/* ---- a held row ---- */

static int is_like(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* Compared with the look before; a power cut may have taken back some. */
void S9_attempts_and_delay(struct world *w, const struct message *m,
    int64_t attempts, char state, int due_is_of_boot, int64_t due_ms,
    const char *error)
{
    int64_t cap = w->p.config.retry_cap_ms;

    if (state == 'r' && is_like(error, "refused:") &&
        attempts > (int64_t)m->refused)
        broken(w, "S9_attempts_and_delay",
            "m%d has %" PRId64 " attempts, was refused %u times",
            number_of(w, m), attempts, m->refused);
    if (m->then != 0 && m->then != 'd' && attempts < m->attempts &&
        w->seen.boot == w->boot)
        broken(w, "S9_attempts_and_delay",
            "m%d had %" PRId64 " attempts, has %" PRId64, number_of(w, m),
            m->attempts, attempts);
    if (state == 'r' && due_is_of_boot && due_ms > boot_ms(w) + cap)
        broken(w, "S9_attempts_and_delay",
            "m%d waits for %" PRId64 " ms, more than the cap", number_of(w, m),
            due_ms - boot_ms(w));
}

/* What went on behind a dead one must not find it alive again. */
void S9_released_stays_released(struct world *w)
{
    for (int i = 0; i < w->book.message_count; i++) {
        const struct message *m = &w->book.messages[i];
        int is_back = m->state == 'r' || m->state == 'b' ||
                      (m->state == 0 && m->seq > w->seen.lanes[m->lane].acked);

        if (m->was_released && is_back && book_stands(w, m))
            broken(w, "S9_released_stays_released",
                "m%d was dead, others of its key went on, and it is back", i);
    }
}

static int is_a_reason(const struct world *w, const struct message *m,
    int64_t attempts, const char *error)
{
    uint32_t most = w->p.config.max_attempts;

    if (is_like(error, "refused: topic name invalid"))
        return m->is_hopeless;
    if (is_like(error, "refused:"))
        return attempts >= (int64_t)most && m->refused >= most;
    return is_like(error, "suspect:") && (m->ends >= 3 || m->deaths >= 4);
}

void S10_dead_for_a_reason(struct world *w, const struct message *m, char state,
    int64_t attempts, const char *error)
{
    if (state == 'd' && m->then != 'd' && !is_a_reason(w, m, attempts, error))
        broken(w, "S10_dead_for_a_reason",
            "m%d is dead after %" PRId64 " attempts: %s", number_of(w, m),
            attempts, error);
    if (state == 'r' && is_like(error, "refused:") &&
        attempts >= w->p.config.max_attempts)
        broken(w, "S10_dead_for_a_reason",
            "m%d lives after %" PRId64 " attempts: %s", number_of(w, m),
            attempts, error);
    if (state == 'r' && attempts > 0 &&
        is_like(error, "refused: topic name invalid"))
        broken(w, "S10_dead_for_a_reason",
            "m%d lives, and can never be sent: %s", number_of(w, m), error);
}
