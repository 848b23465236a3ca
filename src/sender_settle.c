/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  The returning half: what each settled send means for its row.  A
 * failure of the link charges nothing.  Where the database is busy, the answer
 * waits and its slot stays taken; if an outcome cannot be written otherwise,
 * the row stays as it was and is sent again.
 */
#include <stdio.h>
#include <string.h>

#include "backoff.h"
#include "sender.h"
#include "verdict.h"

enum { PAUSE_US = 1000 * 1000 };

static const struct postbag_port *port_of(const struct sender *s)
{
    return s->shared->port;
}

static int64_t wall_ms(const struct sender *s)
{
    return port_of(s)->wall_ms(port_of(s)->ctx);
}

/* Full jitter after so many attempts; in another boot it is due at once. */
static struct due due_after(const struct sender *s, int attempts)
{
    struct due due = {.boot = s->boot};
    uint32_t bits = 0x80000000u;

    (void)port_of(s)->random(port_of(s)->ctx, &bits, sizeof(bits));
    due.ms = port_of(s)->mono_us(port_of(s)->ctx) / 1000 +
             postbag__backoff_ms((uint32_t)attempts, s->options.retry_base_ms,
                 s->options.retry_cap_ms, bits);
    return due;
}

/* End a transaction that did its part with err, and see what is held now. */
static int finish(struct sender *s, int err)
{
    if (err != POSTBAG_OK) {
        postbag__lease_rollback(s->lease);
        return err;
    }
    err = postbag__lease_commit(s->lease);
    if (err == POSTBAG_OK)
        postbag__sender_look_after(s);
    return err;
}

int postbag__sender_must_trim(const struct sender *s)
{
    return s->may_trim &&
           (s->held_stats.dead > s->options.dead_max_rows ||
               s->held_stats.dead_bytes > s->options.dead_max_bytes);
}

int postbag__sender_trim_dead(struct sender *s)
{
    int dropped;
    int err;

    if (!postbag__sender_must_trim(s))
        return POSTBAG_OK;
    err = postbag__lease_begin(s->lease, DB_NORMAL);
    if (err != POSTBAG_OK)
        return err;
    dropped = postbag__held_trim_dead(s->held, s->options.dead_max_rows,
        s->options.dead_max_bytes, wall_ms(s));
    err = finish(s, dropped < 0 ? dropped : POSTBAG_OK);
    if (err != POSTBAG_OK)
        return err;
    s->overflowed += (uint32_t)dropped;
    s->may_trim = dropped != 0;
    return POSTBAG_OK;
}

static void note_dead(struct sender *s, const char *error)
{
    s->newly_dead++;
    (void)snprintf(s->last_dead, sizeof(s->last_dead), "%s", error);
}

static int names_suspect(const char *error)
{
    return error != NULL &&
           strncmp(error, HELD_SUSPECT, sizeof(HELD_SUSPECT) - 1) == 0;
}

/* due: NULL, or when a retry row is tried, or a dead one comes back. */
static int hold(struct sender *s, int lane, struct entry *e, const char *state,
    const char *error, const struct due *due)
{
    int is_dead = strcmp(state, "dead") == 0;
    int is_suspect = names_suspect(error);
    const struct hold hold = {
        .state = state,
        .attempts = error != NULL && !is_suspect,
        .due = due,
        .error = error,
        .deaths = postbag__trial_deaths(&s->trial, lane, e->seq),
    };
    int err = postbag__lease_begin(
        s->lease, is_dead || is_suspect ? DB_FULL : DB_NORMAL);

    if (err != POSTBAG_OK)
        return err;
    err = finish(s, postbag__held_hold(s->held, e->seq, &hold, wall_ms(s)));
    if (err != POSTBAG_OK)
        return err;
    if (is_dead)
        note_dead(s, error);
    postbag__lane_settle(&s->lanes[lane], e, OUTCOME_HELD);
    postbag__sender_note_gain(s);
    return POSTBAG_OK;
}

