/* SPDX-License-Identifier: MIT */
/* See sender.h: loading, looking, saving the cursor.  Sending is in
 * sender_fill.c and sender_send.c, what comes back in sender_settle.c. */
#include "sender.h"

#include <string.h>

#include "abi.h"

enum { LOOK_AHEAD = 4 };
/* A step may set a deadline so long after it read the clock. */
enum { STEP_MS = 60000 };

int postbag__sender_init(struct sender *s)
{
    const struct postbag_port *port = s->shared->port;
    int64_t now_us = port->mono_us(port->ctx);
    int err = port->boot_id(port->ctx, s->boot);

    if (err == POSTBAG_OK)
        err = postbag__window_init(&s->window, s->options.window);
    for (int i = 0; i < POSTBAG__LANES && err == POSTBAG_OK; i++)
        err = postbag__lane_init(&s->lanes[i], s->options.window * LOOK_AHEAD);
    s->allowed = s->options.window;
    s->revive_ms = INT64_MAX;
    s->bound.max_rows = s->options.held_max_rows;
    s->bound.max_bytes = s->options.held_max_bytes;
    s->held_due_ms = INT64_MAX;
    s->paced_us = INT64_MAX;
    s->chooser.share = s->options.lane_share;
    postbag__bucket_init(&s->pace_rows, s->options.bulk_rate, now_us);
    postbag__bucket_init(&s->pace_bytes, s->options.bulk_bytes_rate, now_us);
    return err;
}

void postbag__sender_free(struct sender *s)
{
    for (int i = 0; i < POSTBAG__LANES; i++)
        postbag__lane_free(&s->lanes[i]);
    postbag__window_free(&s->window);
    postbag__arena_free(&s->row_arena);
}

/* ---- what is held ---- */

static void watch_bound(struct sender *s)
{
    const struct held_stats *held = &s->held_stats;

    if (!postbag__bound_watch(&s->bound, held->live, held->live_bytes))
        return;
    if (s->bound.is_reached)
        postbag__log(s->log, POSTBAG_LOG_WARNING, POSTBAG_EREFUSED,
            "%lld refused messages and those behind them are held (%lld bytes):"
            " new ones wait until there are fewer",
            (long long)held->live, (long long)held->live_bytes);
    else
        postbag__log(s->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
            "fewer messages are held: new ones are sent again");
}

/* Held rows that the cursor has not passed, so that they cannot be sent. */
static int64_t held_ahead(struct sender *s)
{
    int64_t rows = 0;

    for (int i = 0; i < POSTBAG__LANES; i++)
        for (uint32_t k = 0; k < s->lanes[i].count; k++)
            rows += postbag__lane_at(&s->lanes[i], k)->outcome == OUTCOME_HELD;
    return rows;
}

/* What is in flight may have to be held, too.  If nothing is, and all that is
 * held waits for the cursor, one more must go, or nothing ever would. */
int postbag__sender_may_hold(struct sender *s, int lane)
{
    const struct held_stats *held = &s->held_stats;

    if (postbag__bound_allows(&s->bound, held->live + s->window.used,
            held->live_bytes + (int64_t)s->window.bytes, lane == 0))
        return 1;
    return s->window.used == 0 && held->live <= held_ahead(s);
}

struct due postbag__sender_due_now(const struct sender *s, int64_t now_us)
{
    struct due now = {.boot = s->boot,
        .ms = now_us / 1000,
        .furthest_ms = postbag__moment_furthest(
            now_us / 1000, (int64_t)s->options.retry_cap_ms + STEP_MS)};

    return now;
}

int postbag__sender_look(struct sender *s)
{
    const struct postbag_port *port = s->shared->port;
    struct due now = postbag__sender_due_now(s, port->mono_us(port->ctx));
    int err = postbag__outbox_newest(s->outbox, &s->newest);

    if (err == POSTBAG_OK)
        err = postbag__held_stats(s->held, &s->held_stats);
    if (err == POSTBAG_OK)
        watch_bound(s);
    postbag__sender_plan_sweep(s);
    s->revive_ms = INT64_MAX;
    if (err == POSTBAG_OK && s->options.dead_requeue_s != 0)
        err = postbag__held_next_revival(s->held, &s->revive_ms);
    if (err == POSTBAG_OK && s->held_stats.live > 0)
        return postbag__held_next_due(s->held, &now, &s->held_due_ms);
    s->held_due_ms = INT64_MAX;
    return err;
}

