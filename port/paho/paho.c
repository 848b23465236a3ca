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
 *
 * An attempt on an address makes its handle within connect; one on a name does
 * so when the name is found, on the thread of resolve.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "paho_transport.h"

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;

/* Ours, else the one that this broker gave us, else "": it shall give one. */
static const char *client_id(const struct paho *t)
{
    const char *assigned = t->servers.list[t->server].assigned_id;
    if (t->config.client_id != NULL)
        return t->config.client_id;
    return assigned != NULL ? assigned : "";
}

static void set_state(struct paho *t, enum link_state state)
{
    pthread_mutex_lock(&t->lock);
    t->state = state;
    pthread_mutex_unlock(&t->lock);
}

/* ---- begin --------------------------------------------------------------- */

static int make_handle(struct paho *t)
{
    MQTTAsync_createOptions o = MQTTAsync_createOptions_initializer;
    char uri[SPELLING_BYTES + 16];
    o.MQTTVersion = (int)t->config.mqtt_version;
    o.sendWhileDisconnected = 0;
    o.maxBufferedMessages = SLOT_COUNT;
    postbag__paho_target_uri(t, uri, sizeof(uri));
    return postbag__paho_error(MQTTAsync_createWithOptions(
        &t->handle, uri, client_id(t), MQTTCLIENT_PERSISTENCE_NONE, NULL, &o));
}

/* The target is known. */
static int begin(struct paho *t)
{
    struct sigpipe sigpipe;
    postbag__paho_tls_begin(t);
    pthread_mutex_lock(&handles_lock);
    postbag__paho_sigpipe_block(&sigpipe); /* Paho's threads inherit that */
    int err = make_handle(t);
    if (err == POSTBAG_OK) {
        postbag__paho_trace_begin(t);
        err = postbag__paho_link_begin(t, &t->wish);
    }
    postbag__paho_sigpipe_restore(&sigpipe);
    pthread_mutex_unlock(&handles_lock);
    postbag__paho_credentials_wipe(t);
    return err;
}

/* Not found, or no connection could be begun. */
static void give_up(struct paho *t, const char *why)
{
    char text[TEXT_BYTES + 2 * HOST_BYTES];
    (void)snprintf(
        text, sizeof(text), "no connection: %s: %s", t->host_name, why);
    postbag__paho_link_drop(t, POSTBAG_ELINK, 0, text);
}

static void on_answer(void *ctx, const struct addrinfo *list, const char *why)
{
    struct paho *t = ctx;
    if (list == NULL)
        give_up(t, why);
    else if (postbag__paho_target_pick(t, list) != POSTBAG_OK)
        give_up(t, "has no address that Paho can use");
    else if (begin(t) != POSTBAG_OK)
        give_up(t, "Paho does not begin to connect; out of memory?");
}

static int look_up(struct paho *t, const char *host)
{
    char why[TEXT_BYTES + HOST_BYTES];
    const char *busy = postbag__paho_resolver_busy(t->resolver, host);
    if (busy == NULL)
        return postbag__paho_resolver_ask(t->resolver, host, on_answer, t);
    (void)snprintf(
        why, sizeof(why), "the resolver has not answered yet about %s", busy);
    give_up(t, why);
    return POSTBAG_OK;
}

static void prepare(struct paho *t, const struct postbag_connect *c,
    const struct postbag_transport_events *up)
{
    t->wish = *c;
    t->up = up;
    t->generation = c->generation;
    t->max_packet = 0;
    t->is_retain_refused = 0;
    t->is_shut = 0;
    set_state(t, LINK_CONNECTING);
}

/* What the application and the files of options say now; 0: lost, without. */
static unsigned is_equipped(struct paho *t)
{
    struct postbag_fault why;
    int err = postbag__paho_credentials_take(t, &why);
    if (err == POSTBAG_OK)
        err = postbag__paho_tls_prepare(t, &why);
    if (err != POSTBAG_OK)
        postbag__paho_link_drop(t, POSTBAG_ELINK, 0, why.text);
    return err == POSTBAG_OK;
}

