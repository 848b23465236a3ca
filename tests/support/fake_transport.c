/* SPDX-License-Identifier: MIT */
/* See fake_transport.h. */
#include "fake_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postbag/profile.h"

static void demand(int holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "fake_transport: %s\n", what);
    abort();
}

static struct fake_transport *self(struct postbag_transport *t)
{
    return (struct fake_transport *)t;
}

static size_t size_of(const struct fake_sent *s)
{
    return strlen(s->topic) + s->payload_len;
}

/* ---- settling ---- */

static void settle(struct fake_transport *t, size_t i, int err, int reason)
{
    struct fake_sent *s = &t->sent[i];

    demand(i < t->count && !s->is_settled, "settled twice");
    s->is_settled = 1;
    t->in_flight--;
    t->bytes -= size_of(s);
    t->up->settled(t->up->ctx, s->token, err, reason,
        err == POSTBAG_EREFUSED ? t->refuse_text : NULL);
}

void fake_settle(struct fake_transport *t, size_t i, int reason)
{
    settle(t, i, reason >= 0x80 ? POSTBAG_EREFUSED : POSTBAG_OK, reason);
}

static size_t settle_rest(struct fake_transport *t, int err, int reason)
{
    size_t done = 0;

    for (size_t i = 0; i < t->count; i++) {
        if (t->sent[i].is_settled)
            continue;
        settle(t, i, err, reason);
        done++;
    }
    return done;
}

size_t fake_settle_all(struct fake_transport *t, int reason)
{
    return settle_rest(
        t, reason >= 0x80 ? POSTBAG_EREFUSED : POSTBAG_OK, reason);
}

/* ---- the contract ---- */

static int decided(
    const struct fake_transport *t, enum fake_call call, int scripted)
{
    int err = t->decide == NULL ? POSTBAG_OK : t->decide(t->decide_ctx, call);

    return err != POSTBAG_OK ? err : scripted;
}

static int fake_connect(struct postbag_transport *base,
    const struct postbag_connect *c, const struct postbag_transport_events *up)
{
    struct fake_transport *t = self(base);
    int err = decided(t, FAKE_CONNECT, t->connect_err);

    demand(!t->is_connecting && !t->is_up, "connect while connected");
    t->connects++;
    t->connect = *c;
    t->up = up;
    if (err != POSTBAG_OK)
        return err;
    t->is_connecting = 1;
    if (t->auto_up)
        fake_come_up(t);
    return POSTBAG_OK;
}

void fake_come_up(struct fake_transport *t)
{
    demand(t->is_connecting && !t->is_up, "up without an attempt");
    t->is_up = 1;
    t->link.server = t->servers == 0 ? 0 : t->connect.server % t->servers;
    t->up->up(t->up->ctx, t->connect.generation, &t->link);
}

void fake_lose(struct fake_transport *t, int err, int reason)
{
    demand(t->is_connecting, "lost without a connection");
    t->is_up = 0;
    t->up->lost(
        t->up->ctx, t->connect.generation, err, reason, "lost by the script");
}

static void copy_text(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text == NULL ? "" : text);
}

static void read_properties(struct fake_sent *s, const struct postbag_frame *f)
{
    for (size_t i = 0; i < f->property_count; i++) {
        const char *name = f->properties[i].name;
        const char *value = f->properties[i].value;

        if (strcmp(name, "id") == 0)
            copy_text(s->id, sizeof(s->id), value);
        if (strcmp(name, "partitionkey") == 0)
            copy_text(s->key, sizeof(s->key), value);
        if (strcmp(name, "sequence") == 0 && strchr(value, '-') != NULL)
            s->seq = strtoll(strchr(value, '-') + 1, NULL, 10);
    }
}

/* FNV-1a over bytes and their number. */
static uint64_t mix(uint64_t print, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;

    for (size_t i = 0; i < sizeof(len); i++)
        print = (print ^ (len >> 8 * i & 0xff)) * 1099511628211u;
    for (size_t i = 0; i < len; i++)
        print = (print ^ p[i]) * 1099511628211u;
    return print;
}

static uint64_t mix_text(uint64_t print, const char *text)
{
    return mix(
        print, text == NULL ? "" : text, text == NULL ? 0 : strlen(text) + 1);
}

static uint64_t print_of(const struct postbag_frame *f)
{
    uint64_t print = mix_text(14695981039346656037u, f->topic);

    print = mix(print, f->payload, f->payload_len);
    print = mix_text(print, f->content_type);
    print = mix_text(print, f->response_topic);
    print = mix(print, f->correlation, f->correlation_len);
    for (size_t i = 0; i < f->property_count; i++) {
        print = mix_text(print, f->properties[i].name);
        print = mix_text(print, f->properties[i].value);
    }
    print = mix(print, &f->retain, sizeof(f->retain));
    return mix(print, &f->is_text, sizeof(f->is_text));
}

static void record(
    struct fake_transport *t, const struct postbag_frame *f, uint32_t token)
{
    struct fake_sent *s = &t->sent[t->count];
    size_t len = f->payload_len;

