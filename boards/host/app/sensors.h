/* SPDX-License-Identifier: MIT */
/* The sensors of a PC: what the kernel says about it.  No state, any thread. */
#ifndef DEMO_SENSORS_H
#define DEMO_SENSORS_H

#include <stddef.h>

struct sensor {
    /* its row in the table sensor, the key of its messages */
    const char *name;
    const char *unit;
    /* an alarm each time it has counted so much more; 0: never */
    double alarm_every;
    /* 1: *value is of now; 0: this machine does not have it */
    int (*read)(double *value);
};

/* For ever valid. */
const struct sensor *sensors_all(size_t *count_out);

#endif
