/* SPDX-License-Identifier: MIT */
/* One trial of test_damage.c, and what all of them came to. */
#ifndef POSTBAG_TESTS_DAMAGE_CASE_H
#define POSTBAG_TESTS_DAMAGE_CASE_H

#include "damage.h"
#include "relay.h"
#include "unit.h"

struct figures {
    unsigned trials, salvaged, whole, refused, published, expected;
    unsigned in_place; /* published, and changed inside of the row */
    unsigned of_kind[DAMAGE_KINDS], lost_of_kind[DAMAGE_KINDS];
};
extern struct figures figures;

struct case_of {
    uint64_t seed;
    const struct original *o, *other;
    struct damaged d;
    struct world w;
    char saved[128]; /* path of the salvage */
    char put[3][40]; /* ids of what the firmware put meanwhile */
    size_t put_count;
    unsigned findings;
    int is_control;
    unsigned noticed;
};

/* Of a control it is only counted. */
#define TRIAL_FAILS(t, ...) \
    do { \
        if ((t)->is_control) { \
            (t)->noticed++; \
            break; \
        } \
        print_message("POSTBAG_SEED=%llu %s\n", (unsigned long long)(t)->seed, \
            damage_name((t)->d.kind)); \
        fail_msg(__VA_ARGS__); \
    } while (0)

/* Is it a message that was put?  For fake_transport's on_send. */
void check_sent(void *ctx, const struct fake_sent *s);
/* Of damage_salvage.c: salvage it, and look at what there is. */
void run_salvage(struct case_of *t);

#endif
