/* SPDX-License-Identifier: MIT */
/* See instant.h. */
#include "instant.h"

#include "postbag/postbag.h"

static int instant_connect(struct postbag_transport *t,
    const struct postbag_connect *c, const struct postbag_transport_events *up)
{
    struct postbag_link link = {.mqtt_version = 5};

    ((struct instant *)t)->up = up;
    up->up(up->ctx, c->generation, &link);
    return POSTBAG_OK;
}

static int instant_send(
    struct postbag_transport *t, const struct postbag_frame *f, uint32_t token)
{
    struct instant *i = (struct instant *)t;

    (void)f;
    i->sent++;
    i->up->settled(i->up->ctx, token, POSTBAG_OK, 0, NULL);
    return POSTBAG_OK;
}

static int instant_subscribe(
    struct postbag_transport *t, const char *const *filters, size_t count)
{
    (void)t;
    (void)filters;
    (void)count;
    return POSTBAG_ESTATE;
}

static void instant_disconnect(struct postbag_transport *t, unsigned abort)
{
    (void)t;
    (void)abort;
}

static void instant_destroy(struct postbag_transport *t)
{
    (void)t; /* it is static */
}

static const struct postbag_transport_ops instant_ops = {
    .struct_size = sizeof(instant_ops),
    .connect = instant_connect,
    .send = instant_send,
    .subscribe = instant_subscribe,
    .disconnect = instant_disconnect,
    .destroy = instant_destroy,
};

void instant_init(struct instant *t)
{
    *t = (struct instant){.base = {&instant_ops}};
}
