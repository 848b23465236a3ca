/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  The sending half: look ahead in the log, then let the lanes send
 * in turn what the window, the reservation and the order of keys allow.
 *
 * A pass walks a lane: the ring from the oldest unsettled row, by turns with
 * what is held and due.  It remembers the keys it met: a row whose key was met
 * before has an older one unsettled and waits.
 */
#include <string.h>

#include "error.h"
#include "sender.h"

enum { KEY_BUCKETS = 1024, HELD_POLL_MS = 200 };

struct pass {
    int is_over;        /* nothing more of this lane in this step */
    int has_held;       /* rows of outbox_held may be due ... */
    int64_t held_skip;  /* ... after so many that stay there */
    uint32_t at;        /* the entry of the ring to look at */
    struct entry *next; /* what could leave; NULL: not looked yet */
    uint8_t met[KEY_BUCKETS / 8];
    uint8_t stays[KEY_BUCKETS / 8]; /* of them: a row waits for long */
};

/* One step's passes, and the first error of one. */
struct round {
    struct pass passes[POSTBAG__LANES];
    int64_t now_us;
    int was_held_time; /* and so has_held of each */
    int err;
};

/* ---- looking ahead ---- */

/* A crash may have come between holding a row and saving the cursor behind
 * it; such a row is settled already. */
static int take_scanned(
    struct sender *s, struct lane *l, const struct scanned *row)
{
    struct entry *e = postbag__lane_push(l, row->seq, row->bytes, row->key);
    int err;

    e->coalesces = row->coalesces ? 1u : 0u;
    if (!row->is_ours) {
        if (row->seq > l->begun)
            l->begun = row->seq;
        postbag__lane_settle(l, e, OUTCOME_PASSED);
        return POSTBAG_OK;
    }
    if (row->seq > s->held_stats.newest)
        return POSTBAG_OK;
    err = postbag__held_exists(s->held, row->seq);
    if (err == 1)
        postbag__lane_settle(l, e, OUTCOME_HELD);
    return err < 0 ? err : POSTBAG_OK;
}

/* Who drops rows above the reservation counts them for every destination, so
 * that a row of another one is passed only below it. */
static int reserve_passed(struct sender *s, int i, int64_t seq)
{
    postbag__sender_note_gain(s);
    s->again = 1;
    return postbag__sender_reserve(s, i, seq);
}

int postbag__sender_scan(struct sender *s, int i)
{
    struct lane *l = &s->lanes[i];
    uint32_t limit = l->size - l->count;
    uint32_t rows = 0;
    int64_t unreserved = 0;
    struct scanned row;
    int err;

    if (l->scanned >= s->newest || limit == 0)
        return POSTBAG_OK;
    postbag__outbox_scan(s->outbox, i, l->scanned, limit);
    while ((err = postbag__outbox_scan_next(s->outbox, i, &row)) == 1) {
        rows++;
        /* a damaged key: whoever went on would skip rows, or send them twice */
        if (row.seq <= l->scanned) {
            err = postbag__fail(&s->db->fault, POSTBAG_ECORRUPT,
                "the log is not in order at row %lld", (long long)row.seq);
            break;
        }
        if (!row.is_ours && row.seq > l->sent_hi) {
            unreserved = row.seq;
            break;
        }
        err = take_scanned(s, l, &row);
        if (err != POSTBAG_OK)
            break;
    }
    postbag__outbox_scan_end(s->outbox, i);
    if (unreserved != 0)
        return reserve_passed(s, i, unreserved);
    /* fewer rows than asked for: this was the end of the log */
    if (err == POSTBAG_OK && rows < limit)
        postbag__lane_scanned_to(l, s->newest);
    if (rows == limit && !postbag__lane_is_full(l))
        s->again = 1;
    postbag__sender_note_gain(s);
    return err;
}

/* ---- a lane's next row ---- */

static uint32_t bucket_of(uint32_t key)
{
    return (key ^ key >> 16) % KEY_BUCKETS;
}

