/* SPDX-License-Identifier: MIT */
/*
 * PUBLISH with QoS 1, and what became of it.
 *
 * Each accepted send owns one slot until Paho reports it: onSuccess (PUBACK
 * below 0x80), onFailure5 with a reason (PUBACK of 0x80 and more), or a
 * failure without one (the connection died, or MQTTAsync_destroy gives back
 * what is still in flight; perhaps delivered).  deliveryComplete is not used:
 * it also fires for refused messages.  Of Paho's failure data only code,
 * reasonCode and the Reason String are read; packet_type points into freed
 * memory up to 1.3.12.
 *
 * send runs on the engine's thread, the callbacks on Paho's or, within
 * disconnect, on the engine's.
 */
#include <stdio.h>
#include <string.h>

#include "paho_transport.h"

/* MQTT 5, 1.5.5: the largest remaining length */
#define REMAINING_MAX 268435455u
#define STRING_MAX 65535u
#define FIRST_REFUSAL 0x80

/* ---- slots --------------------------------------------------------------- */

void postbag__paho_slots_init(struct paho *t)
{
    t->free_slots = NULL;
    for (size_t i = SLOT_COUNT; i > 0; i--) {
        struct slot *s = &t->slots[i - 1];
        *s = (struct slot){.owner = t, .next = t->free_slots};
        t->free_slots = s;
    }
}

static int take_slot(struct paho *t, uint32_t token, struct slot **out)
{
    int err = POSTBAG_OK;
    pthread_mutex_lock(&t->lock);
    *out = t->free_slots;
    if (t->state != LINK_UP) {
        err = POSTBAG_ELINK;
    } else if (*out == NULL) {
        err = POSTBAG_EAGAIN;
    } else {
        t->free_slots = (*out)->next;
        (*out)->token = token;
        (*out)->is_used = 1;
    }
    pthread_mutex_unlock(&t->lock);
    return err;
}

static uint32_t give_slot(struct slot *s)
{
    struct paho *t = s->owner;
    pthread_mutex_lock(&t->lock);
    uint32_t token = s->token;
    s->is_used = 0;
    s->next = t->free_slots;
    t->free_slots = s;
    pthread_mutex_unlock(&t->lock);
    return token;
}

static void settle_with(struct slot *s, int err, int reason, const char *text)
{
    const struct postbag_transport_events *up = s->owner->up;
    up->settled(up->ctx, give_slot(s), err, reason, text);
}

static void settle(struct slot *s, int err, int reason)
{
    settle_with(s, err, reason, NULL);
}

/* Paho drops a queued command without a callback when its malloc fails. */
void postbag__paho_slots_settle(struct paho *t)
{
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        if (t->slots[i].is_used)
            settle(&t->slots[i], POSTBAG_ELINK, 0);
    }
}

/* ---- callbacks ----------------------------------------------------------- */

static void on_acked(void *ctx, MQTTAsync_successData *d)
{
    (void)d;
    settle(ctx, POSTBAG_OK, 0);
}

static void on_acked5(void *ctx, MQTTAsync_successData5 *d)
{
    settle(ctx, POSTBAG_OK, (int)d->reasonCode);
}

static void on_failed(void *ctx, MQTTAsync_failureData *d)
{
    (void)d;
    settle(ctx, POSTBAG_ELINK, 0);
}

/* Up to a NUL, and no more than anybody will read. */
static void refused(struct slot *s, int reason, MQTTProperties *p)
{
    const MQTTProperty *words =
        MQTTProperties_getProperty(p, MQTTPROPERTY_CODE_REASON_STRING);
    char text[256];
    if (words == NULL) {
        settle(s, POSTBAG_EREFUSED, reason);
        return;
    }
    (void)snprintf(text, sizeof(text), "%.*s", words->value.data.len,
        words->value.data.data);
    settle_with(s, POSTBAG_EREFUSED, reason, text);
}

static void on_failed5(void *ctx, MQTTAsync_failureData5 *d)
{
    int reason = (int)d->reasonCode;
    if (reason >= FIRST_REFUSAL)
        refused(ctx, reason, &d->properties);
    else
        settle(ctx, POSTBAG_ELINK, 0);
}

/* ---- properties ---------------------------------------------------------- */

/* A list that grows until something does not fit or memory is out. */
struct builder {
    MQTTProperties list;
    int err;
};

static MQTTLenString string_of(struct builder *b, const void *bytes, size_t len)
{
    if (len > STRING_MAX && b->err == POSTBAG_OK)
        b->err = POSTBAG_EINVAL;
    return (MQTTLenString){
        .len = (int)len,
        .data = (char *)(uintptr_t)bytes,
    };
}

static void add(struct builder *b, const MQTTProperty *p)
{
    if (b->err == POSTBAG_OK && MQTTProperties_add(&b->list, p) != 0)
        b->err = POSTBAG_ENOMEM;
}

