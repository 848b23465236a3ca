/* SPDX-License-Identifier: MIT */
/* Floor 0.  What the version of a key says against the one before it, and what
 * the rules make of that.  Pure. */
#ifndef POSTBAG_SRC_ORDER_H
#define POSTBAG_SRC_ORDER_H

#include <stdint.h>

#include "error.h"

enum order_rule { ORDER_ACCEPT, ORDER_REFUSE, ORDER_DEFER };

/* The options version_..., or a consumer's own; all zero accepts. */
struct order_rules {
    enum order_rule gap; /* the only one that may be ORDER_DEFER */
    enum order_rule repeat;
    enum order_rule back;
    uint32_t defer_ms;
    uint32_t defer_rows;
};

/* The words of the three.  OK, EINVAL (*why names the option) */
POSTBAG_CHECK int postbag__order_rules_read(struct order_rules *out,
    const char *gap, const char *repeat, const char *back,
    struct postbag_fault *why);

/* Pointers are NULL where there is none. */
enum postbag_order postbag__order_of(
    const int64_t *version, const int64_t *previous);
/* Why a command of this order is dead; NULL: it is not. */
const char *postbag__order_refusal(
    const struct order_rules *r, enum postbag_order order);

#endif
