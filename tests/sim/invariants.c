/* SPDX-License-Identifier: MIT */
/* Rules of a step: see invariants.h. */
#include "invariants.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <string.h>

#include "memdisk.h"
#include "postbag/care.h"
#include "world.h"

static int number_of(const struct world *w, const struct message *m)
{
    return (int)(m - w->book.messages);
}

static int is_settled(const struct world *w, const struct message *m)
{
    return m->seq > 0 && m->seq <= w->seen.lanes[m->lane].acked;
}

/* ---- transactions ---- */

void S1_no_row_that_nobody_put(
    struct world *w, int64_t seq, const struct message *m)
{
    if (m == NULL || !book_stands(w, m))
        broken(w, "S1_atomicity", "row %" PRId64 " is of no transaction", seq);
    else if (m->seq != 0 && m->seq != seq && !m->is_reply)
        broken(w, "S1_atomicity",
            "m%d is there twice, seq %" PRId64 " and %" PRId64, number_of(w, m),
            m->seq, seq);
    else if (book_at(w, seq) != NULL && book_at(w, seq) != m)
        broken(w, "S1_atomicity", "seq %" PRId64 " was given twice", seq);
}

/* A phantom: the world knows what the device does not. */
static void take_back(struct world *w, int txn)
{
    struct book *b = &w->book;

    happened(w, UNDONE_BY_CUT);
    b->txns[txn].outcome = GONE;
    for (int i = 0; i < b->message_count; i++)
        if (b->messages[i].txn == txn && b->messages[i].published > 0)
            broken(w, "S2_durability",
                "m%d was sent, and the power cut took t%d back", i, txn);
}

static void judge(struct world *w, int txn)
{
    struct txn *t = &w->book.txns[txn];
    int was_cut = t->boot != w->boot;

    if (t->outcome == UNKNOWN && t->is_told) {
        t->outcome = COMMITTED;
        t->is_durable = 0;
    } else if (t->outcome == UNKNOWN) {
        if (was_cut || (t->ended < w->steps && w->seen.has_moved))
            t->outcome = GONE;
    } else if (t->outcome == COMMITTED && !t->is_told) {
        if (was_cut && !t->is_durable)
            take_back(w, txn);
        else
            broken(w, "S2_durability", "t%d was committed, and is gone", txn);
    } else if (t->outcome != COMMITTED && t->is_told) {
        broken(w, "S1_atomicity", "t%d was not committed, and is there", txn);
    }
}

void S1_S2_transactions(struct world *w)
{
    for (int i = w->seen.first_told; i < w->book.txn_count; i++)
        judge(w, i);
}

/* What a trigger drops may never have been seen. */
void S1_atomicity(struct world *w)
{
    for (int i = 0; i < w->book.message_count; i++) {
        const struct message *m = &w->book.messages[i];

        if (book_stands(w, m) && m->seq == 0 && !book_may_drop(w, m))
            broken(w, "S1_atomicity", "t%d is committed, its m%d is not there",
                m->txn, i);
    }
}

void check_found(struct world *w, int txn, int is_stored)
{
    enum outcome outcome = w->book.txns[txn].outcome;

    if ((outcome == COMMITTED && !is_stored) || (outcome == GONE && is_stored))
        broken(w, "S2_durability", "postbag_find says %d of t%d, which is %s",
            is_stored, txn, outcome == GONE ? "not there" : "there");
}

/* ---- what became of messages ---- */

void S3_no_false_mark(struct world *w)
{
    int64_t delivered = 0;
    int64_t acked = 0;

    for (int i = 0; i < LANES; i++)
        delivered += w->seen.lanes[i].delivered;
    for (int i = 0; i < w->book.message_count; i++)
        acked += w->book.messages[i].is_reply ? w->book.messages[i].acked
                                              : w->book.messages[i].acked > 0;
    if (delivered > acked)
        broken(w, "S3_no_false_mark",
            "%" PRId64 " count as delivered, PUBACKs came for %" PRId64,
            delivered, acked);
}

