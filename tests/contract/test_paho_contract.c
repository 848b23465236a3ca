/* SPDX-License-Identifier: MIT */
/* The contract of transports, over Paho and the scripted broker: MQTT 5, then
   3.1.1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "broker.h"
#include "postbag/paho.h"
#include "transport_contract.h"

struct peer {
    struct broker *broker;
    uint32_t mqtt_version;
};

static void start(void *ctx)
{
    struct peer *p = ctx;
    p->broker = broker_start_fake(NULL);
}

static void stop(void *ctx)
{
    struct peer *p = ctx;
    broker_stop(p->broker);
}

static struct postbag_transport *make_for(const struct peer *p, const char *uri)
{
    struct postbag_transport *t = NULL;
    struct postbag_paho_config c = {
        .struct_size = sizeof(c),
        .uri = uri,
        .client_id = "contract",
        .mqtt_version = p->mqtt_version,
    };
    return postbag_paho_new(&t, &c, NULL) == POSTBAG_OK ? t : NULL;
}

static struct postbag_transport *make(void *ctx)
{
    struct peer *p = ctx;
    return make_for(p, broker_uri(p->broker));
}

static struct postbag_transport *make_unreachable(void *ctx)
{
    char uri[64];
    (void)snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%d", broker_free_port());
    return make_for(ctx, uri);
}

static void hold_acks(void *ctx, int on)
{
    struct peer *p = ctx;
    broker_tell(p->broker, "set hold=%s", on ? "1" : "");
}

static void stay_silent(void *ctx)
{
    struct peer *p = ctx;
    broker_tell(p->broker, "set dropconnack=1");
}

static void cut(void *ctx)
{
    struct peer *p = ctx;
    broker_tell(p->broker, "cut");
}

static void publish(void *ctx, const char *topic, const char *payload)
{
    struct peer *p = ctx;
    broker_tell(p->broker, "publish %s %s", topic, payload);
}

static int wait_publishes(void *ctx, size_t count)
{
    struct peer *p = ctx;
    return broker_wait(p->broker, " < PUBLISH", count);
}

static int wait_connects(void *ctx, size_t count)
{
    struct peer *p = ctx;
    return broker_wait(p->broker, " < CONNECT", count);
}

static int wait_acks(void *ctx, size_t count)
{
    struct peer *p = ctx;
    return broker_wait(p->broker, " < PUBACK", count);
}

static int wait_closed(void *ctx, size_t count)
{
    struct peer *p = ctx;
    return broker_wait(p->broker, " closed", count);
}

static size_t count_acks(void *ctx)
{
    struct peer *p = ctx;
    return broker_count(p->broker, " < PUBACK");
}

static size_t count_goodbyes(void *ctx)
{
    struct peer *p = ctx;
    return broker_count(p->broker, " < DISCONNECT");
}

static int run(const char *name, uint32_t mqtt_version)
{
    struct peer p = {.mqtt_version = mqtt_version};
    struct contract_peer peer = {
        .name = name,
        .ctx = &p,
        .start = start,
        .stop = stop,
        .make = make,
        .make_unreachable = make_unreachable,
        .hold_acks = hold_acks,
        .stay_silent = stay_silent,
        .cut = cut,
        .publish = publish,
        .wait_publishes = wait_publishes,
        .wait_connects = wait_connects,
        .wait_acks = wait_acks,
        .wait_closed = wait_closed,
        .count_acks = count_acks,
        .count_goodbyes = count_goodbyes,
    };
    return contract_run(&peer);
}

int main(void)
{
    return run("paho, MQTT 5", 5) + run("paho, MQTT 3.1.1", 4);
}
