/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  The public face: a handle that owns the engine, its thread and the
 * workers.  postbag_start runs step and wait in turn; who calls postbag_step by
 * hand does the same in a loop of his own.
 */
#include <stdatomic.h>
#include <string.h>

#include "abi.h"
#include "config.h"
#include "crew.h"
#include "engine.h"
#include "error.h"
#include "mem.h"
#include "postbag/versions.h"
#include "writer.h"

enum { ALL_REASONS = POSTBAG_WOKEN | POSTBAG_FILE_CHANGED };
enum { DRAIN_POLL_US = 50 * 1000, TROUBLE_US = 500 * 1000 };

struct postbag {
    struct postbag_config config;
    struct consumers consumers;
    struct engine engine;
    struct crew *crew;
    struct postbag_thread *thread;
    int is_prepared; /* receiver and workers exist; no more consumers */
    int is_running;
    int is_drained; /* what postbag_stop answers */
    int step_error; /* of the last step on the thread */
    atomic_int stop;
    int64_t stop_us; /* until when to wait for PUBACKs */
};

struct shared *postbag__engine_shared(struct postbag *p)
{
    return p == NULL ? NULL : &p->engine.shared;
}

static int64_t now_us(const struct postbag *p)
{
    return p->config.port->mono_us(p->config.port->ctx);
}

static void destroy_transports(const struct postbag_config *config)
{
    if (config == NULL)
        return;
    if (config->transport != NULL)
        config->transport->ops->destroy(config->transport);
    if (config->inbound != NULL)
        config->inbound->ops->destroy(config->inbound);
}

int postbag_open(struct postbag **out, const struct postbag_config *config,
    struct postbag_fault *why)
{
    struct postbag *p;
    int err;

    if (out == NULL || config == NULL) {
        destroy_transports(config);
        return postbag__fail(why, POSTBAG_EINVAL, "open: NULL argument");
    }
    *out = NULL;
    p = postbag__alloc(sizeof(*p));
    if (p == NULL) {
        destroy_transports(config);
        return postbag__fail(why, POSTBAG_ENOMEM, "no memory");
    }
    err = postbag__config_copy(&p->config, config, why);
    if (err != POSTBAG_OK) {
        destroy_transports(config);
        goto fail;
    }
    atomic_init(&p->stop, 0);
    err = postbag__engine_open(&p->engine, &p->config, &p->consumers, why);
    if (err != POSTBAG_OK)
        goto fail;
    p->consumers.versions = p->engine.order;
    *out = p;
    return POSTBAG_OK;
fail:
    if (p != NULL)
        postbag__config_free(&p->config);
    postbag__free(p);
    return err;
}

/* ---- commands ---- */

static int add_consumer(struct postbag *p, const struct consumer *one)
{
    struct postbag_fault why;
    int err;

    if (p->is_prepared || p->config.inbound == NULL)
        return POSTBAG_ESTATE;
    err = postbag__consumers_add(&p->consumers, one, &why);
    if (err != POSTBAG_OK)
        postbag__log(&p->engine.log, POSTBAG_LOG_ERROR, err, "%s", why.text);
    return err;
}

int postbag_on(struct postbag *p, const char *consumer, const char *filter,
    postbag_handler handler, void *ctx)
{
    const struct consumer one = {
        .name = consumer, .filter = filter, .handler = handler, .ctx = ctx};

    return p == NULL ? POSTBAG_EINVAL : add_consumer(p, &one);
}

int postbag_on_slow(struct postbag *p, const char *consumer, const char *filter,
    postbag_slow_part slow, postbag_handler handler, void *ctx)
{
    const struct consumer one = {.name = consumer,
        .filter = filter,
        .handler = handler,
        .ctx = ctx,
        .slow = slow};

    if (p == NULL || slow == NULL || handler == NULL)
        return POSTBAG_EINVAL;
    return add_consumer(p, &one);
}

/* The consumer's own word, or the option's. */
static const char *word(const char *own, const char *option)
{
    return own != NULL ? own : option;
}

