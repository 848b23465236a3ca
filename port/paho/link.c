/* SPDX-License-Identifier: MIT */
/*
 * One connection attempt: CONNECT, what CONNACK says, and how it ends.
 *
 *     CONNECTING --onSuccess--> UP --lost--> LOST
 *          |                                  ^
 *          +--------onFailure, timeout--------+
 *
 * Every end passes through report_lost, which reports once.  Callbacks come
 * on Paho's threads (or on the one in MQTTAsync_destroy) with Paho's global
 * mutex held; they record, hang up and hand on, and call nothing of Paho that
 * takes that mutex.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paho_transport.h"

/* Paho 1.3.12 encodes four-byte properties above this wrongly: "for ever"
   would go out as 255 s. */
#define FOUR_BYTE_MAX 0x7FFFFFFFu
#define QOS_NOT_SUPPORTED 0x9B
/* The same in MQTT 5, and from a broker that knows 3.1.1 only. */
#define CLIENT_ID_NOT_VALID 0x85
#define CLIENT_ID_REJECTED 2
/* As of option client_id. */
#define CLIENT_ID_MAX 255

int postbag__paho_error(int rc)
{
    switch (rc) {
    case MQTTASYNC_SUCCESS:
        return POSTBAG_OK;
    case -99: /* PAHO_MEMORY_ERROR, which is in no public header */
        return POSTBAG_ENOMEM;
    case MQTTASYNC_MAX_MESSAGES_INFLIGHT:
    case MQTTASYNC_NO_MORE_MSGIDS:
    case MQTTASYNC_MAX_BUFFERED_MESSAGES:
        return POSTBAG_EAGAIN;
    case MQTTASYNC_FAILURE:
    case MQTTASYNC_DISCONNECTED:
    case MQTTASYNC_OPERATION_INCOMPLETE:
        return POSTBAG_ELINK;
    default:
        return POSTBAG_EINVAL;
    }
}

static void report_lost(struct paho *t, int err, int reason, const char *text)
{
    pthread_mutex_lock(&t->lock);
    unsigned is_first = t->state == LINK_CONNECTING || t->state == LINK_UP;
    if (is_first)
        t->state = LINK_LOST;
    pthread_mutex_unlock(&t->lock);
    postbag__paho_trace_end(t);
    postbag__paho_tls_settled(t);
    if (is_first)
        t->up->lost(t->up->ctx, t->generation, err, reason, text);
}

void postbag__paho_link_drop(
    struct paho *t, int err, int reason, const char *text)
{
    postbag__paho_socket_shut(t);
    report_lost(t, err, reason, text);
}

/* ---- up ------------------------------------------------------------------ */

static uint32_t number(
    const MQTTProperties *p, enum MQTTPropertyCodes id, uint32_t otherwise)
{
    MQTTProperties *props = (MQTTProperties *)(uintptr_t)p;
    if (!MQTTProperties_hasProperty(props, id))
        return otherwise;
    return (uint32_t)MQTTProperties_getNumericValue(props, id);
}

static void keep_id(struct paho *t, char *id)
{
    struct server *s = &t->servers.list[t->server];
    free(s->assigned_id);
    s->assigned_id = id;
}

/* Out of memory, or an id that cannot be used, means one more new session,
   nothing worse. */
static void keep_assigned_id(struct paho *t, const MQTTProperties *p)
{
    MQTTProperties *props = (MQTTProperties *)(uintptr_t)p;
    const MQTTProperty *given = MQTTProperties_getProperty(
        props, MQTTPROPERTY_CODE_ASSIGNED_CLIENT_IDENTIFER);
    if (given == NULL || t->config.client_id != NULL)
        return;
    const char *id = given->value.data.data;
    size_t len = (size_t)given->value.data.len;
    if (len >= 1 && len <= CLIENT_ID_MAX && postbag_is_mqtt_text(id, len))
        keep_id(t, strndup(id, len));
}

static unsigned go_up(struct paho *t)
{
    pthread_mutex_lock(&t->lock);
    unsigned is_wanted = t->state == LINK_CONNECTING;
    if (is_wanted)
        t->state = LINK_UP;
    pthread_mutex_unlock(&t->lock);
    return is_wanted;
}

