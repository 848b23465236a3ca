/* SPDX-License-Identifier: MIT */
/* A broker in memory that acknowledges at once. */
#ifndef POSTBAG_TEST_INSTANT_H
#define POSTBAG_TEST_INSTANT_H

#include "postbag/transport.h"

struct instant {
    struct postbag_transport base;
    const struct postbag_transport_events *up;
    unsigned long sent;
};

/* Never destroyed. */
void instant_init(struct instant *t);

#endif
