/* SPDX-License-Identifier: MIT */
/*
 * What the files of this port share.
 *
 *   config.c   options: ranges, uri, proxy; no Paho in it
 *   paho.c     the five functions and the life of a handle
 *   link.c     up and lost: CONNACK, DISCONNECT, loss
 *   socket.c   which socket a handle has, and hanging it up
 *   send.c     PUBLISH and what became of it
 *   receive.c  SUBSCRIBE and messages
 *
 * One Paho handle lives from connect to disconnect and is never used again:
 * a handle that has lost its connection keeps old acknowledgements, queued
 * commands and message ids, which could mix with those of a new session.
 *
 * Locks, outermost first: Paho's global mutex (held by Paho around every
 * callback, and taken by every call into Paho), then lock, then nothing.
 * No call into Paho and no event is made while lock is held.
 */
#ifndef POSTBAG_PAHO_TRANSPORT_H
#define POSTBAG_PAHO_TRANSPORT_H

#include <MQTTAsync.h>
#include <pthread.h>
#include <stdint.h>

#include "postbag/paho.h"

/* Most messages of one connection that wait for their PUBACK. */
#define SLOT_COUNT 1024
/* Why a connection ended, for people. */
#define TEXT_BYTES 160

struct paho;

/* The context of one send: maps Paho's callback to the caller's token.
   Paho's own token is the MQTT packet id, which is used again. */
struct slot {
    struct paho *owner;
    uint32_t token;
    unsigned is_used;
    struct slot *next; /* in the free list */
};

enum link_state {
    LINK_NONE,       /* no handle */
    LINK_CONNECTING, /* neither up nor lost was reported */
    LINK_UP,
    LINK_LOST, /* lost was reported */
};

struct paho {
    struct postbag_transport base;
    /* its texts are our copies */
    struct postbag_paho_config config;
    unsigned is_tls;
    /* what we ask for; a Server Keep Alive below it is kept for the next
       connection, because Paho 1.3.12 does not obey it in this one */
    uint32_t keepalive_s;

    /* of the present connection */
    MQTTAsync handle;
    const struct postbag_transport_events *up;
    uint32_t generation;
    uint32_t max_packet; /* the broker's; 0: any */
    unsigned is_retain_refused;
    char tls_error[TEXT_BYTES]; /* touched by callbacks only */

    pthread_mutex_t lock; /* guards what follows */
    enum link_state state;
    int fd;             /* our own descriptor of Paho's socket, or -1 */
    unsigned is_shut;   /* fd was shut down: nothing is handed up any more */
    unsigned is_traced; /* takes part in the trace of socket.c */
    struct slot *free_slots;
    struct slot slots[SLOT_COUNT];
};

static inline struct paho *postbag__paho_of(struct postbag_transport *t)
{
    return (struct paho *)(void *)t;
}

static inline unsigned postbag__paho_is_v5(const struct paho *t)
{
    return t->config.mqtt_version == 5;
}

/* config.c: fill why, unless NULL; returns code. */
int postbag__paho_refuse(struct postbag_fault *why, int code,
    const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A checked copy with the defaults filled in; is_tls by the uri. */
int postbag__paho_config_take(struct postbag_paho_config *out, unsigned *is_tls,
    const struct postbag_paho_config *in, struct postbag_fault *why);
void postbag__paho_config_free(struct postbag_paho_config *c);

/* link.c: begin one attempt on a handle that was just created. */
int postbag__paho_link_begin(struct paho *t, const struct postbag_connect *c);
/* Hang up and report lost, unless that was done before. */
void postbag__paho_link_drop(
    struct paho *t, int err, int reason, const char *text);
/* Our error for a return code of a Paho function. */
int postbag__paho_error(int rc);
/* The name of a reason code, as " (Not authorized)", or "". */
void postbag__paho_reason_text(
    int reason, unsigned is_v5, char *out, size_t size);

/* socket.c */
void postbag__paho_trace_begin(struct paho *t);
void postbag__paho_trace_end(struct paho *t);
/* From within the callback of a CONNACK: take a descriptor of the socket. */
int postbag__paho_socket_find(struct paho *t);
/* OK: takes bytes; EAGAIN: its buffer is full; ELINK: the peer is gone. */
int postbag__paho_socket_ready(struct paho *t);
/* Nothing leaves on this connection any more, above all no PUBACK. */
void postbag__paho_socket_shut(struct paho *t);
void postbag__paho_socket_close(struct paho *t);

/* send.c */
void postbag__paho_slots_init(struct paho *t);
int postbag__paho_send(struct postbag_transport *base,
    const struct postbag_frame *f, uint32_t token);
/* Settle what Paho forgot; after the handle is gone. */
void postbag__paho_slots_settle(struct paho *t);

/* receive.c */
int postbag__paho_subscribe(
    struct postbag_transport *base, const char *const *filters, size_t count);
int postbag__paho_on_message(
    void *ctx, char *topic, int topic_len, MQTTAsync_message *m);

#endif
