/* SPDX-License-Identifier: MIT */
/*
 * A database, a receiver and a worker under a clock that the test moves.  The
 * port is the Linux one but for time, boot id and random numbers; the latter
 * are the highest, so that each backoff is as long as it can be.
 */
#ifndef POSTBAG_TESTS_INBOX_WORLD_H
#define POSTBAG_TESTS_INBOX_WORLD_H

#include "temp_db.h"

#include <string.h>

#include "consumers.h"
#include "postbag/linux.h"
#include "receiver.h"
#include "worker.h"

enum { WORLD_RETRY_BASE_MS = 1000, WORLD_MAX_ATTEMPTS = 3 };

struct inbox_world {
    struct temp_db t;
    struct postbag_port port;
    int64_t wall_ms;
    int64_t mono_us;
    uint8_t boot;
    struct consumers consumers;
    struct shared shared;
    const char *again_topics; /* where the receiver may reply; NULL: nowhere */
    uint32_t generation;      /* of the connection that delivers */
    uint32_t reply_dead;      /* the worker's option */
    const char *identity, *no_identity; /* the receiver's options */
    struct log log;                     /* the receiver's */
    struct receiver *receiver;
    struct worker *worker;
};

static inline int64_t world_wall_ms(void *ctx)
{
    return ((struct inbox_world *)ctx)->wall_ms;
}

static inline int64_t world_mono_us(void *ctx)
{
    return ((struct inbox_world *)ctx)->mono_us;
}

static inline int world_boot_id(void *ctx, uint8_t out[16])
{
    memset(out, ((struct inbox_world *)ctx)->boot, 16);
    return POSTBAG_OK;
}

static inline int world_random(void *ctx, void *buf, size_t len)
{
    (void)ctx;
    memset(buf, 0xff, len);
    return POSTBAG_OK;
}

/* All but the database. */
static inline struct inbox_world *world_new_bare(void)
{
    struct inbox_world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    w->port = *postbag_linux_port();
    w->port.ctx = w;
    w->port.wall_ms = world_wall_ms;
    w->port.mono_us = world_mono_us;
    w->port.boot_id = world_boot_id;
    w->port.random = world_random;
    w->wall_ms = INT64_C(1800000000000);
    w->mono_us = INT64_C(60000000);
    w->boot = 1;
    w->generation = 1;
    w->identity = "id,correlation,json:$.id";
    w->no_identity = "dead";
    w->shared.port = &w->port;
    assert_int_equal(
        w->port.wake_new(w->port.ctx, &w->shared.wake), POSTBAG_OK);
    return w;
}

static inline struct inbox_world *world_new(void)
{
    struct inbox_world *w = world_new_bare();

    temp_db_open(&w->t);
    return w;
}

static inline void world_add(struct inbox_world *w, const char *name,
    const char *filter, postbag_handler handler, void *ctx)
{
    const struct consumer one = {
        .name = name, .filter = filter, .handler = handler, .ctx = ctx};

    assert_int_equal(
        postbag__consumers_add(&w->consumers, &one, NULL), POSTBAG_OK);
}

static inline void world_open_receiver(
    struct inbox_world *w, uint32_t accept_ms)
{
    const struct receiver_config c = {
        .db_path = w->t.path,
        .port = &w->port,
        .log = w->log,
        .consumers = &w->consumers,
        .shared = &w->shared,
        .accept_ms = accept_ms,
        .max_payload = 1000,
        .reply_topics = w->again_topics,
        .identity = w->identity,
        .no_identity = w->no_identity,
    };
    struct postbag_fault why = {0};

    if (postbag__receiver_open(&w->receiver, &c, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
}

static inline void world_open_worker(
    struct inbox_world *w, const char *reply_topics)
{
    const struct worker_config c = {
        .db_path = w->t.path,
        .port = &w->port,
        .consumers = &w->consumers,
        .shared = &w->shared,
        .retry_base_ms = WORLD_RETRY_BASE_MS,
        .retry_cap_ms = 4 * WORLD_RETRY_BASE_MS,
        .max_attempts = WORLD_MAX_ATTEMPTS,
        .reply_topics = reply_topics,
        .reply_dead = w->reply_dead,
    };
    struct postbag_fault why = {0};

    if (postbag__worker_open(&w->worker, &c, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
}

/* As after the end of the process, or with boot changed of the machine. */
static inline void world_restart(struct inbox_world *w)
{
    postbag__receiver_close(w->receiver);
    w->receiver = NULL;
    postbag__worker_close(w->worker);
    w->worker = NULL;
    world_open_receiver(w, 100);
    world_open_worker(w, "re/#");
}

static inline void world_free_bare(struct inbox_world *w)
{
    postbag__receiver_close(w->receiver);
    postbag__worker_close(w->worker);
    postbag__consumers_free(&w->consumers);
    w->port.wake_free(w->port.ctx, w->shared.wake);
    postbag__db_close(&w->t.db);
    free(w);
}

static inline void world_free(struct inbox_world *w)
{
    struct tempdb file = w->t.file;

    world_free_bare(w);
    tempdb_remove(&file);
}

/* Deliver a command with an id, and a key unless it is NULL. */
static inline int world_deliver_on(struct inbox_world *w, const char *topic,
    const char *id, const char *key, const char *payload)
{
    const struct postbag_property p[] = {
        {"id", id}, {"source", "/scada"}, {"partitionkey", key}};
    const struct postbag_frame f = {
        .topic = topic,
        .payload = payload,
        .payload_len = strlen(payload),
        .properties = p,
        .property_count = key == NULL ? 2 : 3,
    };

    return postbag__receiver_accept(w->receiver, w->generation, &f);
}

static inline void world_deliver(
    struct inbox_world *w, const char *id, const char *key)
{
    assert_int_equal(world_deliver_on(w, "cmd/a", id, key, "go"), POSTBAG_OK);
}

/* 1 if a handler ran; the worker must not fail. */
static inline int world_run_one(struct inbox_world *w)
{
    int64_t next_us;
    int did;
    int err = postbag__worker_run_one(w->worker, &did, &next_us);

    if (err != POSTBAG_OK)
        fail_msg("%s", postbag__worker_fault(w->worker)->text);
    return did;
}

static inline void world_pass_ms(struct inbox_world *w, int64_t ms)
{
    w->mono_us += ms * 1000;
    w->wall_ms += ms;
}

#endif
