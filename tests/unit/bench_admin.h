/* SPDX-License-Identifier: MIT */
/* An operator beside the relay of a bench. */
#ifndef POSTBAG_TESTS_BENCH_ADMIN_H
#define POSTBAG_TESTS_BENCH_ADMIN_H

#include "postbag/admin.h"
#include "relay.h"
#include "unit.h"

static inline struct postbag_admin *open_admin(struct bench *b)
{
    const struct postbag_admin_config c = {
        .struct_size = sizeof(c),
        .db_path = b->w.t.path,
        .port = &b->w.sim.port,
        .writable = 1,
    };
    struct postbag_admin *a;
    struct postbag_fault why = {0};

    if (postbag_admin_open(&a, &c, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
    return a;
}

#endif
