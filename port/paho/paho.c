/* SPDX-License-Identifier: MIT */
/*
 * The transport over Eclipse Paho's MQTTAsync: its five functions, and the
 * life of the handle behind each connection.
 *
 * After MQTTAsync_destroy has returned no callback of that handle runs or will
 * run: destroy takes Paho's global mutex, which Paho holds around every
 * callback, and under it removes the handle from the list by which Paho's
 * threads find handles.  Within destroy every message that is still in flight
 * or queued fails, on the calling thread.  It ends a live connection with a
 * DISCONNECT, so that MQTTAsync_disconnect (which may wait 3 s) is not needed.
 *
 * The last destroy of a process stops Paho's threads and lets go of its mutex
 * meanwhile; a connect in that moment would count on threads that are about to
 * end.  Hence handles are made and destroyed under one lock of ours.
 */
#include <stdlib.h>

#include "paho_transport.h"

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;

static int make_handle(struct paho *t)
{
    MQTTAsync_createOptions o = MQTTAsync_createOptions_initializer;
    o.MQTTVersion = (int)t->config.mqtt_version;
    o.sendWhileDisconnected = 0;
    o.maxBufferedMessages = SLOT_COUNT;
    return postbag__paho_error(
        MQTTAsync_createWithOptions(&t->handle, t->config.uri,
            t->config.client_id, MQTTCLIENT_PERSISTENCE_NONE, NULL, &o));
}

static void set_state(struct paho *t, enum link_state state)
{
    pthread_mutex_lock(&t->lock);
    t->state = state;
    pthread_mutex_unlock(&t->lock);
}

/* Nothing is left of the connection afterwards. */
static void end(struct paho *t)
{
    set_state(t, LINK_LOST); /* up and lost are not reported any more */
    pthread_mutex_lock(&handles_lock);
    MQTTAsync_destroy(&t->handle); /* NULL is fine */
    pthread_mutex_unlock(&handles_lock);
    postbag__paho_trace_end(t);
    postbag__paho_slots_settle(t);
    postbag__paho_socket_close(t);
    set_state(t, LINK_NONE);
    t->handle = NULL;
    t->up = NULL;
}

static int connect_link(struct postbag_transport *base,
    const struct postbag_connect *c, const struct postbag_transport_events *up)
{
    struct paho *t = postbag__paho_of(base);
    if (t->handle != NULL)
        return POSTBAG_ESTATE;
    t->up = up;
    t->generation = c->generation;
    t->max_packet = 0;
    t->is_retain_refused = 0;
    t->tls_error[0] = '\0';
    t->is_shut = 0;
    set_state(t, LINK_CONNECTING);

    pthread_mutex_lock(&handles_lock);
    int err = make_handle(t);
    if (err == POSTBAG_OK) {
        postbag__paho_trace_begin(t);
        err = postbag__paho_link_begin(t, c);
    }
    pthread_mutex_unlock(&handles_lock);
    if (err != POSTBAG_OK)
        end(t);
    return err;
}

static void disconnect_link(struct postbag_transport *base, unsigned abort)
{
    struct paho *t = postbag__paho_of(base);
    /* Not shut without abort: a message that arrives now is still handed up,
       for its PUBACK may still leave. */
    if (abort)
        postbag__paho_socket_shut(t);
    end(t);
}

static void destroy_transport(struct postbag_transport *base)
{
    struct paho *t = postbag__paho_of(base);
    postbag__paho_config_free(&t->config);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

static const struct postbag_transport_ops ops = {
    .struct_size = sizeof(ops),
    .connect = connect_link,
    .send = postbag__paho_send,
    .subscribe = postbag__paho_subscribe,
    .disconnect = disconnect_link,
    .destroy = destroy_transport,
};

int postbag_paho_new(struct postbag_transport **out,
    const struct postbag_paho_config *config, struct postbag_fault *why)
{
    if (out == NULL || config == NULL)
        return postbag__paho_refuse(
            why, POSTBAG_EINVAL, "postbag_paho_new: NULL argument");
    *out = NULL;
    struct paho *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return postbag__paho_refuse(why, POSTBAG_ENOMEM, "out of memory");
    int err = postbag__paho_config_take(&t->config, &t->is_tls, config, why);
    if (err != POSTBAG_OK) {
        free(t);
        return err;
    }
    t->base.ops = &ops;
    t->keepalive_s = t->config.keepalive_s;
    t->fd = -1;
    /* with default attributes this does not fail on Linux */
    (void)pthread_mutex_init(&t->lock, NULL);
    postbag__paho_slots_init(t);
    *out = &t->base;
    return POSTBAG_OK;
}
