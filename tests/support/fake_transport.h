/* SPDX-License-Identifier: MIT */
/*
 * A transport without a network: it records each frame and settles it as the
 * script says, at once or when the test asks.  It keeps the contract of
 * transport.h, and aborts where the engine breaks it (send without a link,
 * connect twice, ...).  One thread.
 */
#ifndef POSTBAG_TEST_FAKE_TRANSPORT_H
#define POSTBAG_TEST_FAKE_TRANSPORT_H

#include <stddef.h>

#include "postbag/transport.h"

enum { FAKE_SENDS = 4096 };

/* What can fail. */
enum fake_call { FAKE_CONNECT, FAKE_SEND, FAKE_SUBSCRIBE, FAKE_CHECK };

/* A frame that was accepted. */
struct fake_sent {
    uint32_t token, generation;
    int is_settled;
    size_t payload_len;
    unsigned retain;
    char topic[64];
    char payload[64]; /* its beginning */
    char id[40];      /* user properties; "" without */
    char key[40];
    long long seq; /* from sequence; 0 without */
    uint32_t expiry_s;
    uint64_t print; /* differs where two frames do, but for expiry_s */
};

struct fake_transport {
    struct postbag_transport base;
    const struct postbag_transport_events *up;
    struct postbag_connect connect; /* the last */
    int is_connecting, is_up;

    /* Script.  connect_err: what connect answers; auto_up: the CONNACK, which
       is `link`, comes at once. */
    int connect_err;
    int auto_up;
    struct postbag_link link;
    uint32_t servers; /* as many of them; 0: one */
    /* send_err: what send answers, after send_accepts more sends. */
    int send_err;
    unsigned send_accepts;
    int subscribe_err;
    int is_suback_kept_back; /* subscribe is not answered */
    int check_err;           /* what check answers */
    /* asked at each call, if it is set: what it answers instead, or 0 */
    int (*decide)(void *ctx, enum fake_call call);
    void *decide_ctx;
    const char *client; /* who it is for the broker; NULL: somebody else */
    /* is_transferring: bytes wait for the peer, and at each question it has
       taken so many more. */
    int is_transferring;
    uint64_t taken, takes;
    /* auto_settle: each send settles at once, as reason says (0: PUBACK of
       success), or as refuse_reason where its topic is refuse_topic. */
    int auto_settle;
    int reason;
    const char *refuse_topic;
    int refuse_reason;
    const char *refuse_text; /* Reason String of refusals; NULL: none */
    /* Called before a frame is recorded. */
    void (*on_send)(void *ctx, const struct fake_sent *s);
    void *on_send_ctx;

    /* Record. */
    unsigned connects, disconnects, aborts, subscribes;
    unsigned *destroyed;                   /* counted there; may be NULL */
    const struct postbag_profile *checked; /* the last that was asked for */
    struct fake_sent sent[FAKE_SENDS];
    size_t count;
    size_t in_flight, most_in_flight;
    size_t bytes, most_bytes; /* topic and payload, in flight */
};

/* MQTT 5, up at once, nothing settles by itself.  Freed by destroy. */
struct fake_transport *fake_transport_new(void);

/* The CONNACK of the attempt that runs. */
void fake_come_up(struct fake_transport *t);
void fake_lose(struct fake_transport *t, int err, int reason);

/* Settle the i-th send: reason 0, or the PUBACK's of 0x80 and more. */
void fake_settle(struct fake_transport *t, size_t i, int reason);
/* Settle what is in flight, oldest first; returns how many. */
size_t fake_settle_all(struct fake_transport *t, int reason);

/* How often a topic was sent. */
size_t fake_count(const struct fake_transport *t, const char *topic);
/* Topics from the i-th send on, joined by blanks; until the next call. */
const char *fake_topics(const struct fake_transport *t, size_t i);

#endif
