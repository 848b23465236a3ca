/* SPDX-License-Identifier: MIT */
/*
 * Floor 1.  One connection to one of the transport's servers, again and again.
 *
 *     WAITING --next_try--> CONNECTING --up--> UP
 *        ^                      |              |
 *        +---- lost, timeout, fail, leave -----+
 *
 * Events and hints come from any thread and only set flags; all else is the
 * engine thread's.  A failure of the link never charges a message.
 */
#ifndef POSTBAG_SRC_LINK_H
#define POSTBAG_SRC_LINK_H

#include <stdatomic.h>

#include "log.h"
#include "postbag/port.h"
#include "postbag/transport.h"
#include "verdict.h"

enum link_state { LINK_OFF, LINK_WAITING, LINK_CONNECTING, LINK_UP };
enum link_hint { HINT_NONE, HINT_GONE, HINT_BACK };
enum link_change { LINK_SAME, LINK_CAME_UP, LINK_WENT_DOWN };

struct link_options {
    const char *name; /* "outbound", "inbound": for the log */
    uint32_t connect_timeout_ms, reconnect_base_ms, reconnect_cap_ms;
    uint32_t stable_ms, start_jitter_ms, session_expiry_s, receive_max;
    uint32_t max_packet, first_server_s, ack_timeout_ms;
};

struct link {
    const struct postbag_port *port;
    const struct log *log;
    struct postbag_transport *transport;
    const struct postbag_transport_events *events;
    struct link_options options;

    enum link_state state;
    uint32_t generation;
    uint32_t server;   /* of the next attempt; the transport takes the modulo */
    uint32_t failures; /* in a row; the live state's link_attempts */
    int64_t next_us;   /* next try; the end of an attempt or of leaving */
    int64_t hold_us;   /* told that the network is gone: no try before */
    int holds;         /* how often that was put into the log */
    int64_t clock_ms;  /* wall clock minus time since boot, at the last look */
    int64_t up_us;     /* since when it is up */
    int is_first;      /* waits for the first attempt after a start */
    int is_hasty;      /* sent elsewhere, the last plan was to try at once */
    int has_learned;   /* EAGAIN: the same, with what the transport learned */
    int is_leaving;    /* of its own will: take nothing new */
    int is_renewing;   /* for the same server, not for the first */
    int64_t suback_us; /* until then the SUBACK must come; 0: none is due */
    unsigned seen_arrivals; /* when that was set */
    int proved;             /* a PUBACK or all SUBACKs came since then */
    int was_used;           /* a message or a SUBSCRIBE was sent since then */
    struct postbag_link info;
    enum link_verdict verdict; /* of the last failure */
    char error[280];           /* of the last failure */
    int error_code;            /* and its code, for the log */

    /* set by events, taken by the engine thread */
    struct postbag_link up_info;
    struct {
        int err, reason;
        char text[240];
    } lost;
    atomic_uint up_generation, lost_generation, subscribed_generation;
    atomic_uint arrivals; /* messages taken */
    atomic_int hint, renew;
};

/* transport is borrowed.  With NULL the link stays off. */
void postbag__link_init(struct link *l, const struct postbag_port *port,
    const struct log *log, struct postbag_transport *transport,
    const struct postbag_transport_events *events,
    const struct link_options *options);
/* First attempt after the start jitter. */
void postbag__link_start(struct link *l, int64_t now_us);
/* Do what is due.  After LINK_WENT_DOWN every send has settled. */
enum link_change postbag__link_step(struct link *l, int64_t now_us);
/* When to step again. */
int64_t postbag__link_deadline(const struct link *l);
/* Hang up, with a reason for the log; then as after lost. */
void postbag__link_fail(struct link *l, int64_t now_us, const char *why);
/* It waits, and what ended it will not be there next time: wait as after fewer
 * failures. */
void postbag__link_ease(struct link *l, int64_t now_us, uint32_t failures);
/* is_leaving, and nothing is in flight or next_us has passed: DISCONNECT and
 * try the first server, or the same; then as after LINK_WENT_DOWN. */
void postbag__link_leave(struct link *l, int64_t now_us);
/* It came up: ask for these filters, and expect the broker's answer. */
void postbag__link_subscribe(
    struct link *l, int64_t now_us, const char *const *filters, size_t count);
/* End it for good, with a DISCONNECT. */
void postbag__link_stop(struct link *l);

/* Events, any thread. */
void postbag__link_note_up(
    struct link *l, uint32_t generation, const struct postbag_link *info);
void postbag__link_note_lost(
    struct link *l, uint32_t generation, int err, int reason, const char *text);
void postbag__link_note_subscribed(struct link *l, uint32_t generation);
void postbag__link_note_arrived(struct link *l);
/* The network is back (1) or gone (0).  Any thread, signal handlers too. */
void postbag__link_note_hint(struct link *l, int is_up);
/* Connect anew, with what the files and callbacks hold now.  As hints. */
void postbag__link_note_renewal(struct link *l);

#endif
