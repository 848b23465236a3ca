/* SPDX-License-Identifier: MIT */
/*
 * SUBSCRIBE, and messages on their way up.
 *
 * Paho sends the PUBACK when on_message has returned, whatever it returned.
 * So the event "arrived" has stored the message before that; and if it could
 * not, the socket is shut down first: the PUBACK cannot leave, the connection
 * dies, and the broker sends the message again on the next one.
 *
 * Once the socket is shut nothing more is handed up.  Paho may still find
 * messages in its buffers (or OpenSSL in its); they get no PUBACK either and
 * come again.  on_message always returns 1: after a 0 Paho would keep the
 * message, acknowledge it all the same, and acknowledge later ones before we
 * have seen them.
 *
 * The callbacks run on Paho's receiving thread, one message after the other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paho_transport.h"

#define SUBACK_REFUSED 0x80

/* ---- messages ------------------------------------------------------------ */

/* Property texts come without NUL; this holds copies until arrived returns. */
struct texts {
    struct postbag_property *users;
    char *next;
    void *block;
};

static size_t text_bytes(const MQTTProperty *p)
{
    switch (MQTTProperty_getType(p->identifier)) {
    case MQTTPROPERTY_TYPE_UTF_8_STRING_PAIR:
        return (size_t)p->value.data.len + (size_t)p->value.value.len + 2;
    case MQTTPROPERTY_TYPE_UTF_8_ENCODED_STRING:
        return (size_t)p->value.data.len + 1;
    default:
        return 0;
    }
}

static int make_room(struct texts *x, const MQTTProperties *p)
{
    size_t users = 0;
    size_t bytes = 0;
    for (int i = 0; i < p->count; i++) {
        users += p->array[i].identifier == MQTTPROPERTY_CODE_USER_PROPERTY;
        bytes += text_bytes(&p->array[i]);
    }
    size_t table = users * sizeof(*x->users);
    x->block = malloc(table + bytes + 1);
    if (x->block == NULL)
        return POSTBAG_ENOMEM;
    x->users = x->block;
    x->next = (char *)x->block + table;
    return POSTBAG_OK;
}

static const char *copy_text(struct texts *x, const MQTTLenString *s)
{
    char *text = x->next;
    memcpy(text, s->data, (size_t)s->len);
    text[s->len] = '\0';
    x->next += s->len + 1;
    return text;
}

static void take_user(
    struct postbag_frame *f, struct texts *x, const MQTTProperty *p)
{
    x->users[f->property_count].name = copy_text(x, &p->value.data);
    x->users[f->property_count].value = copy_text(x, &p->value.value);
    f->property_count++;
}

static void take_property(
    struct postbag_frame *f, struct texts *x, const MQTTProperty *p)
{
    /* unsigned, since of the many codes only these concern a message */
    switch ((unsigned)p->identifier) {
    case MQTTPROPERTY_CODE_PAYLOAD_FORMAT_INDICATOR:
        f->is_text = p->value.byte != 0;
        break;
    case MQTTPROPERTY_CODE_MESSAGE_EXPIRY_INTERVAL:
        /* 0 is less than a second, which the broker rounded down */
        f->expiry_s = p->value.integer4 > 0 ? p->value.integer4 : 1;
        break;
    case MQTTPROPERTY_CODE_CONTENT_TYPE:
        f->content_type = copy_text(x, &p->value.data);
        break;
    case MQTTPROPERTY_CODE_RESPONSE_TOPIC:
        f->response_topic = copy_text(x, &p->value.data);
        break;
    case MQTTPROPERTY_CODE_CORRELATION_DATA:
        f->correlation = p->value.data.data;
        f->correlation_len = (size_t)p->value.data.len;
        break;
    case MQTTPROPERTY_CODE_USER_PROPERTY:
        take_user(f, x, p);
        break;
    default:
        break;
    }
}

