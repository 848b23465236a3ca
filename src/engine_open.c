/* SPDX-License-Identifier: MIT */
/* Floor 4.  The engine's parts, put together and taken apart; and the events
 * that the transports raise. */
#include <stdio.h>
#include <string.h>

#include "dest_store.h"
#include "engine.h"
#include "error.h"
#include "mem.h"
#include "places.h"
#include "printable.h"
#include "schema.h"

enum { OPEN_BUSY_MS = 5000 };

/* ---- events, any thread ---- */

static void ring(struct engine *e)
{
    e->port->wake(e->port->ctx, e->shared.wake);
}

static void outbound_up(
    void *ctx, uint32_t generation, const struct postbag_link *info)
{
    struct engine *e = ctx;

    postbag__link_note_up(&e->outbound, generation, info);
    ring(e);
}

static void outbound_lost(
    void *ctx, uint32_t generation, int err, int reason, const char *text)
{
    struct engine *e = ctx;

    postbag__link_note_lost(&e->outbound, generation, err, reason, text);
    ring(e);
}

static void outbound_settled(
    void *ctx, uint32_t token, int err, int reason, const char *text)
{
    struct engine *e = ctx;
    struct settled letter = {.token = token, .err = err, .reason = reason};

    if (text != NULL)
        postbag__printable(letter.text, sizeof(letter.text), text);
    if (postbag__mailbox_post(&e->mailbox, &letter) != POSTBAG_OK)
        postbag__log(&e->log, POSTBAG_LOG_ERROR, POSTBAG_EPROTO,
            "the transport settled more sends than it accepted");
    ring(e);
}

/* Nothing is subscribed on the outbound connection; a broker that sends all
 * the same keeps its message. */
static int outbound_arrived(
    void *ctx, uint32_t generation, const struct postbag_frame *f)
{
    struct engine *e = ctx;

    (void)generation;
    (void)f;
    postbag__log(&e->log, POSTBAG_LOG_WARNING, POSTBAG_EPROTO,
        "outbound link: the broker sends a message that nobody asked for");
    return POSTBAG_ESTATE;
}

static void inbound_up(
    void *ctx, uint32_t generation, const struct postbag_link *info)
{
    struct engine *e = ctx;

    postbag__link_note_up(&e->inbound, generation, info);
    ring(e);
}

static void inbound_lost(
    void *ctx, uint32_t generation, int err, int reason, const char *text)
{
    struct engine *e = ctx;

    postbag__link_note_lost(&e->inbound, generation, err, reason, text);
    ring(e);
}

static void inbound_settled(
    void *ctx, uint32_t token, int err, int reason, const char *text)
{
    (void)ctx; /* nothing is sent there */
    (void)token;
    (void)err;
    (void)reason;
    (void)text;
}

static int inbound_arrived(
    void *ctx, uint32_t generation, const struct postbag_frame *f)
{
    struct engine *e = ctx;
    int err = postbag__receiver_accept(e->receiver, generation, f);

    if (err == POSTBAG_OK)
        postbag__link_note_arrived(&e->inbound);
    return err;
}

/* Nothing is asked for there. */
static void outbound_subscribed(void *ctx, uint32_t generation)
{
    (void)ctx;
    (void)generation;
}

static void inbound_subscribed(void *ctx, uint32_t generation)
{
    struct engine *e = ctx;

    postbag__link_note_subscribed(&e->inbound, generation);
    ring(e);
}

static void set_events(struct engine *e)
{
    e->outbound_events = (struct postbag_transport_events){.ctx = e,
        .up = outbound_up,
        .lost = outbound_lost,
        .settled = outbound_settled,
        .arrived = outbound_arrived,
        .subscribed = outbound_subscribed};
    e->inbound_events = (struct postbag_transport_events){.ctx = e,
        .up = inbound_up,
        .lost = inbound_lost,
        .settled = inbound_settled,
        .arrived = inbound_arrived,
        .subscribed = inbound_subscribed};
}

/* ---- opening ---- */