static int is_in(const uint8_t *set, uint32_t key)
{
    uint32_t at = bucket_of(key);

    return set[at / 8] >> (at % 8) & 1;
}

static void add_to(uint8_t *set, uint32_t key)
{
    uint32_t at = bucket_of(key);

    set[at / 8] |= (uint8_t)(1u << (at % 8));
}

static void remove_from(uint8_t *set, uint32_t key)
{
    uint32_t at = bucket_of(key);

    set[at / 8] &= (uint8_t) ~(1u << (at % 8));
}

/* Has the k-th row's key an older row unsettled?  Marks the key as met.  Keys
 * of one bucket wait for each other, but not for a key that stays. */
static int waits_for_key(struct pass *p, struct lane *l, uint32_t k)
{
    uint32_t key = postbag__lane_at(l, k)->key;

    if (key == 0)
        return 0;
    if (is_in(p->met, key))
        return !is_in(p->stays, key) || postbag__lane_has_older(l, k);
    add_to(p->met, key);
    return 0;
}

/* Was it turned down, and nothing taken since?  Only others can show that it is
 * the broker's rate, or that it is not. */
static int lets_others_go(struct sender *s, const struct entry *e)
{
    if (!s->yields || e->turned_down == 0 || e->taken_then != s->delivered)
        return 0;
    s->has_yielded = 1;
    return 1;
}

/* Whether a held row is due is seen when it is its turn. */
static void find_next(struct sender *s, int lane, struct pass *p)
{
    struct lane *l = &s->lanes[lane];

    if (p->is_over || p->next != NULL)
        return;
    while (p->at < l->count) {
        uint32_t k = p->at++;
        struct entry *e = postbag__lane_at(l, k);

        if (e->state == ENTRY_SETTLED || waits_for_key(p, l, k) ||
            e->state == ENTRY_FLYING || lets_others_go(s, e))
            continue;
        p->next = e;
        return;
    }
    p->is_over = !p->has_held;
}

static int ends(int fate)
{
    return fate == FATE_ENDED || fate < 0;
}

static int drop_held_damaged(struct sender *s, const struct row *row)
{
    int err = postbag__sender_drop_held(s, row, "damaged");

    s->newly_damaged += err == POSTBAG_OK;
    return err == POSTBAG_OK ? FATE_GONE : err;
}

static int try_held(struct sender *s, const struct turn *t, struct pass *p)
{
    const struct due now = postbag__sender_due_now(s, t->now_us);
    struct row row;
    int fate = postbag__held_due(
        s->held, t->lane, p->held_skip, &now, &s->row_arena, &row);

    if (fate == 0) {
        p->has_held = 0;
        return FATE_GO_ON;
    }
    if (fate == 1)
        fate = postbag__sender_send_held(s, t, &row);
    else if (row.is_damaged)
        fate = drop_held_damaged(s, &row);
    p->held_skip += fate != FATE_GONE;
    p->is_over = ends(fate);
    return fate;
}

/* What ends here ends the walk of the ring; held rows may still leave. */
static int try_log(struct sender *s, const struct turn *t, struct pass *p)
{
    const struct lane *l = &s->lanes[t->lane];
    uint32_t key = p->next->key;
    uint32_t count = l->count;
    int fate = postbag__sender_send(s, t, p->next);

    p->next = NULL;
    if (fate == FATE_GO_ON)
        add_to(p->stays, key);
    if (fate == FATE_GONE) { /* the next of its key may go */
        remove_from(p->met, key);
        p->at -= count - l->count; /* as many left before it, or with it */
        s->again = 1;
    }
    if (ends(fate))
        p->at = UINT32_MAX;
    return fate;
}

/* By turns, where both wait: many that are refused again and again must not
 * keep the others from a slow link. */
