/* SPDX-License-Identifier: MIT */
/*
 * Commands that come in: set interval, reset counter.  Each changes the state,
 * notes its effect and answers, in the one transaction that also marks it as
 * done: however often the broker delivers it, that happens once.
 *
 * The handlers run on the engine's worker thread, on its connection.
 */
#ifndef DEMO_COMMANDS_H
#define DEMO_COMMANDS_H

#include "postbag/postbag.h"

/* Before postbag_start. */
int commands_register(struct postbag *engine);

#endif
