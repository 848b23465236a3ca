/* SPDX-License-Identifier: MIT */
/* A link on a port without time and a transport without a network. */
#ifndef POSTBAG_TEST_LINK_WIRE_H
#define POSTBAG_TEST_LINK_WIRE_H

#include <stdio.h>
#include <stdlib.h>

#include "fake_transport.h"
#include "link.h"
#include "sim_port.h"
#include "unit.h"

enum { BASE_MS = 1000, CAP_MS = 300000, STABLE_MS = 30000 };
enum { SLOW_MS = 60000, AWAY_S = 600 };

struct wire {
    struct sim_port sim;
    struct fake_transport *t;
    struct log log_hook;
    struct link l;
    struct postbag_transport_events events;
    struct link_options options;
    char log[400]; /* the last line, with its level */
};

static inline void keep_line(void *ctx, const struct postbag_log_line *line)
{
    struct wire *w = ctx;

    (void)snprintf(w->log, sizeof(w->log), "<%d>%s", line->level, line->text);
}

static inline void up(
    void *ctx, uint32_t generation, const struct postbag_link *info)
{
    postbag__link_note_up(&((struct wire *)ctx)->l, generation, info);
}

static inline void lost(
    void *ctx, uint32_t generation, int err, int reason, const char *text)
{
    postbag__link_note_lost(
        &((struct wire *)ctx)->l, generation, err, reason, text);
}

static inline void init(struct wire *w)
{
    postbag__link_init(&w->l, &w->sim.port, &w->log_hook, &w->t->base,
        &w->events, &w->options);
}

static inline int set_up(void **state)
{
    struct wire *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    sim_port_init(&w->sim);
    w->t = fake_transport_new();
    w->events =
        (struct postbag_transport_events){.ctx = w, .up = up, .lost = lost};
    w->options = (struct link_options){
        .name = "outbound",
        .connect_timeout_ms = 10000,
        .reconnect_base_ms = BASE_MS,
        .reconnect_cap_ms = CAP_MS,
        .stable_ms = STABLE_MS,
        .start_jitter_ms = 1,
        .first_server_s = AWAY_S,
    };
    w->log_hook.write = keep_line;
    w->log_hook.ctx = w;
    init(w);
    *state = w;
    return 0;
}

static inline int tear_down(void **state)
{
    struct wire *w = *state;

    postbag__link_stop(&w->l);
    w->t->base.ops->destroy(&w->t->base);
    free(w);
    return 0;
}

static inline enum link_change step(struct wire *w)
{
    return postbag__link_step(&w->l, w->sim.mono_us);
}

/* Jump to the next try and make it; ms waited. */
static inline int64_t next_try(struct wire *w)
{
    int64_t ms = (w->l.next_us - w->sim.mono_us) / 1000;

    assert_int_equal(w->l.state, LINK_WAITING);
    sim_pass_ms(&w->sim, ms - 1);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.state, LINK_WAITING);
    sim_pass_ms(&w->sim, 1);
    (void)step(w);
    return ms;
}

/* As if it had been started and come up. */
static inline void come_up(struct wire *w)
{
    postbag__link_start(&w->l, w->sim.mono_us);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.state, LINK_CONNECTING);
    assert_int_equal(step(w), LINK_CAME_UP);
}

/* Come up, live so long and be lost for this reason; the wait planned then,
 * with the whole of each backoff. */
static inline int64_t wait_after(
    struct wire *w, int64_t life_ms, int err, int reason)
{
    w->sim.random_byte = 0xff;
    if (w->l.state == LINK_OFF)
        postbag__link_start(&w->l, w->sim.mono_us);
    sim_pass_ms(&w->sim, (w->l.next_us - w->sim.mono_us) / 1000);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(step(w), LINK_CAME_UP);
    w->l.proved = 1;
    sim_pass_ms(&w->sim, life_ms);
    fake_lose(w->t, err, reason);
    assert_int_equal(step(w), LINK_WENT_DOWN);
    return (w->l.next_us - w->sim.mono_us) / 1000;
}

/* The same for a CONNACK that refuses. */
static inline int64_t wait_refused(struct wire *w, int err, int reason)
{
    w->sim.random_byte = 0xff;
    w->t->auto_up = 0;
    if (w->l.state == LINK_OFF)
        postbag__link_start(&w->l, w->sim.mono_us);
    sim_pass_ms(&w->sim, (w->l.next_us - w->sim.mono_us) / 1000);
    assert_int_equal(step(w), LINK_SAME);
    assert_int_equal(w->l.state, LINK_CONNECTING);
    fake_lose(w->t, err, reason);
    assert_int_equal(step(w), LINK_WENT_DOWN);
    w->t->auto_up = 1;
    return (w->l.next_us - w->sim.mono_us) / 1000;
}

#endif