static void connected(
    struct paho *t, struct postbag_link *link, unsigned is_qos0_only)
{
    if (postbag__paho_socket_find(t) != POSTBAG_OK) {
        report_lost(t, POSTBAG_EPROTO, 0,
            "Paho's trace did not show the socket; does the application "
            "set a trace callback?");
        return;
    }
    postbag__paho_trace_end(t);
    postbag__paho_tls_settled(t);
    postbag__paho_tls_report(t, link);
    postbag__paho_target_worked(t);
    if (is_qos0_only) {
        postbag__paho_link_drop(t, POSTBAG_EREFUSED, QOS_NOT_SUPPORTED,
            "the broker takes QoS 0 only");
        return;
    }
    if (link->keepalive_s > 0 && link->keepalive_s < t->keepalive_s) {
        t->keepalive_s = link->keepalive_s;
        postbag__paho_link_drop(t, POSTBAG_EAGAIN, 0,
            "the broker wants a shorter keep alive: connect again with it");
        return;
    }
    if (go_up(t))
        t->up->up(t->up->ctx, t->generation, link);
    else
        postbag__paho_socket_shut(t); /* disconnect has begun */
}

static void on_connected(void *ctx, MQTTAsync_successData *d)
{
    struct paho *t = ctx;
    struct postbag_link link = {
        .mqtt_version = 4,
        .session_present = d->alt.connect.sessionPresent != 0,
        .server = t->server,
    };
    connected(t, &link, 0);
}

static void on_connected5(void *ctx, MQTTAsync_successData5 *d)
{
    struct paho *t = ctx;
    const MQTTProperties *p = &d->properties;
    struct postbag_link link = {
        .mqtt_version = 5,
        .session_present = d->alt.connect.sessionPresent != 0,
        .receive_max = number(p, MQTTPROPERTY_CODE_RECEIVE_MAXIMUM, 0),
        .max_packet = number(p, MQTTPROPERTY_CODE_MAXIMUM_PACKET_SIZE, 0),
        .keepalive_s = number(p, MQTTPROPERTY_CODE_SERVER_KEEP_ALIVE, 0),
        .server = t->server,
    };
    keep_assigned_id(t, p);
    t->max_packet = link.max_packet;
    t->is_retain_refused =
        number(p, MQTTPROPERTY_CODE_RETAIN_AVAILABLE, 1) == 0;
    connected(t, &link, number(p, MQTTPROPERTY_CODE_MAXIMUM_QOS, 2) == 0);
}

/* ---- lost ---------------------------------------------------------------- */

/* What Paho's two texts mean.  A broker that does not know MQTT 5 may hang up
   on CONNECT without a word, as RabbitMQ 3.10 does; so does a port of TLS. */
static const char *explain(const struct paho *t, const char *message)
{
    if (message == NULL)
        return "not reachable";
    if (strcmp(message, "TCP/TLS connect failure") == 0)
        return postbag__paho_tls_is_begun(t)
                   ? "it ended the TLS handshake; does this port speak TLS?"
                   : "refused, or not reachable";
    if (strcmp(message, "TCP connect completion failure") != 0)
        return message;
    if (t->is_tls)
        return postbag__paho_is_v5(t)
                   ? "it hung up on our CONNECT; does it know MQTT 5? see "
                     "option mqtt_version"
                   : "it hung up on our CONNECT";
    return postbag__paho_is_v5(t)
               ? "it hung up on our CONNECT; does this port want TLS (ssl://)? "
                 "does it know MQTT 5? see option mqtt_version"
               : "it hung up on our CONNECT; does this port want TLS (ssl://)?";
}

static void refused_by(struct paho *t, int code, const char *where)
{
    char text[HOST_BYTES + 240];
    unsigned is_v5 = postbag__paho_is_v5(t);
    if (code == CLIENT_ID_NOT_VALID || code == CLIENT_ID_REJECTED)
        keep_id(t, NULL);
    (void)snprintf(text, sizeof(text),
        "the broker refused the connection: 0x%02x (%s), at %s%s",
        (unsigned)code, postbag_reason_text(code, 1), where,
        is_v5 && (code == 0x84 || code == 1)
            ? "; it may not know MQTT 5: see option mqtt_version"
            : "");
    report_lost(t, POSTBAG_EREFUSED, code, text);
}

