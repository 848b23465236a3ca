/* SPDX-License-Identifier: MIT */
/*
 * How each life ends: a relay delivers all that is there, and the database is
 * sound.  Nothing fails here; what does not hold is noted in t->wrong.
 */
#ifndef POSTBAG_TORTURE_ENDING_H
#define POSTBAG_TORTURE_ENDING_H

#include "torture.h"

void ending(struct torture *t);

#endif