/* Settled, neither delivered nor held: somebody dropped it, and told. */
void S4_no_loss(struct world *w)
{
    int64_t missing = 0;

    for (int i = 0; i < w->book.message_count; i++) {
        const struct message *m = &w->book.messages[i];

        if (!book_stands(w, m) || m->acked > 0 || m->state != 0)
            continue;
        if (!is_settled(w, m) && (m->is_stored || m->seq == 0))
            continue;
        missing++;
        if (!book_may_drop(w, m) && !m->was_dead)
            broken(w, "S4_no_loss", "m%d seq %" PRId64 " is lost", i, m->seq);
    }
    if (missing > w->seen.lost)
        broken(w, "S4_no_loss",
            "%" PRId64 " are missing, only %" PRId64 " count as dropped",
            missing, w->seen.lost);
}

static void note_news(struct world *w)
{
    struct look *now = &w->seen;
    const struct look *then = &w->before;

    w->count[HELD] += now->held > then->held;
    w->count[DEAD] += now->dead > then->dead;
    w->count[EXPIRED] += now->lost_ttl > then->lost_ttl;
    w->count[REPLACED] += now->lost_coalesced > then->lost_coalesced;
    w->count[LIMIT_DROPPED] += now->lost_limit > then->lost_limit;
    w->count[PURGED] += now->oldest > then->oldest && then->oldest > 0;
    w->count[HANDLED] += now->inbox_done > then->inbox_done;
    w->count[COMMAND_DEAD] += now->inbox_dead > then->inbox_dead;
}

/* ---- who may ---- */

static int may_take_over(const struct world *w)
{
    const struct look *then = &w->before;

    if (!then->has_owner || !then->owner_is_of_boot || w->owner == NULL)
        return 1;
    if (!w->owner->is_alive || w->owner->number != w->owner_number)
        return 1;
    return (!port_has_lock(w->owner, "-relay-main") &&
               !port_has_lock(w->owner, "-relay2-main")) ||
           boot_ms(w) >= then->lease_until;
}

/* The second lock is of who replaced one that still has the first. */
static struct process *who_has_a_lock(struct world *w)
{
    struct process *first = NULL;

    for (int i = 0; i < PROCESSES; i++) {
        struct process *p = &w->processes[i];

        if (p->is_alive && port_has_lock(p, "-relay2-main"))
            return p;
        if (p->is_alive && port_has_lock(p, "-relay-main"))
            first = p;
    }
    return first;
}

/* Who took over: the one that was stepped, or that ran meanwhile; also while
 * the bystander was away, and saw only that it happened. */
static struct process *who_took_over(struct world *w)
{
    if (w->nested_owner != NULL)
        return w->nested_owner;
    return w->stepped != NULL ? w->stepped : who_has_a_lock(w);
}

void S8_lease(struct world *w)
{
    const struct look *now = &w->seen;
    const struct look *then = &w->before;
    struct process *p = who_took_over(w);

    if (now->epoch > then->epoch && p != NULL) {
        if (!may_take_over(w) && !w->was_nested)
            broken(w, "S8_lease", "p%d took over from p%d, whose lease lasts",
                p->index, w->owner->index);
        if (w->owner != NULL && w->owner != p)
            happened(w, TAKEN_OVER);
        w->owner = p;
        w->owner_number = p->number;
        w->disruptions++;
    } else if (now->cursor_print != then->cursor_print && w->owner != p &&
               !w->was_nested && !w->must_look_at_all) {
        broken(w, "S8_lease", "the cursor was moved by one who is not owner");
    }
}

/* ---- commands ---- */

void S11_one_effect(struct world *w)
{
    for (int i = 0; i < w->book.command_count; i++) {
        const struct command *c = &w->book.commands[i];

        if (c->effects > 1)
            broken(w, "S11_one_effect", "c%d had %" PRId64 " effects", i,
                c->effects);
        if (c->is_acked && !c->is_in_inbox)
            broken(w, "S11_one_effect", "c%d is acknowledged, not stored", i);
        if (c->effects == 1 && !c->is_done)
            broken(w, "S11_one_effect", "c%d had its effect, is not done", i);
        if (c->is_done && c->effects == 0 && !c->is_discarded)
            broken(w, "S11_one_effect", "c%d is done, had no effect", i);
    }
}

void S7_command_in_order(struct world *w, int command, int64_t arrival)
{
    const struct command *c = &w->book.commands[command];

    for (int i = 0; i < w->book.command_count; i++) {
        const struct command *e = &w->book.commands[i];

        if (c->key != 0 && e->key == c->key && e->consumer == c->consumer &&
            e->is_in_inbox && !e->is_done && !e->is_dead && e->arrival > 0 &&
            e->arrival < arrival)
            broken(w, "S7_command_in_order", "c%d is handled before c%d",
                command, i);
    }
}