static void init_links(struct engine *e)
{
    const struct postbag_config *c = e->config;
    struct link_options o = {
        .name = "outbound",
        .connect_timeout_ms = c->connect_timeout_ms,
        .reconnect_base_ms = c->reconnect_base_ms,
        .reconnect_cap_ms = c->reconnect_cap_ms,
        .stable_ms = c->stable_ms,
        .start_jitter_ms = c->start_jitter_ms,
        .first_server_s = c->first_server_s,
        .ack_timeout_ms = c->ack_timeout_ms,
    };

    set_events(e);
    postbag__link_init(
        &e->outbound, e->port, &e->log, c->transport, &e->outbound_events, &o);
    o.name = "inbound";
    o.session_expiry_s = c->session_expiry_s;
    o.receive_max = 16; /* bounds the burst of a redelivery */
    postbag__link_init(
        &e->inbound, e->port, &e->log, c->inbound, &e->inbound_events, &o);
}

static int open_shared(struct engine *e)
{
    const struct postbag_port *port = e->port;
    int err;

    e->shared.port = port;
    atomic_init(&e->shared.durable, 0);
    err = port->gate_new(port->ctx, &e->shared.gate);
    if (err == POSTBAG_OK)
        err = port->wake_new(port->ctx, &e->shared.wake);
    if (err != POSTBAG_OK)
        return postbag__fail(
            &e->db.fault, err, "the port gave no gate or no wake");
    return POSTBAG_OK;
}

static int read_max_payload(struct engine *e)
{
    int64_t bytes = 0;
    int err = postbag__query_i64(&e->db,
        "SELECT value FROM outbox_meta WHERE key = 'max_payload'", &bytes);

    e->max_payload = (uint32_t)bytes;
    return err;
}

static int check_dest(struct engine *e)
{
    const struct postbag_config *c = e->config;
    enum postbag_from from;

    if (c->dest_from[0] != '\0' &&
        postbag__dest_from(c->dest_from, &from) != POSTBAG_OK)
        return postbag__fail(&e->db.fault, POSTBAG_EINVAL,
            "option dest_from is %s; it must be now or oldest", c->dest_from);
    return postbag__dest_check_name(c->dest, &e->db.fault);
}

/* What comes is read much later: a slip is told now. */
/* Only a warning: a broker that is slow to deliver again for so long is rare,
 * and room for the rows may be rarer. */
static void check_window(const struct engine *e)
{
    const struct postbag_config *c = e->config;

    if (c->inbound != NULL && c->inbox_keep_s < c->session_expiry_s)
        postbag__log(&e->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
            "inbox_keep_s (%lu) is less than session_expiry_s (%lu): a command"
            " that the broker delivers again after we were away for longer is"
            " not known any more, and handled again",
            (unsigned long)c->inbox_keep_s, (unsigned long)c->session_expiry_s);
}

static int check_inbox(struct engine *e)
{
    const struct postbag_config *c = e->config;
    struct places places;
    enum nameless nameless;
    int err = postbag__places_read(&places, c->identity, &e->db.fault);

    check_window(e);
    e->order.defer_ms = c->version_defer_ms;
    e->order.defer_rows = c->version_defer_rows;
    if (err == POSTBAG_OK)
        err = postbag__nameless_read(&nameless, c->no_identity, &e->db.fault);
    return err == POSTBAG_OK
               ? postbag__order_rules_read(&e->order, c->version_gap,
                     c->version_repeat, c->version_back, &e->db.fault)
               : err;
}

/* The usual open finds its destination and writes nothing.  One that is not
 * there is a slip of the pen, unless the options say that it is new: messages
 * would wait for it for ever. */
static int open_dest(struct engine *e)
{
    const char *dest = e->config->dest;
    enum postbag_from from;
    int err = postbag__schema_find_dest(&e->db, dest);

    if (err != POSTBAG_ENOTFOUND)
        return err;
    if (postbag__dest_from(e->config->dest_from, &from) != POSTBAG_OK)
        return postbag__fail(&e->db.fault, POSTBAG_ENOTFOUND,
            "there is no destination %s: add it (postbag dest add), or set"
            " option dest_from",
            dest);
    err = postbag__dest_add(&e->db, dest, from);
    if (err == POSTBAG_OK)
        postbag__log(&e->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
            "destination %s is new: from now on messages wait for it, too",
            dest);
    return err;
}