/* code: the broker's answer if positive, else Paho's error. */
static void failed(struct paho *t, int code, const char *message)
{
    char text[TLS_TEXT_BYTES + HOST_BYTES + 240];
    char why[TLS_TEXT_BYTES];
    char where[HOST_BYTES + 64];
    postbag__paho_target_text(t, where, sizeof(where));
    if (code > 0) {
        refused_by(t, code, where);
        return;
    }
    if (postbag__paho_tls_why(t, why, sizeof(why)))
        (void)snprintf(text, sizeof(text), "TLS: %s, at %s", why, where);
    else
        (void)snprintf(text, sizeof(text), "no connection: %s: %s", where,
            explain(t, message));
    report_lost(t, POSTBAG_ELINK, 0, text);
}

static void on_failed(void *ctx, MQTTAsync_failureData *d)
{
    failed(ctx, d->code, d->message);
}

/* The refusal stands in code up to 1.3.14, in reasonCode from 1.3.15 on. */
static void on_failed5(void *ctx, MQTTAsync_failureData5 *d)
{
    failed(ctx, d->reasonCode > 0 ? (int)d->reasonCode : d->code, d->message);
}

static void on_connection_lost(void *ctx, char *cause)
{
    (void)cause; /* always NULL */
    report_lost(ctx, POSTBAG_ELINK, 0, "the connection was lost");
}

/* What the broker says in words, as "; <text>", or "". */
static void add_words(
    char *out, size_t size, MQTTProperties *p, enum MQTTPropertyCodes id)
{
    const MQTTProperty *words = MQTTProperties_getProperty(p, id);
    size_t used = strlen(out);
    if (words == NULL)
        return;
    (void)snprintf(out + used, size - used, "; %.*s", words->value.data.len,
        words->value.data.data);
    for (char *c = out + used; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    }
}

/* MQTT 5 only.  Paho closes the socket next and calls nothing else. */
static void on_disconnected(
    void *ctx, MQTTProperties *props, enum MQTTReasonCodes reason)
{
    char text[TEXT_BYTES * 2];
    (void)snprintf(text, sizeof(text),
        "the broker disconnected us: 0x%02x (%s)", (unsigned)reason,
        postbag_reason_text((int)reason, 0));
    add_words(text, sizeof(text), props, MQTTPROPERTY_CODE_REASON_STRING);
    add_words(text, sizeof(text), props, MQTTPROPERTY_CODE_SERVER_REFERENCE);
    report_lost(ctx, POSTBAG_EREFUSED, (int)reason, text);
}

/* ---- begin --------------------------------------------------------------- */

static int add_number(
    MQTTProperties *p, enum MQTTPropertyCodes id, uint32_t value)
{
    MQTTProperty property = {.identifier = id};
    if (MQTTProperty_getType(id) == MQTTPROPERTY_TYPE_TWO_BYTE_INTEGER)
        property.value.integer2 = (unsigned short)value;
    else
        property.value.integer4 = value;
    return postbag__paho_error(MQTTProperties_add(p, &property));
}

static uint32_t at_most(uint32_t value, uint32_t limit)
{
    return value < limit ? value : limit;
}

/* A will waits no longer than the session lives (MQTT 5, 3.1.2.5). */
static uint32_t session_expiry(
    const struct paho *t, const struct postbag_connect *c)
{
    uint32_t expiry = at_most(c->session_expiry_s, FOUR_BYTE_MAX);
    uint32_t delay = t->config.will_delay_s;
    return expiry > delay ? expiry : delay;
}

static int add_properties(
    const struct paho *t, MQTTProperties *p, const struct postbag_connect *c)
{
    int err = POSTBAG_OK;
    uint32_t expiry = session_expiry(t, c);
    if (expiry > 0)
        err = add_number(p, MQTTPROPERTY_CODE_SESSION_EXPIRY_INTERVAL, expiry);
    if (err == POSTBAG_OK && c->receive_max > 0)
        err = add_number(p, MQTTPROPERTY_CODE_RECEIVE_MAXIMUM,
            at_most(c->receive_max, 65535));
    if (err == POSTBAG_OK && c->max_packet > 0)
        err = add_number(p, MQTTPROPERTY_CODE_MAXIMUM_PACKET_SIZE,
            at_most(c->max_packet, FOUR_BYTE_MAX));
    return err;
}

