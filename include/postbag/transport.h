/* SPDX-License-Identifier: MIT */
/*
 * The transport: how messages reach a broker, behind five functions.
 * port/paho fills it with Eclipse Paho; tests with a broker in memory.
 *
 * The life of one connection
 *
 *     connect ----> up ----> send ... settled ----> lost ---> disconnect
 *        |                                           ^
 *        +-------------------------------------------+
 *
 * - Reconnecting, backoff, watchdogs and the window are the engine's.  A
 *   transport makes one attempt when told and reports what happened.
 * - After a connect that returned POSTBAG_OK the engine calls disconnect
 *   exactly once, whether up, lost or nothing was reported.
 * - Every send that returned POSTBAG_OK settles exactly once, before
 *   disconnect returns.  A send that failed never settles.
 * - lost only says that the connection is dead; it may come before some
 *   settled, at most once per connection, and never after disconnect returned.
 * - After disconnect returned no event of that connection comes any more.
 */
#ifndef POSTBAG_TRANSPORT_H
#define POSTBAG_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "postbag/postbag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* MQTT 5 user property.  UTF-8, without NUL. */
struct postbag_property {
    const char *name;
    const char *value;
};

/* One MQTT message, either way.  All pointers are borrowed for the call. */
struct postbag_frame {
    const char *topic;
    const void *payload;
    size_t payload_len;
    const char *content_type;   /* NULL: none; MQTT 5 only, as what follows */
    const char *response_topic; /* NULL: none */
    const void *correlation;    /* correlation data */
    size_t correlation_len;     /* 0: none */
    const struct postbag_property *properties;
    size_t property_count;
    /* Message Expiry Interval; 0: none.  One of 0 that arrived is 1 here. */
    uint32_t expiry_s;
    unsigned retain;  /* flags: 0 or 1 */
    unsigned is_text; /* Payload Format Indicator */
    unsigned dup;     /* inbound only */
};

/* What the broker said in its CONNACK.  0: it said nothing. */
struct postbag_link {
    uint32_t receive_max;
    uint32_t max_packet;  /* bytes of a whole packet */
    uint32_t keepalive_s; /* Server Keep Alive */
    unsigned session_present;
    unsigned mqtt_version; /* 4 = 3.1.1, 5 = 5.0 */
    uint32_t server;       /* which of the transport's: 0 is the first */
    /* notAfter of our certificate and of the broker's, seconds since 1970 */
    int64_t own_certificate_end_s;
    int64_t server_certificate_end_s;
};

/* Upwards.  From any thread, also from within a call down. */
struct postbag_transport_events {
    void *ctx;
    /* The CONNACK of success came. */
    void (*up)(void *ctx, uint32_t generation, const struct postbag_link *l);
    /* The attempt failed or the connection died.
       err: ELINK, EREFUSED (CONNACK or DISCONNECT; reason is its code),
       EPROTO, EAGAIN (before up only: the transport has learned what it needs
       for the next attempt, which need not wait);
       text: short, without credentials; borrowed */
    void (*lost)(
        void *ctx, uint32_t generation, int err, int reason, const char *text);
    /* token: as given to send.  err: POSTBAG_OK (PUBACK below 0x80),
       EREFUSED (reason >= 0x80 is the PUBACK's), ELINK (unknown: perhaps
       delivered).  text: the PUBACK's Reason String, as the broker wrote it,
       or NULL; borrowed. */
    void (*settled)(
        void *ctx, uint32_t token, int err, int reason, const char *text);
    /* An inbound message.  POSTBAG_OK: stored, send the PUBACK.  Negative:
       drop the connection so that no PUBACK leaves and the broker delivers
       again; no further message of this connection is handed up. */
    int (*arrived)(
        void *ctx, uint32_t generation, const struct postbag_frame *f);
    /* The broker granted every filter of subscribe, QoS 1 or more. */
    void (*subscribed)(void *ctx, uint32_t generation);
};

struct postbag_connect {
    uint32_t generation;       /* handed back in events */
    uint32_t session_expiry_s; /* 0: clean session, nothing kept */
    uint32_t receive_max;      /* inbound messages before our PUBACK; 0: any */
    uint32_t max_packet;       /* largest packet we take; 0: any */
    uint32_t timeout_ms;       /* a hint; the engine has its own watchdog */
    uint32_t server; /* which of the transport's servers, modulo their number */
};

struct postbag_transport;
struct postbag_profile; /* profile.h */
struct postbag_fault;   /* postbag.h */

struct postbag_transport_ops {
    size_t struct_size;
    /* Begin one attempt.  POSTBAG_OK: up or lost will come.  Else nothing
       was begun and no event comes: EINVAL, ENOMEM, ESTATE, ELINK.
       up is borrowed until disconnect. */
    int (*connect)(struct postbag_transport *t, const struct postbag_connect *c,
        const struct postbag_transport_events *up);
    /* Publish with QoS 1.  Copies.  EAGAIN: no room now, ELINK, EINVAL (this
       frame can never be sent), ENOMEM. */
    int (*send)(struct postbag_transport *t, const struct postbag_frame *f,
        uint32_t token);
    /* Ask for messages of these filters, QoS 1, once per connection.  The
       answer is reported: subscribed, or lost (EREFUSED).  That none comes is
       for the engine to notice. */
    int (*subscribe)(
        struct postbag_transport *t, const char *const *filters, size_t count);
    /* End the connection.  abort 0: with a DISCONNECT; 1: just hang up, the
       last will is sent.  Blocks until nothing of it is left; may take some
       100 ms.  Never from within an event. */
    void (*disconnect)(struct postbag_transport *t, unsigned abort);
    /* Free; not connected. */
    void (*destroy)(struct postbag_transport *t);
    /* May be NULL.  Do the transport's own options keep the broker's rules?
       EINVAL: no; why names option and rule.  Called by postbag_open. */
    int (*check)(struct postbag_transport *t, const struct postbag_profile *p,
        struct postbag_fault *why);
    /* May be NULL.  1: bytes still wait for the peer to take them, and it has
       taken *taken of this connection so far.  0: none wait, or it is not
       known.  So a large message on a slow link is told from a broker that is
       silent.  Does not block. */
    int (*transfers)(struct postbag_transport *t, uint64_t *taken);
    /* May be NULL.  1: for the broker these two are one client, so it would end
       the connection of each when the other connects (MQTT 5, 3.1.4-3).  The
       other has the same ops.  Called by postbag_open, which refuses them. */
    int (*is_rival)(const struct postbag_transport *t,
        const struct postbag_transport *other);
};

/* First member of every implementation. */
struct postbag_transport {
    const struct postbag_transport_ops *ops;
};

/* ---- For who writes one ------------------------------------------------ */

/**
 * Is this a text as brokers take it: UTF-8 without NUL, control characters and
 * non-characters (MQTT 5, 1.5.4)?  Some hang up on any other.
 * @return 1 or 0; the empty text is one
 * Thread: any.  Blocks: no.
 */
POSTBAG_API int postbag_is_mqtt_text(const char *text, size_t len);

/**
 * The standard's name of a reason code, as "not authorized".
 * @param is_connack_3_1_1  0 to 5 are the return codes of that packet
 * @return never NULL; "unknown reason" for what the standard does not name
 * Thread: any.  Blocks: no.
 */
POSTBAG_API const char *postbag_reason_text(
    int reason, unsigned is_connack_3_1_1);

#ifdef __cplusplus
}
#endif
#endif
