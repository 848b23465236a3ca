/* SPDX-License-Identifier: MIT */
/*
 * A connection as a relay sees it: the functions of transport.h.  What the
 * contract forbids is a rule broken, too.
 */
#include <inttypes.h>
#include <string.h>

#include "invariants.h"
#include "world.h"

static struct wire *self(struct postbag_transport *t)
{
    return (struct wire *)t;
}

static void demand(struct wire *wire, int holds, const char *what)
{
    if (!holds)
        broken(wire->world, "transport", "%s", what);
}

static int64_t soon(struct world *w, int64_t most_ms)
{
    return w->now_us + luck_between(&w->luck, 1, most_ms * 1000);
}

static int wire_connect(struct postbag_transport *t,
    const struct postbag_connect *c, const struct postbag_transport_events *up)
{
    struct wire *wire = self(t);
    struct world *w = wire->world;

    demand(wire, wire->state == WIRE_CLOSED, "connect while connected");
    if (wire->process->is_dying)
        return POSTBAG_ELINK;
    S9_reconnects_back_off(w, wire);
    wire->state = WIRE_CONNECTING;
    wire->up = up;
    wire->connect = *c;
    wire->answer_us = soon(w, 50);
    if (w->broker.away_until_us > w->now_us || wire->is_cut) {
        wire->connack = -1;
    } else if (strikes(w, REFUSE_CONNECT)) {
        static const int reasons[] = {-1, 0x80, 0x87, 0x88, 0x89, 0x97, 0x9f};

        happened(w, REFUSE_CONNECT);
        wire->connack = reasons[luck_below(&w->luck, 7)];
    } else if (strikes(w, MUTE_CONNECT)) {
        happened(w, MUTE_CONNECT);
        wire->answer_us = 0;
    }
    say(w, "p%d %s connects", wire->process->index,
        wire->is_inbound ? "in" : "out");
    return POSTBAG_OK;
}

/* ---- publishing ---- */

static uint64_t mix(uint64_t print, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;

    for (size_t i = 0; i < len; i++)
        print = (print ^ p[i]) * UINT64_C(1099511628211);
    return (print ^ len) * UINT64_C(1099511628211);
}

static uint64_t mix_text(uint64_t print, const char *text)
{
    return text == NULL ? mix(print, "", 0) : mix(print, text, strlen(text));
}

/* All but time and timequality, which are put right once the clock is set. */
static uint64_t print_of(const struct postbag_frame *f, const char **id)
{
    uint64_t print = mix_text(UINT64_C(14695981039346656037), f->topic);

    print = mix(print, f->payload, f->payload_len);
    print = mix_text(print, f->content_type);
    print = mix_text(print, f->response_topic);
    for (size_t i = 0; i < f->property_count; i++) {
        const struct postbag_property *p = &f->properties[i];

        if (strcmp(p->name, "id") == 0)
            *id = p->value;
        if (strncmp(p->name, "time", 4) != 0)
            print = mix_text(mix_text(print, p->name), p->value);
    }
    return mix(print, &f->retain, sizeof(f->retain));
}

/* What the broker says to it, and when. */
static void plan_answer(
    struct wire *wire, struct message *m, struct flight *flight)
{
    static const int reasons[] = {0x80, 0x83, 0x87};
    struct world *w = wire->world;

    flight->ack_us = soon(w, 20);
    if (strikes(w, ACK_LATE)) {
        happened(w, ACK_LATE);
        flight->ack_us = soon(w, 4000);
    }
    if (m->refusals_left == 0 && strikes(w, REFUSE))
        m->refusals_left = 1 + luck_below(&w->luck, 3);
    if (strikes(w, REFUSE_FOR_GOOD))
        m->is_hopeless = 1;
    if (m->is_hopeless && !w->is_healed) {
        flight->reason = 0x90;
    } else if (m->refusals_left > 0 && !w->is_healed) {
        m->refusals_left--;
        flight->reason = reasons[luck_below(&w->luck, 3)];
    } else if (strikes(w, THROTTLE)) {
        flight->reason = 0x97;
    }
}

static void end_soon(struct wire *wire, int64_t most_ms)
{
    static const int reasons[] = {0, 0, 0x81, 0x87, 0x8b, 0x97};
    struct world *w = wire->world;

    wire->is_mute = 1;
    wire->is_deaf = 1;
    wire->lost_us = soon(w, most_ms);
    wire->lost_reason = reasons[luck_below(&w->luck, 6)];
    wire->lost_err = wire->lost_reason == 0 ? POSTBAG_ELINK : POSTBAG_EREFUSED;
}

static void reach_broker(
    struct wire *wire, struct message *m, struct flight *flight, uint64_t print)
{
    struct world *w = wire->world;

    w->broker.publishes++;
    m->published++;
    happened(w, m->published == 1 ? PUBLISHED : REPEATED);
    if (m->published == 1) {
        m->first_place = ++w->book.first_deliveries;
        m->print = print;
    }
    plan_answer(wire, m, flight);
    if (m->is_poison && !w->is_healed) {
        happened(w, POISON);
        flight->ack_us = 0;
        end_soon(wire, 10);
    } else if (strikes(w, ACK_LOST)) {
        happened(w, ACK_LOST);
        flight->ack_us = 0;
        end_soon(wire, 3000);
        if (luck_hits(&w->luck, 300))
            wire->lost_us = 0; /* nobody tells: the relay has to notice */
    }
}