static int open_database(struct engine *e)
{
    const struct postbag_config *c = e->config;
    int err = e->port->storage_check(e->port->ctx, c->db_path);

    if (err != POSTBAG_OK)
        return postbag__fail(&e->db.fault, err,
            "%s is on a network file system, or its folder is missing: %s",
            c->db_path, postbag_error_text(err));
    err = postbag__db_open_backed(
        &e->db, e->port, c->db_path, DB_CREATE, DB_NORMAL, OPEN_BUSY_MS);
    if (err == POSTBAG_OK)
        err = postbag__schema_ensure(&e->db, c->max_payload);
    if (err == POSTBAG_OK)
        err = read_max_payload(e);
    if (err == POSTBAG_OK)
        err = open_dest(e);
    if (err == POSTBAG_OK)
        err = postbag__engine_open_profile(e);
    if (err == POSTBAG_OK)
        err = postbag__engine_open_limits(e);
    if (err == POSTBAG_OK)
        err = postbag__witness_open(&e->witness, &e->db, e->port, &e->log);
    /* from here on a step reports a deadline instead of waiting */
    e->db.busy_ms = 0;
    return err;
}

static int open_stores(struct engine *e)
{
    const struct postbag_config *c = e->config;
    enum envelope_kind kind;
    int err;

    if (postbag__envelope_kind(c->envelope, &kind) != POSTBAG_OK)
        return postbag__fail(&e->db.fault, POSTBAG_EINVAL,
            "option envelope is %s; it must be cloudevents, minimal or raw",
            c->envelope);
    err = postbag__outbox_open(&e->outbox, &e->db, c->dest);
    if (err == POSTBAG_OK)
        err = postbag__lost_open(&e->lost, &e->db, c->dest);
    if (err == POSTBAG_OK)
        err = postbag__held_open(&e->held, &e->db, &e->lost);
    if (err == POSTBAG_OK)
        err = postbag__trial_store_open(&e->trials, &e->db, c->dest);
    if (err == POSTBAG_OK)
        err = postbag__coalesce_open(&e->coalesce, &e->db, c->dest);
    if (err == POSTBAG_OK)
        err = postbag__ttl_open(&e->ttl, &e->db, c->dest);
    if (err == POSTBAG_OK)
        err = postbag__envelope_open(&e->envelope, &e->db, kind, c->source);
    return err;
}

static int open_sender(struct engine *e)
{
    const struct postbag_config *c = e->config;
    int err;

    e->sender = (struct sender){
        .db = &e->db,
        .shared = &e->shared,
        .log = &e->log,
        .lease = &e->lease,
        .link = &e->outbound,
        .outbox = &e->outbox,
        .lost = &e->lost,
        .held = &e->held,
        .trials = &e->trials,
        .coalesce = &e->coalesce,
        .ttl = &e->ttl,
        .envelope = &e->envelope,
        .options =
            {
                .window = c->window,
                .window_bytes = c->window_bytes,
                .ack_batch = c->ack_batch,
                .ack_delay_ms = c->ack_delay_ms,
                .ack_timeout_ms = c->ack_timeout_ms,
                .retry_base_ms = c->retry_base_ms,
                .retry_cap_ms = c->retry_cap_ms,
                .max_attempts = c->max_attempts,
                .held_max_rows = c->held_max_rows,
                .held_max_bytes = c->held_max_bytes,
                .held_max_per_key = c->held_max_per_key,
                .dead_max_rows = c->dead_max_rows,
                .dead_max_bytes = c->dead_max_bytes,
                .dead_requeue_s = c->dead_requeue_s,
                .skip_sync_before_send = c->skip_sync_before_send,
                .lane_share = c->lane_share,
                .bulk_rate = c->bulk_rate,
                .bulk_bytes_rate = c->bulk_bytes_rate,
                .pace_all = c->pace_all,
                .notes_times = c->keep_s != 0 || c->keep_rows != 0,
                .stable_ms = c->stable_ms,
                .profile = e->profile,
            },
    };
    err = postbag__sender_init(&e->sender);
    if (err == POSTBAG_OK)
        err = postbag__mailbox_init(&e->mailbox, c->window);
    return err == POSTBAG_OK
               ? POSTBAG_OK
               : postbag__fail(&e->db.fault, err, "no memory for the window");
}

