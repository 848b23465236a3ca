/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  The sending half: look ahead in the log, then hand over what the
 * window, the reservation and the order of keys allow.
 *
 * A pass walks a lane from the oldest unsettled row and remembers the keys it
 * met: a row whose key was met before has an older one unsettled and waits.
 */
#include <string.h>

#include "error.h"
#include "sender.h"

enum { KEY_BUCKETS = 1024, HELD_POLL_MS = 200 };
/* What becomes of a pass: go on, or end it for this step. */
enum { GO_ON = 1, END = 0 };

struct pass {
    int lane;
    int64_t now_us;
    uint8_t met[KEY_BUCKETS / 8];
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

static int scan_lane(struct sender *s, int i)
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

/* ---- handing over ---- */

/* Bulk leaves a slot and an eighth of the bytes to urgent lanes.  A message
 * larger than the window goes alone. */
static int has_bytes(
    const struct sender *s, int lane, uint64_t flying, uint64_t most)
{
    if (lane == 0)
        most -= most / 8;
    return s->window.used == 0 || flying <= most;
}

static int has_room(const struct sender *s, int lane, uint32_t bytes)
{
    uint32_t slots = s->allowed;

    if (s->is_alone && s->window.used > 0)
        return 0;
    if (lane == 0 && slots > 1)
        slots--;
    return s->window.used < slots &&
           has_bytes(s, lane, s->window.bytes + bytes, s->options.window_bytes);
}

/* The broker's own bound counts whole packets, known only when one is built. */
static int has_packet_room(const struct sender *s, int lane, size_t packet)
{
    uint32_t most = s->options.profile->max_inflight_bytes;

    return most == 0 || has_bytes(s, lane, s->window.packets + packet, most);
}

/* What is about to be sent must be on disk: else a power cut could leave a
 * published message whose transaction never happened. */
static int make_durable(struct sender *s, int64_t seq)
{
    int err;

    if (s->options.skip_sync_before_send || postbag__is_durable(s->shared, seq))
        return POSTBAG_OK;
    err = postbag__sync_wal(s->db);
    if (err == POSTBAG_OK)
        postbag__note_durable(s->shared, s->newest);
    return err;
}

static struct moment moment_of(const struct sender *s, const struct pass *p)
{
    const struct postbag_port *port = s->shared->port;
    struct moment now = {
        .wall_ms = port->wall_ms(port->ctx), .mono_ms = p->now_us / 1000};

    memcpy(now.boot, s->boot, sizeof(now.boot));
    return now;
}

static int is_over(
    const struct sender *s, const struct pass *p, const struct row *row)
{
    struct moment now = moment_of(s, p);

    return postbag__row_is_over(row, &now);
}

/* EINVAL: this row can never be sent, db->fault says why. */
static int build(struct sender *s, const struct pass *p, const struct row *row,
    struct postbag_frame *frame)
{
    struct moment now = moment_of(s, p);

    return postbag__envelope_build(
        s->envelope, row, s->link->info.mqtt_version, &now, frame);
}

/* What the broker does not take.  A row that was put before the profile held
 * may break its rules; a broker hangs up on such a message. */
static int check_frame(
    struct sender *s, const struct postbag_frame *frame, size_t packet)
{
    uint32_t most = s->link->info.max_packet;
    const struct profile_subject subject = {
        .topic = frame->topic, .packet_bytes = packet, .retain = frame->retain};

    if (most != 0 && packet > most)
        return postbag__fail(&s->db->fault, POSTBAG_EINVAL,
            "larger than the broker's Maximum Packet Size of %lu bytes",
            (unsigned long)most);
    return postbag__profile_check(s->options.profile, &subject, &s->db->fault);
}

/* EAGAIN, ELINK, EFULL: not now.  EINVAL: never. */
static int send_row(
    struct sender *s, const struct pass *p, const struct row *row, int is_held)
{
    struct postbag_transport *t = s->link->transport;
    struct postbag_frame frame;
    struct slot *slot;
    uint32_t token;
    size_t packet;
    int err = build(s, p, row, &frame);

