/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  One growing block for the parts of one row: no statement may be
 * open while the transport is called, so rows are copied out of SQLite.  It
 * grows to the largest row seen and is used again; pointers are taken only
 * after everything is in (offsets until then).
 */
#ifndef POSTBAG_SRC_ARENA_H
#define POSTBAG_SRC_ARENA_H

#include <stddef.h>

#include "postbag/postbag.h"

struct arena {
    char *bytes;
    size_t used, size;
    int err; /* ENOMEM sticks until reset */
};

enum { ARENA_NONE = -1 };

void postbag__arena_reset(struct arena *a);
void postbag__arena_free(struct arena *a);
/* Offset of a copy with a NUL behind it, or ARENA_NONE for NULL bytes or no
 * memory. */
ptrdiff_t postbag__arena_add(struct arena *a, const void *bytes, size_t len);
/* NULL for ARENA_NONE.  Until the next add. */
char *postbag__arena_at(const struct arena *a, ptrdiff_t offset);

#endif
