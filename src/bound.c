/* SPDX-License-Identifier: MIT */
/* See bound.h. */
#include "bound.h"

/* Is any of both at so many eighths of its bound? */
static int is_at(
    const struct bound *b, int64_t rows, int64_t bytes, int eighths)
{
    return rows * 8 >= (int64_t)b->max_rows * eighths ||
           bytes * 8 >= (int64_t)b->max_bytes * eighths;
}

int postbag__bound_allows(
    const struct bound *b, int64_t rows, int64_t bytes, int is_bulk)
{
    return !is_at(b, rows, bytes, is_bulk ? 7 : 8);
}

int postbag__bound_watch(struct bound *b, int64_t rows, int64_t bytes)
{
    int was_reached = b->is_reached;

    b->is_reached = is_at(b, rows, bytes, was_reached ? 6 : 7);
    return b->is_reached != was_reached;
}
