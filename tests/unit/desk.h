/* SPDX-License-Identifier: MIT */
/* A public handle on a port without time and transports without a network. */
#ifndef POSTBAG_TESTS_DESK_H
#define POSTBAG_TESTS_DESK_H

#include <sqlite3.h>
#include <stdlib.h>

#include "fake_transport.h"
#include "postbag/linux.h"
#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"

struct desk {
    struct tempdb t;
    struct sim_port sim;
    struct postbag_port port; /* for the tests with threads */
    struct postbag_config c;
    struct fake_transport *out, *in;
    unsigned destroyed;
    struct postbag *p;
    int handled;
};

static inline int set_up(void **state)
{
    struct desk *d = calloc(1, sizeof(*d));

    assert_non_null(d);
    tempdb_make_outbox(&d->t);
    sim_port_init(&d->sim);
    d->port = *postbag_linux_port();
    d->out = fake_transport_new();
    d->out->destroyed = &d->destroyed;
    d->out->auto_settle = 1;
    d->c = (struct postbag_config){.struct_size = sizeof(d->c),
        .db_path = d->t.path,
        .port = &d->sim.port,
        .transport = &d->out->base,
        .run_dir = "none"};
    *state = d;
    return 0;
}

static inline int tear_down(void **state)
{
    struct desk *d = *state;

    if (d->p == NULL && d->destroyed == 0)
        d->out->base.ops->destroy(&d->out->base);
    postbag_close(d->p);
    assert_int_equal(d->destroyed, d->in == NULL ? 1 : 2);
    tempdb_remove(&d->t);
    free(d);
    return 0;
}

static inline void add_inbound(struct desk *d)
{
    d->in = fake_transport_new();
    d->in->destroyed = &d->destroyed;
    d->c.inbound = &d->in->base;
}

static inline void open_it(struct desk *d)
{
    struct postbag_fault why = {0};

    if (postbag_open(&d->p, &d->c, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
}

static inline void put(struct desk *d)
{
    sql_run(d->t.app, "INSERT INTO outbox(topic, payload) VALUES ('t', '')");
}

static inline int64_t cursor(struct desk *d)
{
    return sql_get(d->t.app, "SELECT acked FROM outbox_cursor WHERE lane = 0");
}

/* Step by the deadlines, and when something happened, for so long. */
static inline void step_ms(struct desk *d, int64_t ms)
{
    int64_t end = d->sim.mono_us + ms * 1000;
    int64_t next_us = 0;

    while (next_us < end || d->sim.is_woken) {
        d->sim.is_woken = 0;
        assert_ok(postbag_step(d->p, &next_us));
        if (!d->sim.is_woken && next_us > d->sim.mono_us)
            d->sim.mono_us = next_us < end ? next_us : end;
    }
    d->sim.mono_us = end;
}

static inline enum postbag_outcome handle(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    struct desk *d = ctx;

    (void)w;
    assert_string_equal(cmd->topic, "cmd/a");
    d->handled++;
    return POSTBAG_DONE;
}

static inline void open_with_commands(struct desk *d)
{
    open_it(d);
    assert_ok(postbag_on(d->p, "a", "cmd/#", handle, d));
}

#endif