int postbag_on_versions(struct postbag *p, const char *consumer,
    const struct postbag_version_rules *rules)
{
    struct postbag_version_rules mine;
    struct postbag_fault why;
    struct order_rules read;
    struct consumer *who;
    int err;

    if (p == NULL || consumer == NULL || rules == NULL)
        return POSTBAG_EINVAL;
    if (p->is_prepared)
        return POSTBAG_ESTATE;
    err = postbag__adopt(&mine, sizeof(mine), rules);
    if (err != POSTBAG_OK)
        return err;
    who = postbag__consumers_find(&p->consumers, consumer);
    if (who == NULL)
        return POSTBAG_ENOTFOUND;
    read = who->versions;
    err =
        postbag__order_rules_read(&read, word(mine.gap, p->config.version_gap),
            word(mine.repeat, p->config.version_repeat),
            word(mine.back, p->config.version_back), &why);
    if (err == POSTBAG_OK)
        who->versions = read;
    else
        postbag__log(&p->engine.log, POSTBAG_LOG_ERROR, err, "consumer %s: %s",
            consumer, why.text);
    return err;
}

static int open_crew(struct postbag *p, struct postbag_fault *why)
{
    struct worker_config c = {
        .db_path = p->config.db_path,
        .port = p->config.port,
        .log = p->engine.log,
        .consumers = &p->consumers,
        .shared = &p->engine.shared,
        .retry_base_ms = p->config.retry_base_ms,
        .retry_cap_ms = p->config.retry_cap_ms,
        .max_attempts = p->config.max_attempts,
        .reply_topics = p->config.reply_topics,
        .reply_dead = p->config.reply_dead,
    };

    return postbag__crew_open(&p->crew, &c, why);
}

static int open_receiver(struct postbag *p, struct postbag_fault *why)
{
    struct receiver_config c = {
        .db_path = p->config.db_path,
        .port = p->config.port,
        .log = p->engine.log,
        .consumers = &p->consumers,
        .shared = &p->engine.shared,
        .accept_ms = p->config.inbox_accept_ms,
        .max_payload = p->engine.max_payload,
        .reply_topics = p->config.reply_topics,
        .identity = p->config.identity,
        .no_identity = p->config.no_identity,
    };

    c.wakes = postbag__crew_wakes(p->crew, &c.wake_count);
    return postbag__receiver_open(&p->engine.receiver, &c, why);
}

/* Once, when the list of consumers is complete. */
static int prepare(struct postbag *p)
{
    struct postbag_fault why;
    int err;

    if (p->is_prepared || p->consumers.count == 0) {
        p->is_prepared = 1;
        return POSTBAG_OK;
    }
    err = open_crew(p, &why);
    if (err == POSTBAG_OK)
        err = open_receiver(p, &why);
    if (err != POSTBAG_OK) {
        postbag__log_fault(
            &p->engine.log, POSTBAG_LOG_ERROR, "prepare for commands", &why);
        postbag__crew_close(p->crew);
        p->crew = NULL;
        return err;
    }
    p->is_prepared = 1;
    return POSTBAG_OK;
}

/* ---- running ---- */

/* Has a stop come to its end: nothing in flight, or no patience left? */
static int has_stopped(struct postbag *p)
{
    if (!atomic_load(&p->stop))
        return 0;
    p->engine.is_draining = 1;
    p->is_drained = postbag__engine_is_drained(&p->engine);
    return p->is_drained || now_us(p) >= p->stop_us;
}

static void run(void *arg)
{
    struct postbag *p = arg;
    const struct postbag_port *port = p->config.port;
    unsigned reasons = ALL_REASONS;

    while (!has_stopped(p)) {
        int64_t next_us;

        /* the step told its error to the log and planned the next try */
        p->step_error = postbag__engine_step(&p->engine, reasons, &next_us);
        if (atomic_load(&p->stop) && next_us > now_us(p) + DRAIN_POLL_US)
            next_us = now_us(p) + DRAIN_POLL_US;
        reasons = port->wait(port->ctx, p->engine.shared.wake, next_us);
    }
    postbag__engine_shut(&p->engine);
}

