/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Handing one row to the transport: is there room, may it go yet, is
 * it reserved and on disk, does the broker take it.
 */
#include <string.h>

#include "error.h"
#include "sender.h"

/* ---- may it go now? ---- */

/* Bulk leaves a slot and an eighth of the bytes to urgent lanes, but not on
 * its turn among them: they would wait for it while they have room. */
static int leaves_room(const struct turn *t)
{
    return t->lane == 0 && !t->is_owed;
}

/* A message larger than the window goes alone. */
static int has_bytes(const struct sender *s, const struct turn *t,
    uint64_t flying, uint64_t most)
{
    if (leaves_room(t))
        most -= most / 8;
    return s->window.used == 0 || flying <= most;
}

/* Who is throttled is in nobody's way: it is the broker that is slow. */
static void note_no_room(struct sender *s)
{
    s->is_in_the_way = s->allowed >= postbag__sender_full_window(s);
}

/* A suspect that is due waits for the others to end: they leave it no room. */
static int has_room(struct sender *s, const struct turn *t, uint32_t bytes)
{
    int is_free = !s->is_alone || s->window.used == 0;
    uint32_t slots = s->allowed;

    if (leaves_room(t) && slots > 1)
        slots--;
    if (is_free && s->window.used < slots &&
        has_bytes(s, t, s->window.bytes + bytes, s->options.window_bytes))
        return 1;
    note_no_room(s);
    return 0;
}

/* The broker's own bound counts whole packets, known only when one is built. */
static int has_packet_room(
    const struct sender *s, const struct turn *t, size_t packet)
{
    uint32_t most = s->options.profile->max_inflight_bytes;

    return most == 0 || has_bytes(s, t, s->window.packets + packet, most);
}

static int is_paced(const struct sender *s, const struct turn *t)
{
    return t->lane == 0 || s->options.pace_all;
}

/* Where all lanes draw from the same buckets, nobody may take what the one
 * whose turn it is waits for. */
static int wait_for_pace(struct sender *s, const struct turn *t, uint32_t bytes)
{
    int64_t rows_us = postbag__bucket_ready_us(&s->pace_rows, 1);
    int64_t at_us = postbag__bucket_ready_us(&s->pace_bytes, bytes);

    if (at_us < rows_us)
        at_us = rows_us;
    if (!is_paced(s, t) || at_us <= t->now_us)
        return FATE_GO_ON;
    if (at_us < s->paced_us)
        s->paced_us = at_us;
    return s->options.pace_all ? FATE_OVER : FATE_ENDED;
}

/* What is freed is kept for the one whose turn it is: else small messages
 * would keep a large one out for ever. */
static int may_leave(
    struct sender *s, const struct turn *t, uint32_t bytes, int is_alone)
{
    int fate = wait_for_pace(s, t, bytes);

    if (fate != FATE_GO_ON)
        return fate;
    if (is_alone)
        s->is_alone = 1; /* what is in flight comes to its end first */
    return has_room(s, t, bytes) ? FATE_GO_ON : FATE_OVER;
}

/* ---- the send ---- */

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

/* EINVAL: this row can never be sent, db->fault says why. */
static int build(struct sender *s, const struct turn *t, const struct row *row,
    struct postbag_frame *frame)
{
    struct moment now = postbag__moment_at(s->shared->port, s->boot, t->now_us);

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

/* Sent: it counts, whatever becomes of it. */
static void charge(struct sender *s, const struct turn *t, size_t packet)
{
    if (!is_paced(s, t))
        return;
    postbag__bucket_take(&s->pace_rows, 1, t->now_us);
    postbag__bucket_take(&s->pace_bytes, (uint32_t)packet, t->now_us);
}

/* EAGAIN, ELINK, EFULL: not now.  EINVAL: never. */
static int send_row(
    struct sender *s, const struct turn *t, const struct row *row, int is_held)
{
    struct postbag_transport *transport = s->link->transport;
    struct postbag_frame frame;
    struct slot *slot;
    uint32_t token;
    size_t packet;
    int err = build(s, t, row, &frame);

