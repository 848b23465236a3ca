/* SPDX-License-Identifier: MIT */
/*
 * Floor 1.  One connection to the broker, again and again.
 *
 *     WAITING --next_try--> CONNECTING --up--> UP
 *        ^                      |              |
 *        +------ lost, timeout, fail ----------+
 *
 * Events come from any thread and only set flags; all else is the engine
 * thread's.  A failure of the link never charges a message.
 */
#ifndef POSTBAG_SRC_LINK_H
#define POSTBAG_SRC_LINK_H

#include <stdatomic.h>

#include "log.h"
#include "postbag/port.h"
#include "postbag/transport.h"

enum link_state { LINK_OFF, LINK_WAITING, LINK_CONNECTING, LINK_UP };
enum link_change { LINK_SAME, LINK_CAME_UP, LINK_WENT_DOWN };

struct link_options {
    const char *name; /* "outbound", "inbound": for the log */
    uint32_t connect_timeout_ms, reconnect_base_ms, reconnect_cap_ms;
    uint32_t stable_ms, start_jitter_ms, session_expiry_s, receive_max;
    uint32_t max_packet;
};

struct link {
    const struct postbag_port *port;
    const struct log *log;
    struct postbag_transport *transport;
    const struct postbag_transport_events *events;
    struct link_options options;

    enum link_state state;
    uint32_t generation;
    uint32_t failures; /* in a row; the live state's link_attempts */
    int64_t next_us;   /* next try, or the end of an attempt */
    int64_t up_us;     /* since when it is up */
    int proved;        /* a PUBACK came, or we subscribed, since then */
    struct postbag_link info;
    char error[160]; /* of the last failure */
    int error_code;  /* and its code, for the log */

    /* set by events, taken by the engine thread */
    struct postbag_link up_info;
    struct {
        int err, reason;
        char text[120];
    } lost;
    atomic_uint up_generation, lost_generation;
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
/* End it for good, with a DISCONNECT. */
void postbag__link_stop(struct link *l);
/* Try now: an application knows that the network is back. */
void postbag__link_hurry(struct link *l, int64_t now_us);

/* Events, any thread. */
void postbag__link_note_up(
    struct link *l, uint32_t generation, const struct postbag_link *info);
void postbag__link_note_lost(
    struct link *l, uint32_t generation, int err, int reason, const char *text);

#endif
