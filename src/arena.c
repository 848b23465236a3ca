/* SPDX-License-Identifier: MIT */
/* Doubling block; a failed growth leaves what is there and sticks. */
#include "arena.h"

#include <string.h>

#include "mem.h"

enum { FIRST_SIZE = 4096 };

void postbag__arena_reset(struct arena *a)
{
    a->used = 0;
    a->err = POSTBAG_OK;
}

void postbag__arena_free(struct arena *a)
{
    postbag__free(a->bytes);
    memset(a, 0, sizeof(*a));
}

static int make_room(struct arena *a, size_t len)
{
    size_t size = a->size == 0 ? FIRST_SIZE : a->size;
    char *bytes;

    while (size - a->used < len)
        size *= 2;
    if (size == a->size)
        return POSTBAG_OK;
    bytes = postbag__resize(a->bytes, size);
    if (bytes == NULL)
        return POSTBAG_ENOMEM;
    a->bytes = bytes;
    a->size = size;
    return POSTBAG_OK;
}

ptrdiff_t postbag__arena_add(struct arena *a, const void *bytes, size_t len)
{
    size_t at = a->used;

    if (bytes == NULL || a->err != POSTBAG_OK)
        return ARENA_NONE;
    a->err = make_room(a, len + 1);
    if (a->err != POSTBAG_OK)
        return ARENA_NONE;
    if (len > 0)
        memcpy(a->bytes + at, bytes, len);
    a->bytes[at + len] = '\0';
    a->used = at + len + 1;
    return (ptrdiff_t)at;
}

char *postbag__arena_at(const struct arena *a, ptrdiff_t offset)
{
    return offset == ARENA_NONE ? NULL : a->bytes + offset;
}