    if (err != POSTBAG_OK)
        return err;
    packet = postbag__frame_size(&frame);
    err = check_frame(s, &frame, packet);
    if (err != POSTBAG_OK)
        return err;
    if (!has_packet_room(s, t, packet))
        return POSTBAG_EFULL;
    if (postbag__in_transaction(s->db))
        return postbag__fail(&s->db->fault, POSTBAG_ESTATE,
            "a transaction is open before a send");
    slot = postbag__window_take(&s->window, &token);
    if (slot == NULL)
        return POSTBAG_EAGAIN;
    if (s->window.used == 1)
        postbag__patience_restart(&s->patience, t->now_us);
    s->is_in_the_way = 0;
    slot->seq = row->seq;
    slot->lane = (uint8_t)t->lane;
    slot->is_held = (uint8_t)is_held;
    slot->bytes = postbag__row_bytes(row);
    slot->packet = (uint32_t)packet;
    s->window.bytes += slot->bytes;
    s->window.packets += slot->packet;
    err = transport->ops->send(transport, &frame, token);
    s->link->was_used = 1;
    if (err == POSTBAG_OK) {
        s->turned_down_us = 0;
        charge(s, t, packet);
    } else {
        postbag__window_give_back(&s->window, slot);
    }
    if (err == POSTBAG_EINVAL)
        (void)postbag__fail(
            &s->db->fault, err, "malformed: MQTT cannot carry it");
    return err;
}

/* The transport has no room or no link: the rest waits for it.  EFULL: for the
 * next PUBACK, which wakes us. */
static int is_for_later(struct sender *s, const struct turn *t, int err)
{
    if (err == POSTBAG_EFULL) {
        note_no_room(s);
        return 1;
    }
    if (err != POSTBAG_EAGAIN && err != POSTBAG_ELINK)
        return 0;
    if (s->turned_down_us == 0 && s->window.used == 0)
        s->turned_down_us = t->now_us;
    s->retry_us = t->now_us + 10000;
    return 1;
}

/* ---- a row of the log ---- */

static int send_fetched(struct sender *s, const struct turn *t, struct entry *e,
    const struct row *row)
{
    int err;

    if (postbag__sender_over_in_ms(s, row, t->now_us) == 0) {
        err = postbag__sender_expire(s, t->lane, e);
        if (err != POSTBAG_OK)
            return err;
        return e->state == ENTRY_SETTLED ? FATE_ENDED : FATE_GO_ON;
    }
    err = postbag__sender_mark(
        s, t->lane, e->seq, postbag__trial_deaths(&s->trial, t->lane, e->seq));
    if (err == POSTBAG_OK)
        err = make_durable(s, e->seq);
    if (err == POSTBAG_OK)
        err = send_row(s, t, row, 0);
    if (err == POSTBAG_OK) {
        e->state = ENTRY_FLYING;
        s->is_alone = 0;
        return FATE_SENT;
    }
    if (is_for_later(s, t, err))
        return FATE_OVER;
    if (err != POSTBAG_EINVAL)
        return err;
    err = postbag__sender_hold(s, t->lane, e, "dead", s->db->fault.text);
    s->again = 1;
    return err == POSTBAG_OK ? FATE_ENDED : err;
}

static int send_entry(struct sender *s, const struct turn *t, struct entry *e)
{
    struct row row;
    int err = postbag__outbox_fetch(s->outbox, e->seq, &s->row_arena, &row);

    if (err == POSTBAG_ENOTFOUND) { /* dropped before it was reserved */
        postbag__lane_settle(&s->lanes[t->lane], e, OUTCOME_GONE);
        return FATE_GONE;
    }
    if (row.is_damaged) {
        err = postbag__sender_drop_damaged(s, t->lane, e);
        if (err != POSTBAG_OK)
            return err;
        return e->state == ENTRY_SETTLED ? FATE_ENDED : FATE_GO_ON;
    }
    return err == POSTBAG_OK ? send_fetched(s, t, e, &row) : err;
}

/* A few that nobody refused leave as soon as they would from the log: to wait
 * for them there costs no copy and no sync, and their queue comes to an end. */
static int waits_in_log(
    struct sender *s, const struct turn *t, const struct entry *e, int before)
{
    int is_refused;

