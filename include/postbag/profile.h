/* SPDX-License-Identifier: MIT */
/*
 * What brokers and cloud services take, as rules that are checked before a
 * message is queued or a connection made: a broker that is offended hangs up
 * or drops the message, and says nothing about which one it was.
 *
 *   when            who            which rules
 *   a row is put    every writer   topic, size, RETAIN (src/FORMAT.md)
 *   postbag_open    the engine     window, number of connections
 *   postbag_open    the transport  keep alive, MQTT version, client id
 *   before a send   the engine     topic, size, RETAIN: of rows put before the
 *                                  rules held; bytes in flight
 *
 * The numbers are what the services' own pages say; src/profile.c names each.
 * Postbag sends with QoS 1 only, which all of them take.
 */
#ifndef POSTBAG_PROFILE_H
#define POSTBAG_PROFILE_H

#include <stdint.h>

#include "postbag/postbag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* any: no rules but MQTT's own */
#define POSTBAG_PROFILES "any, aws, iothub, eventgrid, thingsboard"

/* 0 or NULL: no such rule. */
struct postbag_profile {
    const char *name;
    uint32_t max_topic;         /* bytes */
    uint32_t max_slashes;       /* in a topic */
    const char *uncounted;      /* a topic that begins so counts, for both, only
                                   behind the level that follows */
    const char *topic_prefixes; /* one of these, separated by commas */
    uint32_t max_packet;        /* bytes of a whole PUBLISH */
    uint32_t max_retained;      /* the same, with the RETAIN flag */
    uint32_t max_inflight;      /* messages without PUBACK */
    uint32_t max_inflight_bytes; /* bytes of whole PUBLISH packets; a larger one
                                    goes alone */
    uint32_t min_keepalive_s;
    uint32_t max_keepalive_s;
    uint32_t max_client_id;  /* bytes */
    unsigned no_mqtt5;       /* flags: 0 or 1 */
    unsigned one_connection; /* per device: no commands beside the outbox */
};

/**
 * The rules called name; NULL if there are none of that name.
 * Thread: any.  Blocks: no.
 */
POSTBAG_API const struct postbag_profile *postbag_profile_find(
    const char *name);

#ifdef __cplusplus
}
#endif
#endif
