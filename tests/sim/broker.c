/* SPDX-License-Identifier: MIT */
/* See broker.h: what comes from the broker, and when. */
#include "broker.h"

#include <inttypes.h>
#include <string.h>

#include "world.h"

static int is_due(const struct world *w, int64_t at_us)
{
    return at_us != 0 && at_us <= w->now_us;
}

/* ---- connections ---- */

static void lose(struct wire *wire, int err, int reason)
{
    wire->state = WIRE_DEAD;
    say(wire->world, "p%d %s lost 0x%02x", wire->process->index,
        wire->is_inbound ? "in" : "out", (unsigned)reason);
    wire->up->lost(
        wire->up->ctx, wire->connect.generation, err, reason, "lost");
}

/* One client, one connection (MQTT 5, 3.1.4-3). */
static void end_others(struct world *w, struct wire *wire)
{
    for (int i = 0; i < WIRES; i++) {
        struct wire *other = &w->broker.wires[i];

        if (other == wire || other->state != WIRE_UP ||
            other->is_inbound != wire->is_inbound)
            continue;
        other->is_mute = other->is_deaf = 1;
        other->lost_us = w->now_us + 1000;
        other->lost_err = POSTBAG_EREFUSED;
        other->lost_reason = 0x8e;
    }
}

static void answer_connect(struct world *w, struct wire *wire)
{
    struct postbag_link link = {.mqtt_version = 5, .session_present = 1};

    if (luck_hits(&w->luck, 300))
        link.receive_max = 1 + luck_below(&w->luck, 20);
    wire->answer_us = 0;
    if (wire->connack != 0) {
        lose(wire, wire->connack < 0 ? POSTBAG_ELINK : POSTBAG_EREFUSED,
            wire->connack < 0 ? 0 : wire->connack);
        return;
    }
    wire->state = WIRE_UP;
    wire->failures = 0;
    wire->next_command = 0;
    wire->receive_max = link.receive_max;
    say(w, "p%d %s up", wire->process->index, wire->is_inbound ? "in" : "out");
    end_others(w, wire);
    wire->up->up(wire->up->ctx, wire->connect.generation, &link);
}

/* ---- PUBACKs ---- */

static void answer(struct world *w, struct wire *wire, const struct flight *f)
{
    struct message *m = &w->book.messages[f->message];
    int is_refused = f->reason >= 0x80;

    say(w, "p%d m%d PUBACK 0x%02x", wire->process->index, f->message,
        (unsigned)f->reason);
    if (is_refused)
        m->may_repeat = 1;
    if (f->reason == 0x97)
        happened(w, THROTTLE);
    else if (is_refused)
        happened(w, f->reason == 0x90 ? REFUSE_FOR_GOOD : REFUSE);
    else
        happened(w, DELIVERED);
    m->refused += is_refused ? 1u : 0u;
    m->acked += is_refused ? 0u : 1u;
    wire->up->settled(wire->up->ctx, f->token,
        is_refused ? POSTBAG_EREFUSED : POSTBAG_OK, f->reason, NULL);
}

/* The one that is due first, so that late ones are overtaken. */
static int first_due(const struct world *w, const struct wire *wire)
{
    int first = -1;

    for (int i = 0; i < wire->flight_count; i++)
        if (is_due(w, wire->flights[i].ack_us) &&
            (first < 0 ||
                wire->flights[i].ack_us < wire->flights[first].ack_us))
            first = i;
    return first;
}

static void answer_publishes(struct world *w, struct wire *wire)
{
    int i;

    while (!wire->is_deaf && (i = first_due(w, wire)) >= 0) {
        struct flight f = wire->flights[i];

        wire->flights[i] = wire->flights[--wire->flight_count];
        answer(w, wire, &f);
    }
}

/* ---- commands ---- */

static int hand_up(struct wire *wire, int nth, const struct command *c)
{
    static const char *const topics[CONSUMERS] = {
        "cmd/fast", "cmd/slow", "cmd/pull"};
    char id[16] = "";
    char key[16] = "";
    struct postbag_property properties[] = {
        {"id", id}, {"source", "cloud"}, {"partitionkey", key}};
    const struct postbag_frame f = {
        .topic = topics[c->consumer],
        .payload = id,
        .payload_len = 3,
        .response_topic = "reply/a",
        .properties = properties,
        .property_count = c->key == 0 ? 2 : 3,
        .dup = c->deliveries > 1,
    };
    struct process *before = process_enter(wire->process);
    int err;

    (void)snprintf(id, sizeof(id), "c%d", nth);
    (void)snprintf(key, sizeof(key), "k%d", c->key);
    err = wire->up->arrived(wire->up->ctx, wire->connect.generation, &f);
    process_leave(wire->world, before);
    return err;
}

static void deliver(struct world *w, struct wire *wire)
{
    struct command *c = &w->book.commands[wire->next_command];
    int nth = wire->next_command++;
    int err;

    if (!c->is_sent || c->is_acked)
        return;
    c->deliveries++;
    err = hand_up(wire, nth, c);
    say(w, "p%d command c%d delivered: %d", wire->process->index, nth, err);
    if (wire->process->is_dying)
        return; /* no PUBACK leaves */
    if (err != POSTBAG_OK) {
        happened(w, NOT_ACCEPTED);
        wire->is_mute = wire->is_deaf = 1;
        wire->lost_us = w->now_us + 1000;
        wire->lost_err = POSTBAG_ELINK;
        return;
    }
    happened(w, c->is_in_inbox ? ACCEPTED_AGAIN : ACCEPTED);
    c->is_in_inbox = 1;
    if (!wire->is_mute)
        c->is_acked = 1;
}