/* ---- end ----------------------------------------------------------------- */

static void destroy_handle(struct paho *t)
{
    struct sigpipe sigpipe;
    if (t->handle == NULL)
        return;
    pthread_mutex_lock(&handles_lock);
    postbag__paho_sigpipe_block(&sigpipe);
    MQTTAsync_destroy(&t->handle);
    postbag__paho_sigpipe_restore(&sigpipe);
    pthread_mutex_unlock(&handles_lock);
    t->handle = NULL;
}

/* Nothing is left of the connection afterwards. */
static void end(struct paho *t)
{
    set_state(t, LINK_LOST); /* up and lost are not reported any more */
    postbag__paho_resolver_forget(t->resolver);
    destroy_handle(t);
    postbag__paho_trace_end(t);
    postbag__paho_tls_end(t);
    postbag__paho_credentials_wipe(t);
    postbag__paho_slots_settle(t);
    postbag__paho_socket_close(t);
    set_state(t, LINK_NONE);
    t->up = NULL;
}

/* ---- the five ------------------------------------------------------------ */

static int connect_link(struct postbag_transport *base,
    const struct postbag_connect *c, const struct postbag_transport_events *up)
{
    struct paho *t = postbag__paho_of(base);
    if (t->up != NULL)
        return POSTBAG_ESTATE;
    postbag__paho_resolver_lock(t->resolver);
    prepare(t, c, up);
    const struct server *s = postbag__paho_target_server(t, c->server);
    postbag__paho_target_set(t, s->host);
    int err = POSTBAG_OK;
    if (is_equipped(t))
        err = s->is_numeric ? begin(t) : look_up(t, s->host);
    if (err != POSTBAG_OK)
        end(t);
    postbag__paho_resolver_unlock(t->resolver);
    return err;
}

static void disconnect_link(struct postbag_transport *base, unsigned abort)
{
    struct paho *t = postbag__paho_of(base);
    postbag__paho_resolver_lock(t->resolver);
    /* Not shut without abort: a message that arrives now is still handed up,
       for its PUBACK may still leave. */
    if (abort)
        postbag__paho_socket_shut(t);
    end(t);
    postbag__paho_resolver_unlock(t->resolver);
}

static void free_config(struct paho *t)
{
    postbag__paho_servers_free(&t->servers);
    postbag__paho_config_free(&t->config);
    free(t);
}

static void destroy_transport(struct postbag_transport *base)
{
    struct paho *t = postbag__paho_of(base);
    postbag__paho_resolver_free(t->resolver);
    (void)pthread_mutex_destroy(&t->lock);
    free_config(t);
}

static const struct postbag_transport_ops ops = {
    .struct_size = sizeof(ops),
    .connect = connect_link,
    .send = postbag__paho_send,
    .subscribe = postbag__paho_subscribe,
    .disconnect = disconnect_link,
    .destroy = destroy_transport,
    .check = postbag__paho_check,
    .transfers = postbag__paho_transfers,
    .is_rival = postbag__paho_is_rival,
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
    int err = postbag__paho_config_take(&t->config, &t->servers, config, why);
    if (err != POSTBAG_OK) {
        free(t);
        return err;
    }
    t->resolver = postbag__paho_resolver_new();
    if (t->resolver == NULL) {
        free_config(t);
        return postbag__paho_refuse(why, POSTBAG_ENOMEM, "out of memory");
    }
    t->base.ops = &ops;
    t->is_tls = t->servers.is_tls;
    t->keepalive_s = t->config.keepalive_s;
    t->fd = -1;
    /* with default attributes this does not fail on Linux */
    (void)pthread_mutex_init(&t->lock, NULL);
    postbag__paho_slots_init(t);
    *out = &t->base;
    return POSTBAG_OK;
}