int postbag__sender_hold(struct sender *s, int lane, struct entry *e,
    const char *state, const char *error)
{
    struct due due = due_after(s, 1);

    return hold(
        s, lane, e, state, error, strcmp(state, "retry") == 0 ? &due : NULL);
}

/* 0: there is no room for it among the held. */
static int keep_place(struct sender *s, int lane, struct entry *e)
{
    uint32_t most = s->options.held_max_per_key;
    struct row row;
    int before;
    int err = postbag__outbox_fetch(s->outbox, e->seq, &s->row_arena, &row);

    if (err == POSTBAG_ENOTFOUND) { /* dropped before it was reserved */
        postbag__lane_settle(&s->lanes[lane], e, OUTCOME_GONE);
        return 1;
    }
    if (row.is_damaged) {
        err = postbag__sender_drop_damaged(s, lane, e);
        return err == POSTBAG_OK ? 1 : err;
    }
    if (err != POSTBAG_OK || !postbag__sender_may_hold(s, lane))
        return err;
    before = postbag__held_before(s->held, e->seq, most);
    if (before < 0)
        return before;
    if ((uint32_t)before >= most || (uint32_t)before >= s->lanes[lane].size)
        return 0;
    err = hold(s, lane, e, "retry", NULL, NULL);
    return err == POSTBAG_OK ? 1 : err;
}

int postbag__sender_keep_acks(struct sender *s)
{
    for (int i = 0; i < POSTBAG__LANES; i++) {
        struct entry *e;
        int err = 1;

        while (err == 1 && (e = postbag__lane_overtaken(&s->lanes[i])) != NULL)
            err = keep_place(s, i, e);
        if (err < 0)
            return err;
    }
    return POSTBAG_OK;
}

static void watch_no_longer(struct sender *s, int64_t seq)
{
    if (s->watched.seq == seq)
        s->watched.seq = 0;
}

int postbag__sender_bury(
    struct sender *s, const struct row *row, const char *error, int is_mendable)
{
    struct due again;
    int err = postbag__lease_begin(s->lease, DB_FULL);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__held_bury(s->held, row->seq, error, wall_ms(s),
        postbag__sender_comes_back(s, is_mendable, &again));
    watch_no_longer(s, row->seq);
    err = finish(s, err);
    if (err != POSTBAG_OK)
        return err;
    note_dead(s, error);
    s->may_trim = 1; /* the cursor has passed it long ago */
    return POSTBAG_OK;
}

/* ---- rows of outbox_held ---- */

static int held_delivered(struct sender *s, const struct row *row)
{
    int err = postbag__lease_begin(s->lease, DB_FULL);

    if (err != POSTBAG_OK)
        return err;
    return finish(s, postbag__held_deliver(s->held, row->seq, wall_ms(s)));
}

static int held_refused(
    struct sender *s, const struct row *row, int attempts, const char *error)
{
    struct due due = due_after(s, attempts + 1);
    int err = postbag__lease_begin(s->lease, DB_NORMAL);

    if (err != POSTBAG_OK)
        return err;
    return finish(s, postbag__held_again(s->held, row->seq, &due, error));
}

int postbag__sender_put_off(struct sender *s, int64_t seq, enum db_sync sync,
    const char *error, held_planner *plan)
{
    const struct due due = {.boot = s->boot,
        .ms = port_of(s)->mono_us(port_of(s)->ctx) / 1000 +
              s->options.retry_cap_ms};
    int err = postbag__lease_begin(s->lease, sync);

    if (err != POSTBAG_OK)
        return err;
    return finish(s, plan(s->held, seq, &due, error));
}

int postbag__sender_drop_held(
    struct sender *s, const struct row *row, const char *reason)
{
    int err = postbag__lease_begin(s->lease, DB_FULL);

    if (err != POSTBAG_OK)
        return err;
    return finish(s, postbag__held_drop(s->held, row->seq, reason, wall_ms(s)));
}

/* ---- by outcome ---- */

struct why {
    char text[HELD_ERROR_MAX + 1];
};

static void describe(struct why *out, const struct settled *letter)
{
    (void)snprintf(out->text, sizeof(out->text), "refused: %s (0x%02x)%s%s",
        postbag_reason_text(letter->reason, 0),
        (unsigned)letter->reason & 0xffu, letter->text[0] == '\0' ? "" : ": ",
        letter->text);
}

