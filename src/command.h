/* SPDX-License-Identifier: MIT */
/*
 * Floor 1.  A command copied out of SQLite, for who has it longer than the
 * statement may stay open, whose snapshot would be kept for as long.
 */
#ifndef POSTBAG_SRC_COMMAND_H
#define POSTBAG_SRC_COMMAND_H

#include "arena.h"

/* What *c points to is copied into the arena, instead of what was there, and *c
 * points to the copies.  OK or ENOMEM: *c is as it was. */
POSTBAG_CHECK int postbag__command_copy(
    struct arena *a, struct postbag_command *c);

#endif
