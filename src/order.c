/* SPDX-License-Identifier: MIT */
/* One more than before is as it should be. */
#include "order.h"

#include <stddef.h>
#include <string.h>

static int read_rule(enum order_rule *out, const char *name, const char *text,
    int may_defer, struct postbag_fault *why)
{
    if (strcmp(text, "accept") == 0)
        *out = ORDER_ACCEPT;
    else if (strcmp(text, "refuse") == 0)
        *out = ORDER_REFUSE;
    else if (may_defer && strcmp(text, "defer") == 0)
        *out = ORDER_DEFER;
    else
        return postbag__fail(why, POSTBAG_EINVAL,
            "option %s is %s; it must be accept%s or refuse", name, text,
            may_defer ? ", defer" : "");
    return POSTBAG_OK;
}

int postbag__order_rules_read(struct order_rules *out, const char *gap,
    const char *repeat, const char *back, struct postbag_fault *why)
{
    int err = read_rule(&out->gap, "version_gap", gap, 1, why);

    if (err == POSTBAG_OK)
        err = read_rule(&out->repeat, "version_repeat", repeat, 0, why);
    return err == POSTBAG_OK
               ? read_rule(&out->back, "version_back", back, 0, why)
               : err;
}

enum postbag_order postbag__order_of(
    const int64_t *version, const int64_t *previous)
{
    if (version == NULL)
        return POSTBAG_ORDER_NONE;
    if (previous == NULL)
        return POSTBAG_ORDER_FIRST;
    if (*version == *previous)
        return POSTBAG_ORDER_REPEAT;
    if (*version < *previous)
        return POSTBAG_ORDER_BACK;
    return *version - 1 == *previous ? POSTBAG_ORDER_NEXT : POSTBAG_ORDER_GAP;
}

const char *postbag__order_refusal(
    const struct order_rules *r, enum postbag_order order)
{
    if (order == POSTBAG_ORDER_GAP && r->gap == ORDER_REFUSE)
        return "version gap";
    if (order == POSTBAG_ORDER_REPEAT && r->repeat == ORDER_REFUSE)
        return "version repeat";
    if (order == POSTBAG_ORDER_BACK && r->back == ORDER_REFUSE)
        return "version back";
    return NULL;
}