static int open_duties(struct engine *e)
{
    const struct postbag_config *c = e->config;
    const char *path = postbag__db_path(&e->db);
    struct housekeeper_options house = {
        .checkpoint_frames = c->checkpoint_frames,
        .keep_s = c->keep_s,
        .keep_rows = c->keep_rows,
        .inbox = {c->inbox_keep_s, c->inbox_done_max_rows,
            c->inbox_dead_max_rows},
    };
    struct detach_options detach = {
        .after_s = c->detach_after_s, .after_bytes = c->detach_after_bytes};
    int err = postbag__lease_open(
        &e->lease, &e->db, &e->shared, &e->log, c->dest, c->lease_ms);

    postbag__detach_init(&e->detach, &e->db, &e->lease, &e->log, &detach);
    if (err == POSTBAG_OK)
        err = postbag__housekeeper_open(
            &e->housekeeper, &e->db, &e->shared, &e->log, path, &house);
    if (err == POSTBAG_OK)
        err = postbag__alarm_open(&e->alarm, &e->db, c);
    if (err == POSTBAG_OK)
        err = postbag__watch_open(&e->watch, &e->db, c->poll_ms);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__live_open(&e->live, e->port, c->run_dir, path, c->dest);
    return err == POSTBAG_OK
               ? POSTBAG_OK
               : postbag__fail(&e->db.fault, err, "option run_dir is too long");
}

/* Other processes are seen by writes to the -wal; without a watch by polling
 * once a second. */
static void open_watch(struct engine *e)
{
    char path[4096];
    int len = snprintf(path, sizeof(path), "%s-wal", postbag__db_path(&e->db));
    int err = POSTBAG_ESTATE;

    if (e->port->wake_watch != NULL && len > 0 && (size_t)len < sizeof(path))
        err = e->port->wake_watch(e->port->ctx, e->shared.wake, path);
    if (err == POSTBAG_OK)
        return;
    e->watch.poll_us = 1000000;
    postbag__log(&e->log, POSTBAG_LOG_WARNING, err,
        "writes of other processes cannot be watched: looking once a second");
}

int postbag__engine_open(struct engine *e, const struct postbag_config *config,
    const struct consumers *consumers, struct postbag_fault *why)
{
    int err;

    memset(e, 0, sizeof(*e));
    e->config = config;
    e->port = config->port;
    e->consumers = consumers;
    e->log.write = config->log;
    e->log.ctx = config->log_ctx;
    init_links(e);
    err = check_dest(e);
    if (err == POSTBAG_OK)
        err = check_inbox(e);
    if (err == POSTBAG_OK)
        err = postbag__engine_take_profile(e);
    if (err == POSTBAG_OK)
        err = postbag__engine_check_limits(e);
    if (err == POSTBAG_OK)
        err = open_shared(e);
    if (err == POSTBAG_OK)
        err = open_database(e);
    if (err == POSTBAG_OK)
        err = open_stores(e);
    if (err == POSTBAG_OK)
        err = open_sender(e);
    if (err == POSTBAG_OK)
        err = open_duties(e);
    if (err != POSTBAG_OK) {
        (void)postbag__pass(why, &e->db.fault);
        postbag__engine_close(e);
        return err;
    }
    open_watch(e);
    return POSTBAG_OK;
}

static void destroy(struct postbag_transport *t)
{
    if (t != NULL)
        t->ops->destroy(t);
}

void postbag__engine_close(struct engine *e)
{
    const struct postbag_port *port = e->port;

    postbag__link_stop(&e->outbound);
    postbag__link_stop(&e->inbound);
    postbag__receiver_close(e->receiver);
    postbag__housekeeper_close(&e->housekeeper);
    postbag__lease_close(&e->lease);
    postbag__alarm_close(&e->alarm);
    postbag__watch_close(&e->watch);
    postbag__witness_close(&e->witness);
    postbag__sender_free(&e->sender);
    postbag__mailbox_free(&e->mailbox);
    postbag__envelope_close(&e->envelope);
    postbag__trial_store_close(&e->trials);
    postbag__coalesce_close(&e->coalesce);
    postbag__ttl_close(&e->ttl);
    postbag__held_close(&e->held);
    postbag__lost_close(&e->lost);
    postbag__outbox_close(&e->outbox);
    postbag__db_close(&e->db);
    if (e->shared.gate != NULL)
        port->gate_free(port->ctx, e->shared.gate);
    if (e->shared.wake != NULL)
        port->wake_free(port->ctx, e->shared.wake);
    destroy(e->config->transport);
    destroy(e->config->inbound);
}
