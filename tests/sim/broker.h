/* SPDX-License-Identifier: MIT */
/*
 * A broker in memory with one network before it, behind transport.h.  It takes
 * messages, answers them by chance, and delivers commands until it has their
 * PUBACK.  Each relay has two connections; a connection is a stream: what is
 * lost in it is lost with all that comes after.
 */
#ifndef POSTBAG_SIM_BROKER_H
#define POSTBAG_SIM_BROKER_H

#include <stddef.h>
#include <stdint.h>

#include "marks.h"
#include "postbag/transport.h"

struct process;
struct world;

enum { FLIGHTS = 256, WIRES = 6 };

struct flight {
    uint32_t token;
    int message;
    int64_t ack_us; /* when the PUBACK comes; 0: never */
    int reason;
};

enum wire_state { WIRE_FREE, WIRE_CLOSED, WIRE_CONNECTING, WIRE_UP, WIRE_DEAD };

/* One transport of one process. */
struct wire {
    struct postbag_transport base;
    struct world *world;
    struct process *process;
    int is_inbound;
    enum wire_state state;
    const struct postbag_transport_events *up;
    struct postbag_connect connect;
    int64_t answer_us; /* when the CONNACK comes; 0: never */
    int connack;       /* 0 or its reason */
    int64_t lost_us;   /* when the end is noticed; 0: it lives, or never */
    int lost_err, lost_reason;
    int is_mute; /* nothing reaches the broker any more */
    int is_deaf; /* nothing comes from it any more */
    int is_cut;  /* by a swizzle: no connection can be made */
    int64_t suback_us;
    int is_subscribed;
    int next_command; /* of those to deliver */
    uint32_t receive_max;
    int failures;       /* of attempts, in a row */
    int64_t failing_us; /* since when */
    struct flight flights[FLIGHTS];
    int flight_count;
};

struct broker {
    struct wire wires[WIRES];
    int64_t away_until_us, heal_us;
    uint64_t publishes, acks;
};

/* Taken by postbag_open. */
struct postbag_transport *wire_new(
    struct world *w, struct process *p, int is_inbound);
/* What is due now. */
void broker_step(struct world *w);
/* When something is due next; INT64_MAX: never. */
int64_t broker_next_us(const struct world *w);
/* Faults of the network. */
void broker_strike(struct world *w, enum sim_mark fault);
void broker_heal(struct world *w);

#endif
