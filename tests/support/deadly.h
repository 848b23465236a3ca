/* SPDX-License-Identifier: MIT */
/* A message whose sending ends the process, as a fault below us would. */
#ifndef POSTBAG_TEST_DEADLY_H
#define POSTBAG_TEST_DEADLY_H

#include "postbag/transport.h"

/* From now on sending to this topic ends in SIGKILL.  One transport of the
 * process; topic is borrowed. */
void deadly_make(struct postbag_transport *t, const char *topic);

#endif
