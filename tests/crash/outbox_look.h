/* SPDX-License-Identifier: MIT */
/* What is left of an outbox is looked at: see outbox_cut.h, whose struct ctx
 * points to. */
#ifndef POSTBAG_TESTS_OUTBOX_LOOK_H
#define POSTBAG_TESTS_OUTBOX_LOOK_H

#include "power_cut.h"

enum finding outbox_look(void *ctx, unsigned depth);

#endif