static int set_callbacks(struct paho *t)
{
    int rc = MQTTAsync_setCallbacks(
        t->handle, t, on_connection_lost, postbag__paho_on_message, NULL);
    if (rc == MQTTASYNC_SUCCESS)
        rc = MQTTAsync_setDisconnected(t->handle, t, on_disconnected);
    return rc == MQTTASYNC_SUCCESS ? POSTBAG_OK : POSTBAG_ESTATE;
}

static void fill_v3(MQTTAsync_connectOptions *o, unsigned is_clean)
{
    o->MQTTVersion = MQTTVERSION_3_1_1;
    o->cleansession = is_clean != 0;
    o->onSuccess = on_connected;
    o->onFailure = on_failed;
}

static void fill_v5(
    MQTTAsync_connectOptions *o, unsigned is_clean, MQTTProperties *p)
{
    o->MQTTVersion = MQTTVERSION_5;
    o->cleansession = 0;
    o->cleanstart = is_clean != 0;
    o->connectProperties = p;
    o->onSuccess5 = on_connected5;
    o->onFailure5 = on_failed5;
}

static void fill_common(MQTTAsync_connectOptions *o, struct paho *t,
    const struct postbag_connect *c)
{
    o->keepAliveInterval = (int)t->keepalive_s;
    o->connectTimeout =
        c->timeout_ms > 0 ? (int)(c->timeout_ms / 1000) + 1 : 30;
    o->maxInflight = 65535; /* the window is the engine's */
    o->retryInterval = 0;
    o->automaticReconnect = 0;
    o->username = t->username;
    o->password = t->password;
    o->context = t;
}

static MQTTAsync_willOptions will_options(const struct paho *t)
{
    const char *payload = t->config.will_payload;
    MQTTAsync_willOptions will = MQTTAsync_willOptions_initializer;
    will.topicName = t->config.will_topic;
    will.payload.data = payload != NULL ? payload : "";
    will.payload.len = payload != NULL ? (int)strlen(payload) : 0;
    will.retained = t->config.will_retain != 0;
    will.qos = 1;
    return will;
}

/* Everything is copied by MQTTAsync_connect. */
struct connect_parts {
    MQTTAsync_willOptions will;
    MQTTProperties properties, will_properties;
    MQTTAsync_SSLOptions tls;
};

static int fill_will(
    MQTTAsync_connectOptions *o, struct paho *t, struct connect_parts *parts)
{
    if (t->config.will_topic == NULL)
        return POSTBAG_OK;
    parts->will = will_options(t);
    o->will = &parts->will;
    if (t->config.will_delay_s == 0)
        return POSTBAG_OK;
    o->willProperties = &parts->will_properties;
    return add_number(&parts->will_properties,
        MQTTPROPERTY_CODE_WILL_DELAY_INTERVAL, t->config.will_delay_s);
}

int postbag__paho_link_begin(struct paho *t, const struct postbag_connect *c)
{
    MQTTAsync_connectOptions o = MQTTAsync_connectOptions_initializer;
    struct connect_parts parts = {
        .properties = MQTTProperties_initializer,
        .will_properties = MQTTProperties_initializer,
    };
    unsigned is_clean = c->session_expiry_s == 0;
    fill_common(&o, t, c);
    if (postbag__paho_is_v5(t))
        fill_v5(&o, is_clean, &parts.properties);
    else
        fill_v3(&o, is_clean);
    if (t->is_tls) {
        postbag__paho_tls_options(t, &parts.tls);
        o.ssl = &parts.tls;
    }
    int err = set_callbacks(t);
    if (err == POSTBAG_OK && postbag__paho_is_v5(t))
        err = add_properties(t, &parts.properties, c);
    if (err == POSTBAG_OK)
        err = fill_will(&o, t, &parts);
    if (err == POSTBAG_OK)
        err = postbag__paho_error(MQTTAsync_connect(t->handle, &o));
    MQTTProperties_free(&parts.properties);
    MQTTProperties_free(&parts.will_properties);
    return err;
}