static void add_bytes(
    struct builder *b, enum MQTTPropertyCodes id, const void *bytes, size_t len)
{
    MQTTProperty p = {.identifier = id};
    p.value.data = string_of(b, bytes, len);
    add(b, &p);
}

static void add_text(
    struct builder *b, enum MQTTPropertyCodes id, const char *text)
{
    if (text != NULL)
        add_bytes(b, id, text, strlen(text));
}

static void add_user(struct builder *b, const struct postbag_property *user)
{
    MQTTProperty p = {.identifier = MQTTPROPERTY_CODE_USER_PROPERTY};
    p.value.data = string_of(b, user->name, strlen(user->name));
    p.value.value = string_of(b, user->value, strlen(user->value));
    add(b, &p);
}

static int build(struct builder *b, const struct postbag_frame *f)
{
    MQTTProperty expiry = {
        .identifier = MQTTPROPERTY_CODE_MESSAGE_EXPIRY_INTERVAL};
    MQTTProperty is_text = {
        .identifier = MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR};
    is_text.value.byte = 1;
    /* Paho 1.3.12 cannot encode more: 68 years are as good as 136 */
    expiry.value.integer4 =
        f->expiry_s & 0x80000000u ? 0x7FFFFFFFu : f->expiry_s;
    if (f->is_text)
        add(b, &is_text);
    if (f->expiry_s > 0)
        add(b, &expiry);
    add_text(b, MQTTPROPERTY_CODE_CONTENT_TYPE, f->content_type);
    add_text(b, MQTTPROPERTY_CODE_RESPONSE_TOPIC, f->response_topic);
    if (f->correlation_len > 0)
        add_bytes(b, MQTTPROPERTY_CODE_CORRELATION_DATA, f->correlation,
            f->correlation_len);
    for (size_t i = 0; i < f->property_count; i++)
        add_user(b, &f->properties[i]);
    return b->err;
}

/* ---- send ---------------------------------------------------------------- */

/*
 * Before anything is given to Paho the socket is asked whether it takes bytes.
 * What Paho could not write it queues, and what is queued when the handle is
 * destroyed leaks (topic and payload); and a PUBLISH whose write fails is
 * freed twice, which only Paho's own heap check catches.  So while a link
 * stalls nothing is added, and to a dead one nothing is written, but for what
 * was on its way in that moment.
 */

/* Bytes of a number in MQTT's variable length encoding. */
static size_t width(size_t number)
{
    size_t bytes = 1;
    for (; number > 127; number /= 128)
        bytes++;
    return bytes;
}

/* Paho sends whatever it is given; a broker hangs up on what is too large. */
static int check_size(const struct paho *t, const struct postbag_frame *f,
    const MQTTProperties *p)
{
    size_t topic = strlen(f->topic);
    if (topic > STRING_MAX || f->payload_len > REMAINING_MAX)
        return POSTBAG_EINVAL;
    size_t remaining = 2 + topic + 2 + f->payload_len;
    if (postbag__paho_is_v5(t))
        remaining += width((size_t)p->length) + (size_t)p->length;
    if (remaining > REMAINING_MAX)
        return POSTBAG_EINVAL;
    size_t packet = 1 + width(remaining) + remaining;
    if (t->max_packet > 0 && packet > t->max_packet)
        return POSTBAG_EINVAL;
    return POSTBAG_OK;
}

static int publish(struct paho *t, const struct postbag_frame *f,
    const MQTTProperties *p, struct slot *s)
{
    MQTTAsync_responseOptions r = MQTTAsync_responseOptions_initializer;
    r.context = s;
    if (postbag__paho_is_v5(t)) {
        r.onSuccess5 = on_acked5;
        r.onFailure5 = on_failed5;
        r.properties = *p;
    } else {
        r.onSuccess = on_acked;
        r.onFailure = on_failed;
    }
    return postbag__paho_error(
        MQTTAsync_send(t->handle, f->topic, (int)f->payload_len,
            f->payload_len > 0 ? f->payload : "", 1, f->retain != 0, &r));
}

int postbag__paho_send(struct postbag_transport *base,
    const struct postbag_frame *f, uint32_t token)
{
    struct paho *t = postbag__paho_of(base);
    struct builder b = {.list = MQTTProperties_initializer};
    struct slot *s = NULL;
    int err = POSTBAG_OK;
    if (f->retain && t->is_retain_refused)
        return POSTBAG_EINVAL;
    if (postbag__paho_is_v5(t))
        err = build(&b, f);
    if (err == POSTBAG_OK)
        err = check_size(t, f, &b.list);
    if (err == POSTBAG_OK)
        err = postbag__paho_socket_ready(t);
    if (err == POSTBAG_OK)
        err = take_slot(t, token, &s);
    if (err != POSTBAG_OK)
        goto out;
    err = publish(t, f, &b.list, s);
    if (err != POSTBAG_OK)
        (void)give_slot(s); /* no callback comes */
out:
    MQTTProperties_free(&b.list);
    return err;
}