    if ((uint32_t)before >= s->options.held_max_per_key)
        return 1;
    if ((uint32_t)before > s->lanes[t->lane].size)
        return 0;
    is_refused = postbag__held_is_refused(s->held, e->seq);
    return is_refused < 0 ? is_refused : !is_refused;
}

/* Join the held rows of the same key; OK: there are none.  If this one must
 * wait in the log, go on. */
static int join_held(struct sender *s, const struct turn *t, struct entry *e)
{
    uint32_t most = s->options.held_max_per_key;
    int err;

    if (e->key == 0 || s->held_stats.live == 0)
        return POSTBAG_OK;
    err = postbag__held_before(s->held, e->seq, most);
    if (err <= 0)
        return err;
    err = waits_in_log(s, t, e, err);
    if (err != 0)
        return err < 0 ? err : FATE_GO_ON;
    err = postbag__sender_hold(s, t->lane, e, "behind", NULL);
    s->again = 1;
    return err == POSTBAG_OK ? FATE_ENDED : err;
}

int postbag__sender_send(
    struct sender *s, const struct turn *t, struct entry *e)
{
    int fate;
    int err;

    if (!postbag__sender_may_hold(s, t->lane))
        return FATE_ENDED;
    fate = may_leave(s, t, e->bytes, 0);
    if (fate != FATE_GO_ON)
        return fate;
    err = postbag__sender_reserve(s, t->lane, e->seq);
    if (err == POSTBAG_OK && e->coalesces)
        err = postbag__sender_coalesce(s, t->lane, e);
    if (err == POSTBAG_OK)
        err = join_held(s, t, e);
    if (err == POSTBAG_OK)
        err = postbag__sender_weigh(s, t->lane, e);
    return err == POSTBAG_OK ? send_entry(s, t, e) : err;
}

/* ---- a held row that is due ---- */

/* What may end the connection, or the process. */
static int may_try(
    struct sender *s, const struct turn *t, int is_suspect, int deaths)
{
    if (is_suspect && !postbag__sender_may_try_suspect(s, t->now_us)) {
        postbag__suspicion_deny(&s->suspicion);
        return 0;
    }
    return !postbag__trial_is_suspect(deaths) ||
           postbag__sender_may_try_killer(s, t->now_us);
}

static int send_due(
    struct sender *s, const struct turn *t, const struct row *row)
{
    int is_suspect = postbag__held_is_suspect(s->held, row->seq);
    int deaths = 0;
    int is_alone;
    int fate;
    int err;

    if (is_suspect < 0)
        return is_suspect;
    fate = postbag__sender_weigh_held(s, row, &deaths);
    if (fate != POSTBAG_OK)
        return fate;
    if (!may_try(s, t, is_suspect, deaths))
        return FATE_GO_ON;
    is_alone = is_suspect || postbag__trial_is_alone(deaths);
    fate = may_leave(s, t, postbag__row_bytes(row), is_alone);
    if (fate != FATE_GO_ON)
        return fate;
    err = postbag__sender_mark(s, TRIAL_HELD, row->seq, deaths);
    if (err == POSTBAG_OK)
        err = send_row(s, t, row, 1);
    if (err == POSTBAG_OK) {
        s->is_alone = is_alone;
        if (is_suspect)
            postbag__suspicion_tried(&s->suspicion);
        return FATE_SENT;
    }
    if (is_for_later(s, t, err))
        return FATE_OVER;
    if (err != POSTBAG_EINVAL)
        return err;
    err = postbag__sender_bury(s, row, s->db->fault.text, 0);
    s->again = 1;
    return err == POSTBAG_OK ? FATE_ENDED : err;
}

/* A held row waits until the saved cursor is past it: delivered before, it
 * would after a crash be found unsettled in the log, and be counted again. */
int postbag__sender_send_held(
    struct sender *s, const struct turn *t, const struct row *row)
{
    int err;

    if (postbag__window_has_held(&s->window, row->seq) ||
        row->seq > s->lanes[t->lane].saved)
        return FATE_GO_ON;
    if (postbag__sender_over_in_ms(s, row, t->now_us) == 0) {
        err = postbag__sender_drop_held(s, row, "ttl");
        s->newly_over += err == POSTBAG_OK;
        return err == POSTBAG_OK ? FATE_GONE : err;
    }
    err = postbag__sender_replace_held(s, row);
    return err == POSTBAG_OK ? send_due(s, t, row) : err;
}