static int is_mendable(int reason)
{
    return postbag__verdict(reason) != VERDICT_DEAD;
}

static int is_over(const struct sender *s, int attempts, int reason)
{
    return !is_mendable(reason) || attempts >= (int)s->options.max_attempts;
}

static int settle_held(
    struct sender *s, const struct slot *slot, const struct settled *letter)
{
    struct row row;
    struct why why;
    int attempts = 0;
    int err =
        postbag__held_fetch(s->held, slot->seq, &s->row_arena, &row, &attempts);

    if (err != 1)
        return err; /* an operator removed it: nothing to record */
    if (letter->err == POSTBAG_OK)
        return held_delivered(s, &row);
    describe(&why, letter);
    if (is_over(s, attempts + 1, letter->reason))
        return postbag__sender_bury(
            s, &row, why.text, is_mendable(letter->reason));
    return held_refused(s, &row, attempts, why.text);
}

static int hold_refused(
    struct sender *s, int lane, struct entry *e, const struct settled *letter)
{
    struct due again;
    struct why why;

    describe(&why, letter);
    if (is_over(s, 1, letter->reason))
        return hold(s, lane, e, "dead", why.text,
            postbag__sender_comes_back(s, is_mendable(letter->reason), &again));
    return postbag__sender_hold(s, lane, e, "retry", why.text);
}

static int settle_log(
    struct sender *s, const struct slot *slot, const struct settled *letter)
{
    struct lane *l = &s->lanes[slot->lane];
    struct entry *e = postbag__lane_find(l, slot->seq);
    int err;

    if (e == NULL || e->state != ENTRY_FLYING)
        return POSTBAG_OK;
    if (letter->err == POSTBAG_OK) {
        postbag__lane_settle(l, e, OUTCOME_DELIVERED);
        postbag__sender_note_gain(s);
        return POSTBAG_OK;
    }
    err = hold_refused(s, slot->lane, e, letter);
    if (err != POSTBAG_OK && err != POSTBAG_EBUSY)
        e->state = ENTRY_READY;
    return err;
}

/* Down to one at a time, though Paho may wake a second late for a message that
 * no other follows, which is why option window begins at 16: who is throttled
 * is slow anyway. */
static void throttle(struct sender *s, int64_t now_us)
{
    s->allowed = s->allowed > 1 ? s->allowed / 2 : 1;
    s->pause_us = now_us + PAUSE_US;
}

static void note_puback(struct sender *s)
{
    s->delivered++;
    s->last_puback_ms = wall_ms(s);
    s->link->proved = 1;
    if (s->allowed < postbag__sender_full_window(s))
        s->allowed++;
}

/* The row goes back to where it was. */
static void put_back(struct sender *s, const struct slot *slot)
{
    struct entry *e;

    if (slot->is_held)
        return;
    e = postbag__lane_find(&s->lanes[slot->lane], slot->seq);
    if (e != NULL && e->state == ENTRY_FLYING)
        e->state = ENTRY_READY;
}

/* The broker did not judge the message. */
static int says_nothing_of_the_row(const struct settled *letter)
{
    enum verdict verdict = postbag__verdict(letter->reason);

    return letter->err != POSTBAG_EREFUSED || verdict == VERDICT_THROTTLE ||
           verdict == VERDICT_RECONNECT;
}

static int is_turned_down(const struct settled *letter)
{
    return letter->err == POSTBAG_EREFUSED && says_nothing_of_the_row(letter);
}

static void note_turned_down(
    struct sender *s, const struct settled *letter, int64_t now_us)
{
    if (postbag__verdict(letter->reason) == VERDICT_THROTTLE)
        throttle(s, now_us);
    else
        s->is_confused = 1;
}

/* What an answer says of the link and of all rows, whatever comes of this one:
 * once. */
