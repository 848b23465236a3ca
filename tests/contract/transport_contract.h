/* SPDX-License-Identifier: MIT */
/*
 * What every transport must do, as tests: the promises of transport.h.
 *
 * A transport is tested by filling struct contract_peer and calling
 * contract_run.  The peer is the broker at the other end; it must do on demand
 * what brokers do by chance.
 */
#ifndef POSTBAG_TEST_TRANSPORT_CONTRACT_H
#define POSTBAG_TEST_TRANSPORT_CONTRACT_H

#include <stddef.h>

#include "postbag/transport.h"

struct contract_peer {
    const char *name;
    void *ctx;
    /* begin with a peer that knows no session; end it */
    void (*start)(void *ctx);
    void (*stop)(void *ctx);
    /* a transport for this peer, not connected; the same client each time */
    struct postbag_transport *(*make)(void *ctx);
    /* a transport for an address where nobody listens */
    struct postbag_transport *(*make_unreachable)(void *ctx);
    /* on: accept messages, but keep the PUBACKs back */
    void (*hold_acks)(void *ctx, int on);
    /* accept connections, but never say that they are up */
    void (*stay_silent)(void *ctx);
    /* end all connections without a word */
    void (*cut)(void *ctx);
    /* send a message with QoS 1 to every session */
    void (*publish)(void *ctx, const char *topic, const char *payload);
    /* wait until it got so many, counted from start: 1 if so */
    int (*wait_publishes)(void *ctx, size_t count);
    int (*wait_connects)(void *ctx, size_t count);
    int (*wait_acks)(void *ctx, size_t count);
    /* wait until so many connections ended, in whatever way */
    int (*wait_closed)(void *ctx, size_t count);
    size_t (*count_acks)(void *ctx);
    /* endings with a DISCONNECT */
    size_t (*count_goodbyes)(void *ctx);
};

/* The number of tests that failed, as of a cmocka group. */
int contract_run(const struct contract_peer *peer);

#endif