/* The workers first, so that their last replies still find a relay. */
static void halt(struct postbag *p, uint32_t grace_ms)
{
    p->stop_us = now_us(p) + (int64_t)grace_ms * 1000;
    p->is_drained = 0;
    postbag__crew_stop(p->crew);
    atomic_store(&p->stop, 1);
    postbag_wake(p);
    if (p->thread != NULL)
        p->config.port->thread_join(p->config.port->ctx, p->thread);
    else
        run(p);
    p->thread = NULL;
    p->is_running = 0;
}

static int start_threads(struct postbag *p)
{
    const struct postbag_port *port = p->config.port;
    int niceness = (int)p->config.niceness;
    int err = port->thread_start(
        port->ctx, &p->thread, "postbag-relay", niceness, run, p);

    if (err != POSTBAG_OK || p->crew == NULL)
        return err;
    return postbag__crew_start(p->crew);
}

int postbag_start(struct postbag *p)
{
    int err;

    if (p == NULL)
        return POSTBAG_EINVAL;
    if (p->is_running || p->config.port->thread_start == NULL)
        return POSTBAG_ESTATE;
    err = prepare(p);
    if (err != POSTBAG_OK)
        return err;
    atomic_store(&p->stop, 0);
    p->engine.is_draining = 0;
    p->is_running = 1;
    err = start_threads(p);
    if (err != POSTBAG_OK)
        halt(p, 0); /* what did start */
    return err;
}

int postbag_step(struct postbag *p, int64_t *next_us_out)
{
    const struct postbag_port *port;
    unsigned reasons = POSTBAG_WOKEN;
    int err;

    if (p == NULL || next_us_out == NULL)
        return POSTBAG_EINVAL;
    if (p->is_running)
        return POSTBAG_ESTATE;
    port = p->config.port;
    *next_us_out = now_us(p) + TROUBLE_US;
    err = prepare(p);
    if (err != POSTBAG_OK)
        return err;
    /* nobody waits on the wake here, so ask it what has happened */
    reasons |= port->wait(port->ctx, p->engine.shared.wake, 0);
    return postbag__engine_step(&p->engine, reasons, next_us_out);
}

int postbag_work(struct postbag *p, int *did_out)
{
    int err;

    if (p == NULL || did_out == NULL)
        return POSTBAG_EINVAL;
    *did_out = 0;
    if (p->is_running)
        return POSTBAG_ESTATE;
    err = prepare(p);
    if (err != POSTBAG_OK || p->crew == NULL)
        return err;
    return postbag__crew_run_one(p->crew, did_out);
}

void postbag_wake(struct postbag *p)
{
    if (p == NULL)
        return;
    p->config.port->wake(p->config.port->ctx, p->engine.shared.wake);
}

void postbag_link_hint(struct postbag *p, int is_up)
{
    if (p == NULL)
        return;
    postbag__link_note_hint(&p->engine.outbound, is_up);
    postbag__link_note_hint(&p->engine.inbound, is_up);
    postbag_wake(p);
}

void postbag_reconnect(struct postbag *p)
{
    if (p == NULL)
        return;
    postbag__link_note_renewal(&p->engine.outbound);
    postbag__link_note_renewal(&p->engine.inbound);
    postbag_wake(p);
}

int postbag_stop(struct postbag *p, uint32_t grace_ms)
{
    if (p == NULL)
        return POSTBAG_EINVAL;
    halt(p, grace_ms);
    return p->is_drained ? POSTBAG_OK : POSTBAG_EAGAIN;
}

void postbag_close(struct postbag *p)
{
    if (p == NULL)
        return;
    if (p->is_running)
        halt(p, 0);
    postbag__engine_close(&p->engine);
    postbag__crew_close(p->crew);
    postbag__consumers_free(&p->consumers);
    postbag__config_free(&p->config);
    postbag__free(p);
}