/* ---- numbers ---- */

void S12_bounds(struct world *w)
{
    const struct postbag_config *c = &w->p.config;

    /* requeued ones are beyond the bound, and one that all others wait for */
    if (w->seen.held > (int64_t)c->held_max_rows + 1 && w->count[REQUEUED] == 0)
        broken(w, "S12_bounds", "%" PRId64 " messages are held", w->seen.held);
    if (c->max_rows != 0 && w->seen.waiting > (int64_t)c->max_rows)
        broken(w, "S12_bounds", "%" PRId64 " messages wait", w->seen.waiting);
}

/* What is too old is so by the time since boot, in the boot that put it. */
void S13_clocks_that_jump(struct world *w)
{
    int64_t old = 0;

    for (int i = 0; i < w->book.message_count; i++)
        old += book_stands(w, &w->book.messages[i]) &&
               book_may_expire(w, &w->book.messages[i]);
    if (w->seen.lost_ttl > old)
        broken(w, "S13_clocks_that_jump",
            "%" PRId64 " were dropped for their age, %" PRId64 " are old",
            w->seen.lost_ttl, old);
}

void S15_accounting(struct world *w)
{
    int64_t settled = 0;
    int64_t fates = w->seen.held_settled;
    int64_t dropped = 0;

    for (int i = 0; i < LANES; i++) {
        const struct lane_seen *l = &w->seen.lanes[i];

        settled += l->settled + l->replayed;
        fates += l->delivered + l->dropped + l->passed;
        dropped += l->dropped;
    }
    if (settled != fates)
        broken(w, "S15_accounting",
            "%" PRId64 " are settled, %" PRId64 " have a fate", settled, fates);
    if (dropped != w->seen.lost)
        broken(w, "S15_accounting",
            "%" PRId64 " are dropped, outbox_lost has %" PRId64, dropped,
            w->seen.lost);
    if (w->seen.newest - settled != w->seen.waiting)
        broken(w, "S15_accounting",
            "%" PRId64 " - %" PRId64 " wait, the log has %" PRId64,
            w->seen.newest, settled, w->seen.waiting);
}

/* ---- the file ---- */

static int tell_finding(
    void *ctx, const char *check, const char *dest, const char *text)
{
    (void)dest;
    broken(ctx, "S14_sqlite", "verify: %s: %s", check, text);
    return 0;
}

static void S14_verified(struct world *w)
{
    const struct postbag_admin_config c = {.struct_size = sizeof(c),
        .db_path = world_db(w),
        .port = &w->bystander.port};
    const struct postbag_verify verify = {
        .struct_size = sizeof(verify), .ctx = w, .finding = tell_finding};
    struct postbag_admin *admin = NULL;
    int err;

    if (w->seen.db == NULL)
        return;
    memdisk_process(w->disk, ++w->next_number);
    err = postbag_admin_open(&admin, &c, NULL);
    if (err == POSTBAG_OK)
        err = postbag_admin_verify(admin, &verify);
    if (err != POSTBAG_OK)
        broken(w, "S14_sqlite", "verify: %s", postbag_error_name(err));
    postbag_admin_close(admin);
}

void S14_sqlite(struct world *w)
{
    char result[100];

    if (look_integrity(w, result, sizeof(result)))
        broken(w, "S14_sqlite", "integrity_check: %s", result);
}

/* ---- the step ---- */

void check_step(struct world *w)
{
    int is_full = w->must_look_at_all;

    w->before = w->seen;
    look_again(w, is_full);
    if (!w->seen.is_fresh)
        return;
    S8_lease(w);
    w->must_look_at_all = 0;
    S1_atomicity(w);
    S3_no_false_mark(w);
    S4_no_loss(w);
    S9_released_stays_released(w);
    S11_one_effect(w);
    S12_bounds(w);
    S13_clocks_that_jump(w);
    S15_accounting(w);
    if (is_full)
        S14_sqlite(w);
    note_news(w);
}

void check_rest(struct world *w)
{
    w->must_look_at_all = 1;
    check_step(w);
    S7_first_deliveries_ascend(w);
    S14_verified(w);
}