    memset(s, 0, sizeof(*s));
    s->token = token;
    s->generation = t->connect.generation;
    s->payload_len = len;
    s->retain = f->retain;
    s->expiry_s = f->expiry_s;
    s->print = print_of(f);
    copy_text(s->topic, sizeof(s->topic), f->topic);
    if (len >= sizeof(s->payload))
        len = sizeof(s->payload) - 1;
    if (len > 0)
        memcpy(s->payload, f->payload, len);
    read_properties(s, f);
    if (t->on_send != NULL)
        t->on_send(t->on_send_ctx, s);
    t->count++;
    t->in_flight++;
    t->bytes += size_of(s);
    if (t->in_flight > t->most_in_flight)
        t->most_in_flight = t->in_flight;
    if (t->bytes > t->most_bytes)
        t->most_bytes = t->bytes;
}

static int reason_for(const struct fake_transport *t, const char *topic)
{
    if (t->refuse_topic != NULL && strcmp(topic, t->refuse_topic) == 0)
        return t->refuse_reason;
    return t->reason;
}

static int fake_send(struct postbag_transport *base,
    const struct postbag_frame *f, uint32_t token)
{
    struct fake_transport *t = self(base);
    int err = decided(t, FAKE_SEND, POSTBAG_OK);

    demand(t->is_connecting, "send without a connection");
    demand(t->count < FAKE_SENDS, "too many sends for the record");
    if (err != POSTBAG_OK)
        return err;
    if (t->send_err != POSTBAG_OK && t->send_accepts == 0)
        return t->send_err;
    if (t->send_accepts > 0)
        t->send_accepts--;
    if (!t->is_up)
        return POSTBAG_ELINK; /* lost, but the engine has not seen it yet */
    record(t, f, token);
    if (t->auto_settle)
        fake_settle(t, t->count - 1, reason_for(t, f->topic));
    return POSTBAG_OK;
}

static int fake_subscribe(
    struct postbag_transport *base, const char *const *filters, size_t count)
{
    struct fake_transport *t = self(base);
    int err = decided(t, FAKE_SUBSCRIBE, t->subscribe_err);

    demand(t->is_up && filters != NULL && count > 0, "subscribe to nothing");
    t->subscribes++;
    if (err == POSTBAG_OK && !t->is_suback_kept_back)
        t->up->subscribed(t->up->ctx, t->connect.generation);
    return err;
}

static void fake_disconnect(struct postbag_transport *base, unsigned abort)
{
    struct fake_transport *t = self(base);

    demand(t->is_connecting, "disconnect without connect");
    (void)settle_rest(t, POSTBAG_ELINK, 0);
    t->is_connecting = 0;
    t->is_up = 0;
    t->disconnects++;
    t->aborts += abort != 0;
}

static void fake_destroy(struct postbag_transport *base)
{
    struct fake_transport *t = self(base);

    demand(!t->is_connecting, "destroy while connected");
    if (t->destroyed != NULL)
        (*t->destroyed)++;
    free(t);
}

static int fake_check(struct postbag_transport *base,
    const struct postbag_profile *p, struct postbag_fault *why)
{
    struct fake_transport *t = self(base);
    int err = decided(t, FAKE_CHECK, t->check_err);

    t->checked = p;
    if (err != POSTBAG_OK)
        (void)snprintf(
            why->text, sizeof(why->text), "the script says no to %s", p->name);
    return err;
}

static int fake_transfers(struct postbag_transport *base, uint64_t *taken)
{
    struct fake_transport *t = self(base);

    demand(t->is_connecting, "a question without a connection");
    t->taken += t->takes;
    *taken = t->taken;
    return t->is_transferring;
}

static int fake_is_rival(
    const struct postbag_transport *base, const struct postbag_transport *other)
{
    const struct fake_transport *a = (const struct fake_transport *)base;
    const struct fake_transport *b = (const struct fake_transport *)other;

    return a->client != NULL && a->client == b->client;
}

static const struct postbag_transport_ops ops = {
    .struct_size = sizeof(ops),
    .connect = fake_connect,
    .send = fake_send,
    .subscribe = fake_subscribe,
    .disconnect = fake_disconnect,
    .destroy = fake_destroy,
    .check = fake_check,
    .transfers = fake_transfers,
    .is_rival = fake_is_rival,
};

struct fake_transport *fake_transport_new(void)
{
    struct fake_transport *t = calloc(1, sizeof(*t));

    demand(t != NULL, "no memory");
    t->base.ops = &ops;
    t->link.mqtt_version = 5;
    t->auto_up = 1;
    return t;
}

/* ---- questions ---- */

size_t fake_count(const struct fake_transport *t, const char *topic)
{
    size_t found = 0;

    for (size_t i = 0; i < t->count; i++)
        found += strcmp(t->sent[i].topic, topic) == 0;
    return found;
}

const char *fake_topics(const struct fake_transport *t, size_t i)
{
    static char out[4096];
    size_t used = 0;

    out[0] = '\0';
    for (; i < t->count && used < sizeof(out); i++)
        used += (size_t)snprintf(out + used, sizeof(out) - used, "%s%s",
            used == 0 ? "" : " ", t->sent[i].topic);
    return out;
}