void postbag__sender_look_after(struct sender *s)
{
    s->must_look = postbag__sender_look(s) != POSTBAG_OK;
}

int postbag__sender_load(struct sender *s)
{
    int64_t acked = 0;
    int err = postbag__outbox_load(s->outbox, s->lanes);

    if (err == POSTBAG_OK)
        err = postbag__ttl_load(s->ttl, &s->seen);
    s->is_seen_unsaved = 0;
    s->unsaved_us = 0;
    s->may_trim = 1; /* the bound may be lower than it was */
    if (err != POSTBAG_OK)
        return err;
    for (int i = 0; i < POSTBAG__LANES; i++)
        if (s->lanes[i].acked > acked)
            acked = s->lanes[i].acked;
    postbag__start_durable(s->shared, acked);
    err = postbag__sender_plan_revivals(s);
    if (err == POSTBAG_OK)
        err = postbag__sender_look(s);
    if (err != POSTBAG_OK)
        return err;
    /* what came since was not sent by whoever reserved it */
    for (int i = 0; i < POSTBAG__LANES; i++)
        if (s->lanes[i].begun > s->newest)
            s->lanes[i].begun = s->newest;
    s->is_idle = 1;
    s->sweep_us = 0;
    return postbag__sender_begin_trial(s);
}

void postbag__sender_abandon(struct sender *s)
{
    for (int i = 0; i < POSTBAG__LANES; i++)
        postbag__lane_restart(&s->lanes[i], s->lanes[i].saved, 0);
    memset(&s->trial, 0, sizeof(s->trial));
    s->watched.seq = 0;
    s->is_trying = 0;
    s->unsaved_us = 0;
    s->is_idle = 0;
}

uint32_t postbag__sender_full_window(const struct sender *s)
{
    uint32_t theirs = s->link->info.receive_max;

    if (postbag__suspicion_isolates(&s->suspicion) ||
        postbag__trial_isolates(&s->trial))
        return 1;
    return theirs != 0 && theirs < s->options.window ? theirs
                                                     : s->options.window;
}

void postbag__sender_link_up(struct sender *s, int64_t now_us)
{
    s->is_idle = 0;
    postbag__suspicion_link_up(&s->suspicion);
    s->allowed = postbag__sender_full_window(s);
    s->pause_us = 0;
    postbag__patience_restart(&s->patience, now_us);
    postbag__overtaking_restart(
        &s->overtaking, now_us, postbag__sender_ack_timeout_us(s));
    postbag__window_restart(&s->window, s->link->generation);
}

void postbag__sender_link_down(struct sender *s)
{
    s->is_confused = 0;
    s->is_alone = 0;
    postbag__trial_lost(&s->trial);
    s->is_idle = 1;
    s->turned_down_us = 0;
    postbag__window_restart(&s->window, s->link->generation);
    for (int i = 0; i < POSTBAG__LANES; i++)
        postbag__lane_release(&s->lanes[i]);
}

/* ---- saving ---- */

/* A cursor that only passed other lanes' rows is not worth a write. */
static int is_unsaved(const struct lane *l)
{
    return l->gain.rows != 0;
}

static int64_t unsaved_rows(const struct sender *s)
{
    int64_t rows = 0;

    for (int i = 0; i < POSTBAG__LANES; i++)
        rows += s->lanes[i].gain.rows;
    return rows;
}

/* Rows may be sent up to here: two windows ahead, so that the next save comes
 * before the reservation is used up.  While nothing is sent, no further than
 * rows are dropped. */
static int64_t reservation(
    const struct sender *s, const struct lane *l, int64_t wanted)
{
    int64_t from = wanted > l->acked ? wanted : l->acked;

    return s->is_idle ? from : from + 2 * (int64_t)s->options.window;
}

static int note_time(struct sender *s, int i)
{
    struct moment now = postbag__moment_now(s->shared->port, s->boot);

    return postbag__outbox_note_ack(s->outbox, i, s->lanes[i].acked, &now);
}

