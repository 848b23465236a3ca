/* SPDX-License-Identifier: MIT */
/*
 * The upper side of a transport, for tests: records every event and lets the
 * test wait for them.  Events come on any thread; the test's own thread waits
 * and reads.  All waits give up after 10 s and return 0 then.
 */
#ifndef POSTBAG_TEST_RECORDER_H
#define POSTBAG_TEST_RECORDER_H

#include <pthread.h>
#include <stdint.h>

#include "postbag/transport.h"

#define RECORDER_TOKENS 4096

struct outcome {
    unsigned count; /* how often it settled */
    int err;
    int reason;
};

struct recorder {
    struct postbag_transport_events events;
    pthread_mutex_t lock;
    pthread_cond_t changed;

    int answer; /* see recorder_answer */
    /* if set, before connect: called within arrived, with lock held */
    void (*on_arrived)(void *ctx, const struct postbag_frame *f);
    void *on_arrived_ctx;

    unsigned ups;
    uint32_t up_generation;
    struct postbag_link link;

    unsigned losts;
    uint32_t lost_generation;
    int lost_err;
    int lost_reason;
    char lost_text[400];

    unsigned subscribed;
    uint32_t subscribed_generation;

    unsigned settled;
    uint32_t order[RECORDER_TOKENS];
    struct outcome outcomes[RECORDER_TOKENS];
    unsigned has_text; /* the last one that settled */
    char settled_text[400];

    unsigned arrivals;
    char topic[128];
    char payload[128];
    unsigned dup;

    unsigned is_closed; /* set by recorder_close */
    unsigned late;      /* events after that */
};

void recorder_init(struct recorder *r);
void recorder_destroy(struct recorder *r);
/* disconnect has returned: whatever comes now is late.  recorder_open before
   the next connect. */
void recorder_close(struct recorder *r);
void recorder_open(struct recorder *r);

/* What arrived returns from now on. */
void recorder_answer(struct recorder *r, int answer);

/* Until the counter has reached count. */
int recorder_wait(struct recorder *r, const unsigned *counter, unsigned count);
/* Until an attempt has come to its end.  1: ups has reached count. */
int recorder_wait_attempt(struct recorder *r, unsigned ups, unsigned losts);
/* How many tokens of 0 .. count - 1 settled exactly once with err. */
unsigned recorder_settled_once(struct recorder *r, uint32_t count, int err);

#endif
