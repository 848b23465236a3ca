/* SPDX-License-Identifier: MIT */
/*
 * What goes wrong within a firmware of the tests, when it is told to:
 *
 *   die_at=POINT     SIGKILL at a named point: one of the port's hooks, or
 *                    "accept.sync" or "handle.sync", in the fdatasync of that
 *                    transaction, or a point that the program passes itself
 *   die_after=N      the N-th time that it is passed (1)
 *   fail_commits=N   of 1000 fdatasyncs of these transactions N report EIO,
 *                    drawn with seed=N
 *   tell_accepts=1   say "accept OUTCOME US" on standard output for each call
 *                    of the transport: with POSTBAG_OK or an error, and how
 *                    long it took, which is how long the transport's lock was
 *                    held
 */
#ifndef POSTBAG_TEST_TROUBLE_H
#define POSTBAG_TEST_TROUBLE_H

#include <stdint.h>

#include "postbag/port.h"
#include "postbag/transport.h"

struct trouble {
    const char *die_at;
    uint32_t die_after, fail_commits, seed, tell_accepts;
};

/* The Linux port with the hooks; once, before any thread starts. */
const struct postbag_port *trouble_port(const struct trouble *t);

/* The transport of commands is looked at. */
void trouble_watch(struct postbag_transport *inbound);

/* The program is at such a point. */
void trouble_pass(const char *point);

#endif