/* PUBACKs of a connection come in order, or not. */
static void line_up(struct wire *wire, struct flight *flight)
{
    struct world *w = wire->world;

    if (flight->ack_us == 0 || w->p.rates[ACKS_REORDERED] == 0)
        return;
    if (strikes(w, ACKS_REORDERED)) {
        happened(w, ACKS_REORDERED);
        return;
    }
    for (int i = 0; i < wire->flight_count; i++)
        if (wire->flights[i].ack_us > flight->ack_us)
            flight->ack_us = wire->flights[i].ack_us;
}

static int may_send(struct wire *wire)
{
    struct world *w = wire->world;

    demand(wire, wire->state >= WIRE_CONNECTING, "send without a connection");
    if (wire->process->is_dying || wire->state != WIRE_UP ||
        wire->flight_count == FLIGHTS)
        return POSTBAG_ELINK;
    if (strikes(w, SEND_AGAIN_LATER)) {
        happened(w, SEND_AGAIN_LATER);
        return POSTBAG_EAGAIN;
    }
    if (strikes(w, SEND_FAILS)) {
        happened(w, SEND_FAILS);
        end_soon(wire, 100);
        return POSTBAG_ELINK;
    }
    return POSTBAG_OK;
}

static int wire_send(
    struct postbag_transport *t, const struct postbag_frame *f, uint32_t token)
{
    struct wire *wire = self(t);
    struct world *w = wire->world;
    const char *text = NULL;
    uint64_t print = print_of(f, &text);
    struct postbag_id id;
    struct flight flight = {.token = token};
    struct message *m = NULL;
    int err = may_send(wire);

    if (err != POSTBAG_OK)
        return err;
    if (text != NULL && postbag_id_parse(&id, text) == POSTBAG_OK)
        m = book_find(w, id.b);
    if (m == NULL) {
        broken(w, "S1_atomicity", "a message was sent that nobody put");
        return POSTBAG_ELINK;
    }
    flight.message = (int)(m - w->book.messages);
    say(w, "p%d sends m%d seq %" PRId64 "%s", wire->process->index,
        flight.message, m->seq, wire->is_mute ? " in vain" : "");
    process_nest(w);
    check_attempt(w, wire->process, m, print);
    if (!wire->is_mute)
        reach_broker(wire, m, &flight, print);
    m->may_repeat = 0;
    m->last_disruption = w->disruptions;
    line_up(wire, &flight);
    wire->flights[wire->flight_count++] = flight;
    if (strikes(w, KILL_AT_PUBLISH)) {
        happened(w, KILL_AT_PUBLISH);
        process_kill(wire->process, "at publish");
    }
    return POSTBAG_OK;
}

static int wire_subscribe(
    struct postbag_transport *t, const char *const *filters, size_t count)
{
    struct wire *wire = self(t);

    demand(wire, filters != NULL && count > 0, "subscribe to nothing");
    if (wire->process->is_dying || wire->state != WIRE_UP)
        return POSTBAG_ELINK;
    wire->suback_us = soon(wire->world, 30);
    if (strikes(wire->world, NO_SUBACK)) {
        happened(wire->world, NO_SUBACK);
        wire->suback_us = 0;
    }
    return POSTBAG_OK;
}

/* ---- the end of a connection ---- */

static void forget_flights(struct wire *wire, int is_told)
{
    struct world *w = wire->world;

    for (int i = 0; i < wire->flight_count; i++) {
        struct message *m = &w->book.messages[wire->flights[i].message];

        m->may_repeat = 1;
        if (wire->process->is_dying || !is_told)
            m->deaths++;
        else
            m->ends++;
        if (is_told)
            wire->up->settled(
                wire->up->ctx, wire->flights[i].token, POSTBAG_ELINK, 0, NULL);
    }
    wire->flight_count = 0;
}

/* What became of a held one is written at once: if the database is busy until
 * the connection ends, nobody remembers. */
static void forget_unwritten(struct world *w)
{
    for (int i = 0; i < w->book.message_count; i++)
        if (w->book.messages[i].state != 0)
            w->book.messages[i].may_repeat = 1;
}

static void wire_disconnect(struct postbag_transport *t, unsigned abort)
{
    struct wire *wire = self(t);

    (void)abort;
    demand(wire, wire->state >= WIRE_CONNECTING, "disconnect while closed");
    forget_flights(wire, 1);
    forget_unwritten(wire->world);
    wire->state = WIRE_CLOSED;
    wire->answer_us = wire->lost_us = wire->suback_us = 0;
    wire->connack = 0;
    wire->is_mute = wire->is_deaf = wire->is_subscribed = 0;
}

static void wire_destroy(struct postbag_transport *t)
{
    demand(self(t), self(t)->state == WIRE_CLOSED, "destroy while connected");
    self(t)->state = WIRE_FREE;
}

static int wire_is_rival(
    const struct postbag_transport *a, const struct postbag_transport *b)
{
    (void)a;
    (void)b;
    return 0;
}

static const struct postbag_transport_ops ops = {
    .struct_size = sizeof(ops),
    .connect = wire_connect,
    .send = wire_send,
    .subscribe = wire_subscribe,
    .disconnect = wire_disconnect,
    .destroy = wire_destroy,
    .is_rival = wire_is_rival,
};

struct postbag_transport *wire_new(
    struct world *w, struct process *p, int is_inbound)
{
    struct wire *wire = w->broker.wires;

    while (wire->state != WIRE_FREE)
        wire++;
    *wire = (struct wire){.base.ops = &ops,
        .world = w,
        .process = p,
        .is_inbound = is_inbound,
        .state = WIRE_CLOSED};
    return &wire->base;
}