    if (err != POSTBAG_OK)
        return err;
    packet = postbag__frame_size(&frame);
    err = check_frame(s, &frame, packet);
    if (err != POSTBAG_OK)
        return err;
    if (!has_packet_room(s, p->lane, packet))
        return POSTBAG_EFULL;
    if (postbag__in_transaction(s->db))
        return postbag__fail(&s->db->fault, POSTBAG_ESTATE,
            "a transaction is open before a send");
    slot = postbag__window_take(&s->window, &token);
    if (slot == NULL)
        return POSTBAG_EAGAIN;
    if (s->window.used == 1)
        postbag__patience_restart(&s->patience, p->now_us);
    slot->seq = row->seq;
    slot->lane = (uint8_t)p->lane;
    slot->is_held = (uint8_t)is_held;
    slot->bytes = postbag__row_bytes(row);
    slot->packet = (uint32_t)packet;
    s->window.bytes += slot->bytes;
    s->window.packets += slot->packet;
    err = t->ops->send(t, &frame, token);
    s->link->was_used = 1;
    if (err != POSTBAG_OK)
        postbag__window_give_back(&s->window, slot);
    if (err == POSTBAG_EINVAL)
        (void)postbag__fail(
            &s->db->fault, err, "malformed: MQTT cannot carry it");
    return err;
}

/* The transport has no room or no link: the rest waits for it.  EFULL: for the
 * next PUBACK, which wakes us. */
static int is_for_later(struct sender *s, const struct pass *p, int err)
{
    if (err == POSTBAG_EFULL)
        return 1;
    if (err != POSTBAG_EAGAIN && err != POSTBAG_ELINK)
        return 0;
    s->retry_us = p->now_us + 10000;
    return 1;
}

/* This row is settled without having been sent: the next of its key may go. */
static int go_on_without(
    struct sender *s, struct pass *p, const struct entry *e)
{
    if (e->key != 0)
        p->met[e->key / 8] &= (uint8_t) ~(1u << (e->key % 8));
    s->again = 1;
    return GO_ON;
}

static int send_entry(struct sender *s, struct pass *p, struct entry *e)
{
    struct row row;
    int err = make_durable(s, e->seq);

    if (err == POSTBAG_OK)
        err = postbag__outbox_fetch(s->outbox, e->seq, &s->row_arena, &row);
    if (err == POSTBAG_ENOTFOUND) { /* dropped before it was reserved */
        postbag__lane_settle(&s->lanes[p->lane], e, OUTCOME_GONE);
        return go_on_without(s, p, e);
    }
    if (err == POSTBAG_OK && is_over(s, p, &row)) {
        err = postbag__sender_expire(s, p->lane, e);
        if (err != POSTBAG_OK)
            return err;
        return e->state == ENTRY_SETTLED ? END : GO_ON;
    }
    if (err == POSTBAG_OK)
        err = send_row(s, p, &row, 0);
    if (err == POSTBAG_OK) {
        e->state = ENTRY_FLYING;
        s->is_alone = 0;
        return GO_ON;
    }
    if (is_for_later(s, p, err))
        return END;
    if (err != POSTBAG_EINVAL)
        return err;
    err = postbag__sender_hold(s, p->lane, e, "dead", s->db->fault.text);
    s->again = 1;
    return err == POSTBAG_OK ? END : err;
}

/* Has this row's key an older row unsettled?  Marks the key as met. */
static int waits_for_key(struct pass *p, const struct entry *e)
{
    uint8_t bit = (uint8_t)(1u << (e->key % 8));
    uint8_t *met = &p->met[e->key / 8];

    if (e->key == 0)
        return 0;
    if (*met & bit)
        return 1;
    *met |= bit;
    return 0;
}

/* Join the held row of the same key.  END: done so. */
static int join_held(struct sender *s, struct pass *p, struct entry *e)
{
    int err;

    if (e->key == 0 || s->held_stats.live == 0)
        return GO_ON;
    err = postbag__held_key_is_held(s->held, e->seq);
    if (err != 1)
        return err == POSTBAG_OK ? GO_ON : err;
    err = postbag__sender_hold(s, p->lane, e, "behind", NULL);
    s->again = 1;
    return err == POSTBAG_OK ? END : err;
}

static int try_entry(struct sender *s, struct pass *p, struct entry *e)
{
    int err;

    if (e->state == ENTRY_SETTLED || waits_for_key(p, e) ||
        e->state == ENTRY_FLYING)
        return GO_ON;
    if (!has_room(s, p->lane, e->bytes))
        return END;
    err = postbag__sender_reserve(s, p->lane, e->seq);
    if (err != POSTBAG_OK)
        return err;
    if (e->coalesces) {
        err = postbag__sender_coalesce(s, p->lane, e);
        if (err == COALESCE_REPLACED)
            return go_on_without(s, p, e);
        if (err != COALESCE_SEND)
            return err == COALESCE_WAIT ? GO_ON : err;
    }
    err = join_held(s, p, e);
    return err == GO_ON ? send_entry(s, p, e) : err;
}

static int fill_lane(struct sender *s, int i, int64_t now_us)
{
    struct lane *l = &s->lanes[i];
    struct pass p = {.lane = i, .now_us = now_us};
    int err = scan_lane(s, i);

    if (err != POSTBAG_OK)
        return err;
    for (uint32_t k = 0; k < l->count; k++) {
        uint32_t count = l->count;

        err = try_entry(s, &p, postbag__lane_at(l, k));
        if (err != GO_ON)
            return err;
        k -= count - l->count; /* as many left before it, or with it */
    }
    return POSTBAG_OK;
}

/* ---- held rows that are due ---- */

/* A held row waits until the saved cursor is past it: delivered before, it
 * would after a crash be found unsettled in the log, and be counted again. */
static int send_held(
    struct sender *s, const struct pass *p, const struct row *row)
{
    int is_suspect;
    int err;