static int hand_up(
    struct paho *t, const char *topic, const MQTTAsync_message *m)
{
    struct texts x = {0};
    struct postbag_frame f = {
        .topic = topic,
        .payload = m->payload,
        .payload_len = (size_t)m->payloadlen,
        .retain = m->retained != 0,
        .dup = m->dup != 0,
    };
    if (make_room(&x, &m->properties) != POSTBAG_OK)
        return POSTBAG_ENOMEM;
    for (int i = 0; i < m->properties.count; i++)
        take_property(&f, &x, &m->properties.array[i]);
    f.properties = x.users;
    int err = t->up->arrived(t->up->ctx, t->generation, &f);
    free(x.block);
    return err;
}

static unsigned is_shut(struct paho *t)
{
    pthread_mutex_lock(&t->lock);
    unsigned shut = t->is_shut;
    pthread_mutex_unlock(&t->lock);
    return shut;
}

int postbag__paho_on_message(
    void *ctx, char *topic, int topic_len, MQTTAsync_message *m)
{
    struct paho *t = ctx;
    (void)topic_len; /* a topic has no NUL (MQTT 5, 1.5.4) */
    if (!is_shut(t) && hand_up(t, topic, m) < 0)
        postbag__paho_link_drop(t, POSTBAG_ELINK, 0,
            "a message was not taken; the broker will send it again");
    MQTTAsync_freeMessage(&m);
    MQTTAsync_free(topic);
    return 1;
}

/* ---- subscribe ----------------------------------------------------------- */

static void refused(struct paho *t, int reason)
{
    char text[TEXT_BYTES];
    (void)snprintf(text, sizeof(text),
        "the broker refused a subscription: 0x%02x (%s)", (unsigned)reason,
        postbag_reason_text(reason, 0));
    postbag__paho_link_drop(t, POSTBAG_EREFUSED, reason, text);
}

/* QoS 0 would lose commands without a trace: as good as a refusal. */
static void granted(struct paho *t, int qos)
{
    if (qos < 1) {
        postbag__paho_link_drop(t, POSTBAG_EREFUSED, qos,
            "the broker grants a subscription QoS 0 only (0x00)");
        return;
    }
    pthread_mutex_lock(&t->lock);
    unsigned is_last = --t->ungranted == 0;
    pthread_mutex_unlock(&t->lock);
    if (is_last)
        t->up->subscribed(t->up->ctx, t->generation);
}

static void on_granted(void *ctx, MQTTAsync_successData *d)
{
    granted(ctx, d->alt.qos);
}

static void on_granted5(void *ctx, MQTTAsync_successData5 *d)
{
    granted(ctx, (int)d->reasonCode);
}

/* Other codes: the connection died, which is reported by itself. */
static void on_refused(void *ctx, MQTTAsync_failureData *d)
{
    if (d->code >= SUBACK_REFUSED)
        refused(ctx, d->code);
}

static void on_refused5(void *ctx, MQTTAsync_failureData5 *d)
{
    if ((int)d->reasonCode >= SUBACK_REFUSED)
        refused(ctx, (int)d->reasonCode);
}

static int check_up(struct paho *t)
{
    pthread_mutex_lock(&t->lock);
    enum link_state state = t->state;
    pthread_mutex_unlock(&t->lock);
    if (state == LINK_UP)
        return POSTBAG_OK;
    return state == LINK_LOST ? POSTBAG_ELINK : POSTBAG_ESTATE;
}

/* One SUBSCRIBE per filter: Paho reports a refusal within a longer one as
   success, and leaks its options when the connection dies. */
int postbag__paho_subscribe(
    struct postbag_transport *base, const char *const *filters, size_t count)
{
    struct paho *t = postbag__paho_of(base);
    int err = check_up(t);
    if (err != POSTBAG_OK)
        return err;
    pthread_mutex_lock(&t->lock);
    t->ungranted = count;
    pthread_mutex_unlock(&t->lock);
    for (size_t i = 0; i < count; i++) {
        MQTTAsync_responseOptions r = MQTTAsync_responseOptions_initializer;
        r.context = t;
        if (postbag__paho_is_v5(t)) {
            r.onSuccess5 = on_granted5;
            r.onFailure5 = on_refused5;
        } else {
            r.onSuccess = on_granted;
            r.onFailure = on_refused;
        }
        int rc = MQTTAsync_subscribe(t->handle, filters[i], 1, &r);
        if (rc != MQTTASYNC_SUCCESS)
            return postbag__paho_error(rc);
    }
    return POSTBAG_OK;
}