static int try_next(struct sender *s, const struct turn *t, struct pass *p)
{
    unsigned bit = 1u << t->lane;
    int is_held = p->has_held && (p->next == NULL || (s->held_last & bit) == 0);
    int fate = is_held ? try_held(s, t, p) : try_log(s, t, p);

    if (fate == FATE_SENT)
        s->held_last = is_held ? s->held_last | bit : s->held_last & ~bit;
    return fate;
}

/* ---- in turn ---- */

/* That the lease is lost matters more than what came before. */
static void note_error(struct round *r, int err)
{
    if (err == POSTBAG_EFENCED || (err < 0 && r->err == POSTBAG_OK))
        r->err = err;
}

static void begin(struct sender *s, struct round *r)
{
    r->was_held_time = s->held_due_ms <= r->now_us / 1000 || s->is_held_back;
    for (int i = 0; i < POSTBAG__LANES; i++) {
        note_error(r, postbag__sender_scan(s, i));
        r->passes[i].has_held = r->was_held_time;
    }
}

static unsigned waiting_lanes(struct sender *s, struct round *r)
{
    unsigned waiting = 0;

    for (int i = 0; i < POSTBAG__LANES; i++) {
        find_next(s, i, &r->passes[i]);
        if (!r->passes[i].is_over)
            waiting |= 1u << i;
    }
    return waiting;
}

static int take_turn(struct sender *s, struct round *r, unsigned waiting)
{
    int lane = postbag__chooser_pick(&s->chooser, waiting);
    const struct turn t = {
        .lane = lane, .is_owed = waiting >> lane > 1, .now_us = r->now_us};
    int fate = try_next(s, &t, &r->passes[lane]);

    if (fate == FATE_SENT)
        postbag__chooser_note_sent(&s->chooser, lane, waiting);
    return fate;
}

/* An error of one lane, as of a damaged page, does not keep the others. */
static void take_turns(struct sender *s, struct round *r)
{
    unsigned waiting;
    int fate = FATE_GO_ON;

    while (fate != FATE_OVER && r->err != POSTBAG_EFENCED &&
           (waiting = waiting_lanes(s, r)) != 0) {
        fate = take_turn(s, r, waiting);
        note_error(r, fate);
    }
}

/* Where one at a time is sent, or the first of a connection, who was turned
 * down would always be that one: it goes if no other can. */
static void go_round(struct sender *s, struct round *r)
{
    s->yields = s->allowed == 1 || s->window.sends == 0;
    s->has_yielded = 0;
    begin(s, r);
    take_turns(s, r);
    s->yields = 0;
    if (!s->has_yielded || s->window.used > 0)
        return;
    memset(r->passes, 0, sizeof(r->passes));
    begin(s, r);
    take_turns(s, r);
}

/* When to look at held rows again.  Those that found no room do not wait for
 * the clock: they come first when there is some. */
static int plan_held(struct sender *s, const struct round *r)
{
    const struct due now = postbag__sender_due_now(s, r->now_us);
    int err = postbag__held_next_due(s->held, &now, &s->held_due_ms);

    s->is_held_back = 0;
    for (int i = 0; i < POSTBAG__LANES; i++)
        s->is_held_back |= r->passes[i].has_held;
    if (err == POSTBAG_OK && s->held_due_ms < now.ms + HELD_POLL_MS)
        s->held_due_ms = now.ms + HELD_POLL_MS;
    return err;
}

int postbag__sender_fill(struct sender *s, int64_t now_us)
{
    struct round r = {.now_us = now_us};
    int err;

    if (s->link->state != LINK_UP || s->link->is_leaving ||
        now_us < s->retry_us || now_us < s->pause_us)
        return POSTBAG_OK;
    s->again = 0;
    s->paced_us = INT64_MAX;
    err = postbag__lease_verify(s->lease, now_us);
    if (err != POSTBAG_OK)
        return err;
    note_error(&r, postbag__sender_revive(s, now_us));
    go_round(s, &r);
    if (r.was_held_time)
        note_error(&r, plan_held(s, &r));
    return r.err;
}
