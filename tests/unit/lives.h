/* SPDX-License-Identifier: MIT */
/* Lives of a relay that end without order, on the virtual clock. */
#ifndef POSTBAG_TESTS_LIVES_H
#define POSTBAG_TESTS_LIVES_H

#include "relay.h"
#include "unit.h"

/* A life that ends: the next one begins a second later, in the same boot. */
static inline void die(struct bench *b)
{
    relay_kill(&b->r);
    sim_pass_ms(&b->w.sim, 1000);
    relay_init(&b->r, &b->w);
    b->r.options.start_jitter_ms = 1;
    b->r.options.retry_cap_ms = 60000;
}

/* So many lives that send, get no answer, and end. */
static inline void die_unanswered(struct bench *b, int lives)
{
    for (int i = 0; i < lives; i++) {
        struct relay *r = bench_up(b);

        assert_true(r->out->in_flight > 0);
        die(b);
    }
}

/* tried and deaths of a lane's mark. */
static inline const char *mark(struct bench *b, int lane)
{
    return sql_text(b->w.t.app,
        "SELECT tried, deaths FROM outbox_cursor WHERE lane = %d", lane);
}

static inline const char *held(struct bench *b)
{
    return sql_text(b->w.t.app,
        "SELECT topic, state, attempts, deaths FROM outbox_held ORDER BY seq");
}

static inline int64_t delivered(struct bench *b)
{
    return sql_get(b->w.t.app, "SELECT sum(delivered) FROM outbox_cursor");
}

static inline void expect_no_trace(struct bench *b, int64_t rows)
{
    assert_string_equal(held(b), "");
    assert_int_equal(delivered(b), rows);
}

#endif