static int note_lost(struct sender *s, const struct lane_gain *gain)
{
    const struct postbag_port *port = s->shared->port;
    int64_t wall_ms = port->wall_ms(port->ctx);
    int err = POSTBAG_OK;

    if (gain->expired.n != 0)
        err = postbag__lost_note(s->lost, &gain->expired,
            gain->is_damage ? "damaged" : "ttl", wall_ms);
    for (int k = 0; k < POSTBAG__LANE_RANGES && err == POSTBAG_OK; k++)
        if (gain->replaced[k].n != 0)
            err = postbag__lost_note(
                s->lost, &gain->replaced[k], "coalesced", wall_ms);
    return err;
}

static int save_lane(struct sender *s, int i, int64_t wanted)
{
    struct lane *l = &s->lanes[i];
    int err = postbag__outbox_save(s->outbox, i, l, reservation(s, l, wanted));

    if (err == POSTBAG_OK && l->gain.dropped != 0)
        err = note_lost(s, &l->gain);
    if (err != POSTBAG_OK || !s->options.notes_times || l->gain.rows == 0)
        return err;
    return note_time(s, i);
}

static void note_saved(struct sender *s, int i, int64_t wanted)
{
    struct lane *l = &s->lanes[i];
    int64_t hi = reservation(s, l, wanted);

    l->saved = l->acked;
    if (hi > l->sent_hi)
        l->sent_hi = hi;
    memset(&l->gain, 0, sizeof(l->gain));
}

/* In a transaction: all lanes that moved, the one that needs a higher
 * reservation to send up to `wanted`, and the marks that are owed. */
static int write_all(struct sender *s, int wanted_lane, int64_t wanted)
{
    int err = POSTBAG_OK;

    for (int i = 0; i < POSTBAG__LANES && err == POSTBAG_OK; i++)
        if (is_unsaved(&s->lanes[i]) || i == wanted_lane)
            err = save_lane(s, i, i == wanted_lane ? wanted : 0);
    return err == POSTBAG_OK ? postbag__sender_save_marks(s) : err;
}

static int end_save(struct sender *s, int err)
{
    if (err == POSTBAG_OK)
        return postbag__lease_commit(s->lease);
    postbag__lease_rollback(s->lease);
    return err;
}

static void note_all_saved(struct sender *s, int wanted_lane, int64_t wanted)
{
    for (int i = 0; i < POSTBAG__LANES; i++) {
        if (is_unsaved(&s->lanes[i]) || i == wanted_lane)
            note_saved(s, i, i == wanted_lane ? wanted : 0);
        postbag__trial_passed(&s->trial, i, s->lanes[i].acked);
    }
    postbag__trial_saved(&s->trial);
    s->unsaved_us = 0;
    s->may_trim = 1;
    postbag__sender_plan_sweep(s);
}

/* A mark, and during a trial an answer, must outlive what may come next. */
static int must_sync(const struct sender *s)
{
    return postbag__trial_owes(&s->trial) || s->is_trying;
}

static int save_all(struct sender *s, int wanted_lane, int64_t wanted)
{
    int is_full = must_sync(s);
    int64_t newest = s->newest;
    int err = postbag__lease_begin(s->lease, is_full ? DB_FULL : DB_NORMAL);

    if (err != POSTBAG_OK)
        return err;
    err = end_save(s, write_all(s, wanted_lane, wanted));
    if (err != POSTBAG_OK)
        return err;
    if (is_full)
        postbag__note_durable(s->shared, newest);
    note_all_saved(s, wanted_lane, wanted);
    postbag__sender_end_trial(s);
    return POSTBAG_OK;
}

static int give_back(struct sender *s)
{
    int err = postbag__lease_begin(s->lease, DB_NORMAL);

    if (err != POSTBAG_OK)
        return err;
    err = write_all(s, -1, 0);
    if (err == POSTBAG_OK)
        err = postbag__trial_store_end(s->trials, s->lanes);
    if (err == POSTBAG_OK)
        err = postbag__lease_free(s->lease);
    err = end_save(s, err);
    if (err != POSTBAG_OK)
        return err;
    note_all_saved(s, -1, 0);
    postbag__lease_freed(s->lease);
    return POSTBAG_OK;
}

