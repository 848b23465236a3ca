/* SPDX-License-Identifier: MIT */
/* See relay.h. */
#include "relay.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config.h"

/* No engine needs more steps for what a test lets happen. */
enum { MOST_STEPS = 20000, MOST_STEPS_A_SECOND = 20 };

void world_make(struct world *w)
{
    tempdb_make_outbox(&w->t);
    sim_port_init(&w->sim);
}

void world_remove(struct world *w)
{
    assert_int_equal(w->sim.open_gates, 0);
    tempdb_remove(&w->t);
}

static void keep_line(void *ctx, const struct postbag_log_line *line)
{
    struct relay *r = ctx;
    size_t len = strlen(r->log);

    if (len > sizeof(r->log) / 2) {
        memmove(r->log, r->log + len / 2, len - len / 2 + 1);
        len = strlen(r->log);
    }
    (void)snprintf(r->log + len, sizeof(r->log) - len, "%s\n", line->text);
    r->errors += line->level == POSTBAG_LOG_ERROR;
}

void relay_init(struct relay *r, struct world *w)
{
    memset(r, 0, sizeof(*r));
    r->world = w;
    r->options.struct_size = sizeof(r->options);
    r->options.db_path = w->t.path;
    r->options.port = &w->sim.port;
    r->options.run_dir = "none";
    r->options.log = keep_line;
    r->options.log_ctx = r;
    r->out = fake_transport_new();
    r->options.transport = &r->out->base;
}

void relay_open(struct relay *r)
{
    struct postbag_fault why = {0};

    if (postbag__config_copy(&r->config, &r->options, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
    if (r->window != 0)
        r->config.window = r->window;
    if (postbag__engine_open(&r->e, &r->config, &r->consumers, &why) !=
        POSTBAG_OK)
        fail_msg("%s", why.text);
    r->is_open = 1;
}

int relay_cannot_open(struct relay *r, struct postbag_fault *why)
{
    unsigned destroyed = 0;
    int err;

    r->out->destroyed = &destroyed;
    assert_int_equal(
        postbag__config_copy(&r->config, &r->options, NULL), POSTBAG_OK);
    err = postbag__engine_open(&r->e, &r->config, &r->consumers, why);
    assert_int_not_equal(err, POSTBAG_OK);
    assert_int_equal(destroyed, 1);
    assert_int_equal(why->code, err);
    postbag__config_free(&r->config);
    r->out = fake_transport_new();
    r->options.transport = &r->out->base;
    return err;
}

int relay_may_open(struct relay *r)
{
    int err;

    assert_int_equal(
        postbag__config_copy(&r->config, &r->options, NULL), POSTBAG_OK);
    err = postbag__engine_open(&r->e, &r->config, &r->consumers, NULL);
    r->is_open = err == POSTBAG_OK;
    if (r->is_open)
        return err;
    postbag__config_free(&r->config);
    r->out = NULL;
    return err;
}

void relay_close(struct relay *r)
{
    postbag__engine_shut(&r->e);
    relay_kill(r);
}

void relay_kill(struct relay *r)
{
    postbag__engine_close(&r->e);
    postbag__config_free(&r->config);
    r->out = NULL;
    r->is_open = 0;
}

static void step(struct relay *r, unsigned reasons)
{
    r->err = postbag__engine_step(&r->e, reasons, &r->next_us);
    r->steps++;
}

void relay_step(struct relay *r)
{
    step(r, POSTBAG_WOKEN);
}

void relay_tick(struct relay *r)
{
    step(r, 0);
}

/* Both clocks. */
static void jump_to(struct sim_port *sim, int64_t mono_us)
{
    sim->wall_ms += mono_us / 1000 - sim->mono_us / 1000;
    sim->mono_us = mono_us;
}

/* Time jumps from deadline to deadline; wakes cost none. */
static void run_ms(struct relay *r, int64_t ms, unsigned reasons)
{
    struct sim_port *sim = &r->world->sim;
    int64_t end_us = sim->mono_us + ms * 1000;
    int64_t most = MOST_STEPS + ms / 1000 * MOST_STEPS_A_SECOND;

    sim->is_woken = 0;
    for (int64_t i = 0; reasons != 0 || r->next_us < end_us; i++) {
        if (i == most)
            fail_msg("the engine spins: %s", r->log);
        if (reasons == 0 && r->next_us > sim->mono_us)
            jump_to(sim, r->next_us);
        step(r, reasons);
        reasons = sim->is_woken ? POSTBAG_WOKEN : 0;
        sim->is_woken = 0;
    }
    jump_to(sim, end_us);
}

void relay_idle_ms(struct relay *r, int64_t ms)
{
    run_ms(r, ms, 0);
}

void relay_run_ms(struct relay *r, int64_t ms)
{
    run_ms(r, ms, POSTBAG_WOKEN);
}

void relay_put(struct relay *r, const char *prefix, int count)
{
    sql_run(r->world->t.app,
        "INSERT INTO outbox(topic, payload)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < %d)"
        " SELECT '%s' || i, 'payload' FROM n",
        count, prefix);
}

void relay_put_key(struct relay *r, const char *topic, const char *key)
{
    sql_run(r->world->t.app,
        "INSERT INTO outbox(topic, payload, key) VALUES ('%s', 'payload', "
        "'%s')",
        topic, key);
}

int bench_set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    world_make(&b->w);
    relay_init(&b->r, &b->w);
    *state = b;
    return 0;
}

int bench_tear_down(void **state)
{
    struct bench *b = *state;

    if (b->r.is_open)
        relay_close(&b->r);
    else if (b->r.out != NULL)
        b->r.out->base.ops->destroy(&b->r.out->base);
    world_remove(&b->w);
    free(b);
    return 0;
}

struct relay *bench_up(struct bench *b)
{
    relay_open(&b->r);
    relay_run_ms(&b->r, 10);
    assert_int_equal(b->r.e.lease.is_owner, 1);
    assert_int_equal(b->r.e.outbound.state, LINK_UP);
    return &b->r;
}
