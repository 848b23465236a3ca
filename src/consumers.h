/* SPDX-License-Identifier: MIT */
/*
 * Floor 1.  Who gets which commands: names, filters and handlers.
 *
 * Filled by postbag_on before anything runs, only read after that, so any
 * thread may look without a lock.
 */
#ifndef POSTBAG_SRC_CONSUMERS_H
#define POSTBAG_SRC_CONSUMERS_H

#include <stddef.h>

#include "order.h"
#include "postbag/slow.h"

struct consumer {
    const char *name;
    const char *filter;
    postbag_handler handler; /* NULL: its commands are pulled (pull.h) */
    void *ctx;
    postbag_slow_part slow;      /* goes before the handler; NULL: none */
    struct order_rules versions; /* as the list's when it was added */
};

/* All zero is the empty list.  The slow ones stand last. */
struct consumers {
    struct consumer *list;
    size_t count;
    struct order_rules versions; /* of those without rules of their own */
};

/* name and filter are copied.  OK, EINVAL (also a name that is there), ENOMEM;
 * *why (may be NULL) tells. */
POSTBAG_CHECK int postbag__consumers_add(
    struct consumers *c, const struct consumer *one, struct postbag_fault *why);
/* How many have no slow part. */
size_t postbag__consumers_quick(const struct consumers *c);
/* NULL: there is none of that name. */
struct consumer *postbag__consumers_find(struct consumers *c, const char *name);
/* The filters, for a transport's subscribe: count of them, borrowed from the
 * list; the array is yours.  NULL: no memory. */
const char **postbag__consumers_filters(const struct consumers *c);
/* Release that array.  NULL is fine. */
void postbag__consumers_free_filters(const char **filters);
void postbag__consumers_free(struct consumers *c);

#endif