/* What could not be kept is sent again: no reason to keep the lease. */
int postbag__sender_release(struct sender *s)
{
    int kept = postbag__sender_keep_acks(s);
    int err = give_back(s);

    return err == POSTBAG_OK ? kept : err;
}

int postbag__sender_reserve(struct sender *s, int lane, int64_t seq)
{
    struct lane *l = &s->lanes[lane];
    int err = seq <= l->sent_hi ? POSTBAG_OK : save_all(s, lane, seq);

    if (err == POSTBAG_OK && seq > l->begun)
        l->begun = seq;
    return err;
}

void postbag__sender_note_gain(struct sender *s)
{
    if (s->unsaved_us == 0 && unsaved_rows(s) != 0)
        s->unsaved_us = s->shared->port->mono_us(s->shared->port->ctx);
}

static int is_due(const struct sender *s, int64_t now_us)
{
    return s->is_trying || unsaved_rows(s) >= (int64_t)s->options.ack_batch ||
           now_us - s->unsaved_us >= (int64_t)s->options.ack_delay_ms * 1000;
}

int postbag__sender_save(struct sender *s, int64_t now_us, int force)
{
    int err = POSTBAG_OK;

    if (postbag__trial_owes(&s->trial) ||
        (s->unsaved_us != 0 && (force || is_due(s, now_us))))
        err = save_all(s, -1, 0);
    if (err == POSTBAG_OK && s->is_idle)
        err = postbag__sender_take_back(s);
    return err == POSTBAG_OK ? postbag__sender_trim_dead(s) : err;
}

/* One range a lane is kept in RAM, so another is begun by a save.  1: it is
 * dropped; 0: not yet. */
static int drop(struct sender *s, int lane, struct entry *e, enum outcome why)
{
    struct lane *l = &s->lanes[lane];
    int can = postbag__lane_can_drop(l, e, why == OUTCOME_DAMAGED);
    int err = can < 0 ? save_all(s, -1, 0) : POSTBAG_OK;

    if (can == 0 || err != POSTBAG_OK)
        return err;
    postbag__lane_settle(l, e, why);
    postbag__sender_note_gain(s);
    s->again = 1;
    return 1;
}

int postbag__sender_expire(struct sender *s, int lane, struct entry *e)
{
    int err = drop(s, lane, e, OUTCOME_EXPIRED);

    s->newly_over += err == 1;
    return err < 0 ? err : POSTBAG_OK;
}

int postbag__sender_drop_damaged(struct sender *s, int lane, struct entry *e)
{
    int err = drop(s, lane, e, OUTCOME_DAMAGED);

    s->newly_damaged += err == 1;
    return err < 0 ? err : POSTBAG_OK;
}

/* ---- questions ---- */

/* What is delivered and not saved is work: who stands by sees the cursor only,
 * and would replace us if ack_delay_ms is longer than the lease. */
int postbag__sender_has_work(const struct sender *s)
{
    for (int i = 0; i < POSTBAG__LANES; i++)
        if (s->lanes[i].count > 0 || s->lanes[i].scanned < s->newest)
            return 1;
    return s->unsaved_us != 0 || s->held_stats.live > 0;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t postbag__sender_deadline(const struct sender *s, int64_t now_us)
{
    int64_t not_before = later(s->retry_us, s->pause_us);
    int64_t at = s->sweep_us;

    if (postbag__sender_must_trim(s))
        return now_us;
    if (s->unsaved_us != 0)
        at = earlier(
            at, s->unsaved_us + (int64_t)s->options.ack_delay_ms * 1000);
    if (s->link->state != LINK_UP || s->link->is_leaving)
        return at;
    if (not_before > now_us)
        at = earlier(at, not_before);
    else if (s->again)
        return now_us;
    if (s->window.used > 0)
        at = earlier(at, postbag__patience_deadline(
                             &s->patience, postbag__sender_ack_timeout_us(s)));
    if (s->paced_us != INT64_MAX)
        at = earlier(at, later(s->paced_us, not_before));
    if (s->held_due_ms != INT64_MAX)
        at = earlier(at, later(s->held_due_ms * 1000, not_before));
    if (s->revive_ms != INT64_MAX && !s->bound.is_reached)
        at = earlier(at, later(s->revive_ms * 1000, not_before));
    return at;
}
