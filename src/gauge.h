/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  What struct postbag_pressure is made of: how much waits, for how
 * long, and the room on the file system.  On any connection, the thread's.
 */
#ifndef POSTBAG_SRC_GAUGE_H
#define POSTBAG_SRC_GAUGE_H

#include "room.h"

struct gauge {
    const struct postbag_port *port;
    struct stmt fills, oldest;
    struct room room;
    uint8_t boot[16];
};

/* db and port are borrowed until close; also after a failure. */
POSTBAG_CHECK int postbag__gauge_open(
    struct gauge *g, struct db *db, const struct postbag_port *port);
void postbag__gauge_close(struct gauge *g);

/* Fill all but struct_size. */
POSTBAG_CHECK int postbag__gauge_read(
    struct gauge *g, struct postbag_pressure *out);

#endif