    if (postbag__window_has_held(&s->window, row->seq) ||
        row->seq > s->lanes[p->lane].saved)
        return GO_ON;
    if (is_over(s, p, row)) {
        err = postbag__sender_drop_held(s, row, "ttl");
        return err == POSTBAG_OK ? GO_ON : err;
    }
    err = postbag__sender_replace_held(s, row);
    if (err != 0)
        return err < 0 ? err : GO_ON;
    is_suspect = postbag__held_is_suspect(s->held, row->seq);
    if (is_suspect < 0)
        return is_suspect;
    if (is_suspect && !postbag__sender_may_try_suspect(s))
        return GO_ON;
    if (is_suspect)
        s->is_alone = 1; /* what is in flight comes to its end first */
    if (!has_room(s, p->lane, postbag__row_bytes(row)))
        return END;
    err = send_row(s, p, row, 1);
    if (err == POSTBAG_OK) {
        s->is_alone = is_suspect;
        return is_suspect ? END : GO_ON;
    }
    if (is_for_later(s, p, err))
        return END;
    if (err != POSTBAG_EINVAL)
        return err;
    err = postbag__sender_bury(s, row, s->db->fault.text);
    return err == POSTBAG_OK ? END : err;
}

static int fill_held(struct sender *s, int64_t now_us)
{
    struct pass p = {.now_us = now_us};
    struct due now = {.boot = s->boot, .ms = now_us / 1000};
    struct row row;
    int64_t after = 0;
    int attempts;
    int err;

    if (s->held_due_ms > now.ms && !s->is_alone)
        return POSTBAG_OK;
    while ((err = postbag__held_due(
                s->held, after, &now, &s->row_arena, &row, &attempts)) == 1) {
        after = row.seq;
        p.lane = row.priority;
        err = send_held(s, &p, &row);
        if (err != GO_ON)
            break;
    }
    if (err < 0)
        return err;
    err = postbag__held_next_due(s->held, &now, &s->held_due_ms);
    /* what is due now is in flight, or there was no room for it */
    if (err == POSTBAG_OK && s->held_due_ms < now.ms + HELD_POLL_MS)
        s->held_due_ms = now.ms + HELD_POLL_MS;
    return err;
}

int postbag__sender_fill(struct sender *s, int64_t now_us)
{
    int err = POSTBAG_OK;

    if (s->link->state != LINK_UP || s->link->is_leaving ||
        now_us < s->retry_us || now_us < s->pause_us)
        return POSTBAG_OK;
    s->again = 0;
    err = postbag__lease_verify(s->lease, now_us);
    if (err == POSTBAG_OK)
        err = fill_held(s, now_us);
    for (int i = POSTBAG__LANES - 1; i >= 0 && err == POSTBAG_OK; i--)
        err = fill_lane(s, i, now_us);
    return err;
}