/* ---- the step ---- */

static void step_wire(struct world *w, struct wire *wire)
{
    if (wire->state == WIRE_CONNECTING && is_due(w, wire->answer_us))
        answer_connect(w, wire);
    if (wire->state != WIRE_UP)
        return;
    answer_publishes(w, wire);
    if (is_due(w, wire->suback_us) && !wire->is_deaf) {
        wire->suback_us = 0;
        wire->is_subscribed = 1;
        wire->up->subscribed(wire->up->ctx, wire->connect.generation);
    }
    if (wire->is_subscribed && !wire->is_deaf &&
        wire->next_command < w->book.command_count)
        deliver(w, wire);
    if (is_due(w, wire->lost_us))
        lose(wire, wire->lost_err, wire->lost_reason);
}

void broker_step(struct world *w)
{
    for (int i = 0; i < WIRES; i++) {
        struct wire *wire = &w->broker.wires[i];

        if (wire->state < WIRE_CONNECTING || wire->process->thaws_us != 0)
            continue;
        step_wire(w, wire);
        (void)process_bury(wire->process);
    }
}

static int64_t earlier(int64_t a, int64_t b)
{
    return b != 0 && b < a ? b : a;
}

static int64_t wire_next_us(const struct world *w, const struct wire *wire)
{
    int64_t at = INT64_MAX;

    if (wire->state == WIRE_CONNECTING)
        return earlier(at, wire->answer_us);
    if (wire->state != WIRE_UP)
        return at;
    for (int i = 0; i < wire->flight_count && !wire->is_deaf; i++)
        at = earlier(at, wire->flights[i].ack_us);
    if (!wire->is_deaf)
        at = earlier(at, wire->suback_us);
    if (wire->is_subscribed && !wire->is_deaf &&
        wire->next_command < w->book.command_count)
        at = earlier(at, w->now_us);
    return earlier(at, wire->lost_us);
}

int64_t broker_next_us(const struct world *w)
{
    int64_t at = INT64_MAX;

    for (int i = 0; i < WIRES; i++)
        if (w->broker.wires[i].process == NULL ||
            w->broker.wires[i].process->thaws_us == 0)
            at = earlier(at, wire_next_us(w, &w->broker.wires[i]));
    return at;
}

/* ---- faults ---- */

static struct wire *some_wire(struct world *w)
{
    struct wire *wire = &w->broker.wires[luck_below(&w->luck, WIRES)];

    return wire->state == WIRE_UP ? wire : NULL;
}

static void forget_pubacks(struct world *w)
{
    int left = 3;

    for (int i = w->book.command_count - 1; i >= 0 && left > 0; i--, left--)
        w->book.commands[i].is_acked = 0;
    for (int i = 0; i < WIRES; i++)
        if (w->broker.wires[i].state == WIRE_UP)
            w->broker.wires[i].lost_us = w->now_us + 1;
}

static void swizzle(struct world *w)
{
    for (int i = 0; i < WIRES; i++) {
        w->broker.wires[i].is_cut = 1;
        w->broker.wires[i].is_mute = w->broker.wires[i].is_deaf = 1;
    }
    w->broker.heal_us = w->now_us + luck_between(&w->luck, 1000, 5000000);
}

/* To who is subscribed, if anybody is: from one on that it was sent before. */
static void deliver_again(struct world *w)
{
    for (int i = 0; i < WIRES; i++) {
        struct wire *wire = &w->broker.wires[i];

        if (wire->state != WIRE_UP || !wire->is_subscribed || wire->is_deaf ||
            wire->next_command == 0)
            continue;
        wire->next_command =
            (int)luck_below(&w->luck, (uint32_t)wire->next_command);
        w->book.commands[wire->next_command].is_acked = 0;
        happened(w, COMMAND_AGAIN);
        say(w, "broker: c%d once more", wire->next_command);
        return;
    }
}

void broker_strike(struct world *w, enum sim_mark fault)
{
    struct wire *wire = some_wire(w);

    if (fault == SWIZZLE)
        swizzle(w);
    else if (fault == OUTAGE)
        w->broker.away_until_us =
            w->now_us + luck_between(&w->luck, 1000, 20000) * 1000;
    else if (fault == SESSION_LOSS)
        forget_pubacks(w);
    else if (fault == COMMAND_AGAIN)
        deliver_again(w);
    else if (wire == NULL)
        return;
    else if (fault == HANG_UP || fault == DEAF)
        wire->is_deaf = 1;
    else if (fault == BLACK_HOLE)
        wire->is_deaf = wire->is_mute = 1;
    if (wire != NULL && (fault == HANG_UP || fault == OUTAGE)) {
        wire->is_mute = wire->is_deaf = 1;
        wire->lost_us = w->now_us + 1;
        wire->lost_err = POSTBAG_ELINK;
        wire->lost_reason = 0;
    }
    if (fault == COMMAND_AGAIN)
        return;
    happened(w, fault);
    say(w, "broker: %s", sim_mark_texts[fault]);
}

void broker_heal(struct world *w)
{
    w->broker.away_until_us = 0;
    for (int i = 0; i < WIRES; i++) {
        struct wire *wire = &w->broker.wires[i];

        wire->is_cut = 0;
        if (wire->state == WIRE_UP && (wire->is_mute || wire->is_deaf)) {
            wire->lost_us = w->now_us + 1000;
            wire->lost_err = POSTBAG_ELINK;
        }
    }
}
