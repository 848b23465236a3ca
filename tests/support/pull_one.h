/* SPDX-License-Identifier: MIT */
/* Pulls commands of consumer "app" as firmware does. */
#ifndef POSTBAG_TEST_PULL_ONE_H
#define POSTBAG_TEST_PULL_ONE_H

#include "postbag/port.h"
#include "postbag/postbag.h"

/*
 * What handler does, in a transaction of w with the mark; passes the port's
 * points of a command that is handled.  Not OK: there is none, nothing
 * happened, or nobody knows; in all cases ask again.
 */
int pull_one(const struct postbag_port *port, struct postbag_writer *w,
    postbag_handler handler, void *ctx);

#endif