static void note_answer(struct sender *s, struct slot *slot,
    const struct settled *letter, int64_t now_us)
{
    if (slot->is_answered)
        return;
    slot->is_answered = 1;
    if (letter->err == POSTBAG_OK || letter->err == POSTBAG_EREFUSED)
        postbag__trial_answered(
            &s->trial, slot->is_held ? TRIAL_HELD : slot->lane, slot->seq);
    if (letter->err == POSTBAG_OK || !says_nothing_of_the_row(letter)) {
        postbag__suspicion_forget(&s->suspicion, slot->seq);
        postbag__suspicion_answered(
            &s->suspicion, slot->nth, letter->err == POSTBAG_OK);
    } else if (letter->err != POSTBAG_EREFUSED)
        postbag__suspicion_lost(&s->suspicion, slot->seq, slot->nth);
    if (letter->err == POSTBAG_OK)
        note_puback(s);
    if (is_turned_down(letter))
        note_turned_down(s, letter, now_us);
}

/* ---- turned down: is it the rate, or the message? ---- */

/* The broker took others since it turned this one down, and again, and again:
 * it is the message. */
static int is_the_reason(const struct sender *s, struct entry *e)
{
    if (e->turned_down == 0 || e->taken_then != s->delivered)
        e->turned_down++;
    e->taken_then = s->delivered;
    return e->turned_down >= SUSPICION_ENDS;
}

static int turn_down_log(
    struct sender *s, const struct slot *slot, const struct settled *letter)
{
    struct entry *e = postbag__lane_find(&s->lanes[slot->lane], slot->seq);

    if (e == NULL || e->state != ENTRY_FLYING)
        return POSTBAG_OK;
    if (is_the_reason(s, e))
        return settle_log(s, slot, letter);
    e->state = ENTRY_READY;
    return POSTBAG_OK;
}

/* What is held for another reason is watched like a row of the log, one at a
 * time, since all are tried again and again. */
static int is_watched(struct sender *s, int64_t seq)
{
    int is_taken = s->watched.seq != 0 && s->watched.seq != seq;

    if (is_taken)
        is_taken = postbag__held_exists(s->held, s->watched.seq);
    if (is_taken != 0)
        return is_taken < 0 ? is_taken : 0;
    if (s->watched.seq != seq)
        s->watched = (struct entry){.seq = seq};
    return 1;
}

/* What was set aside for it is charged; and the others are not tried often. */
static int turn_down_held(
    struct sender *s, const struct slot *slot, const struct settled *letter)
{
    int is_charged = postbag__held_was_turned_down(s->held, slot->seq);
    int err;

    if (is_charged == 0) {
        is_charged = is_watched(s, slot->seq);
        if (is_charged == 1)
            is_charged = is_the_reason(s, &s->watched);
    }
    if (is_charged < 0)
        return is_charged;
    if (!is_charged)
        return postbag__sender_put_off(
            s, slot->seq, DB_NORMAL, NULL, postbag__held_postpone);
    err = settle_held(s, slot, letter);
    if (err == POSTBAG_OK)
        watch_no_longer(s, slot->seq);
    return err;
}

static int turn_down(
    struct sender *s, const struct slot *slot, const struct settled *letter)
{
    return slot->is_held ? turn_down_held(s, slot, letter)
                         : turn_down_log(s, slot, letter);
}

int postbag__sender_settle(
    struct sender *s, const struct settled *letter, int64_t now_us)
{
    struct slot *slot = postbag__window_of(&s->window, letter->token);
    int err = POSTBAG_OK;

    if (slot == NULL)
        return POSTBAG_OK; /* an answer of an older connection */
    postbag__patience_restart(&s->patience, now_us);
    note_answer(s, slot, letter, now_us);
    if (is_turned_down(letter))
        err = turn_down(s, slot, letter);
    else if (letter->err != POSTBAG_OK && says_nothing_of_the_row(letter))
        put_back(s, slot);
    else if (slot->is_held) {
        watch_no_longer(s, slot->seq);
        err = settle_held(s, slot, letter);
    } else
        err = settle_log(s, slot, letter);
    if (err != POSTBAG_EBUSY)
        postbag__window_give_back(&s->window, slot);
    return err;
}
