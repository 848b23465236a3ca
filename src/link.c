/* SPDX-License-Identifier: MIT */
/* See link.h. */
#include "link.h"

#include <stdio.h>
#include <string.h>

#include "backoff.h"

void postbag__link_init(struct link *l, const struct postbag_port *port,
    const struct log *log, struct postbag_transport *transport,
    const struct postbag_transport_events *events,
    const struct link_options *options)
{
    memset(l, 0, sizeof(*l));
    l->port = port;
    l->log = log;
    l->transport = transport;
    l->events = events;
    l->options = *options;
    l->state = LINK_OFF;
    atomic_init(&l->up_generation, 0);
    atomic_init(&l->lost_generation, 0);
}

static uint32_t random_bits(struct link *l)
{
    uint32_t bits = 0x80000000u; /* half of the range, should random fail */

    (void)l->port->random(l->port->ctx, &bits, sizeof(bits));
    return bits;
}

static int64_t ms(uint32_t value)
{
    return (int64_t)value * 1000;
}

void postbag__link_start(struct link *l, int64_t now_us)
{
    uint64_t part =
        (uint64_t)random_bits(l) * (l->options.start_jitter_ms - 1u);

    if (l->transport == NULL || l->state != LINK_OFF)
        return;
    l->state = LINK_WAITING;
    l->next_us = now_us + ms((uint32_t)(part >> 32));
}

/* The attempt or the connection is over; plan the next. */
static void back_off(struct link *l, int64_t now_us)
{
    uint32_t delay;

    if (l->state == LINK_UP && l->proved &&
        now_us - l->up_us >= ms(l->options.stable_ms))
        l->failures = 0;
    if (l->failures < 1000)
        l->failures++;
    delay = postbag__backoff_ms(l->failures, l->options.reconnect_base_ms,
        l->options.reconnect_cap_ms, random_bits(l));
    l->state = LINK_WAITING;
    l->next_us = now_us + ms(delay);
    postbag__log(l->log, POSTBAG_LOG_WARNING, l->error_code,
        "%s link: %s; next try in %lu ms", l->options.name, l->error,
        (unsigned long)delay);
}

static void set_error(struct link *l, int code, const char *text, int reason)
{
    l->error_code = code;
    /* a transport may have put the code into its text */
    if (reason > 0 && strstr(text, "0x") == NULL)
        (void)snprintf(l->error, sizeof(l->error), "%s (0x%02x)", text, reason);
    else
        (void)snprintf(l->error, sizeof(l->error), "%s", text);
}

static void hang_up(struct link *l)
{
    l->transport->ops->disconnect(l->transport, 1);
}

static void connect_now(struct link *l, int64_t now_us)
{
    struct postbag_connect c = {
        .session_expiry_s = l->options.session_expiry_s,
        .receive_max = l->options.receive_max,
        .max_packet = l->options.max_packet,
        .timeout_ms = l->options.connect_timeout_ms,
    };
    int err;

    l->generation++;
    if ((l->generation & 0xffffu) == 0)
        l->generation++; /* 0 is "none" in flags and tokens */
    c.generation = l->generation;
    err = l->transport->ops->connect(l->transport, &c, l->events);
    if (err == POSTBAG_OK) {
        l->state = LINK_CONNECTING;
        l->next_us = now_us + ms(l->options.connect_timeout_ms);
        return;
    }
    set_error(l, err, postbag_error_text(err), 0);
    back_off(l, now_us);
}

static enum link_change take_lost(struct link *l, int64_t now_us)
{
    set_error(l, l->lost.err, l->lost.text, l->lost.reason);
    hang_up(l);
    back_off(l, now_us);
    return LINK_WENT_DOWN;
}

static enum link_change take_up(struct link *l, int64_t now_us)
{
    l->info = l->up_info;
    l->state = LINK_UP;
    l->up_us = now_us;
    l->proved = 0;
    postbag__log(l->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
        "%s link: connected (MQTT %s%s)", l->options.name,
        l->info.mqtt_version >= 5 ? "5" : "3.1.1",
        l->info.session_present ? ", session kept" : "");
    return LINK_CAME_UP;
}

enum link_change postbag__link_step(struct link *l, int64_t now_us)
{
    int busy = l->state == LINK_CONNECTING || l->state == LINK_UP;

    if (busy && atomic_load(&l->lost_generation) == l->generation)
        return take_lost(l, now_us);
    if (l->state == LINK_CONNECTING &&
        atomic_load(&l->up_generation) == l->generation)
        return take_up(l, now_us);
    if (l->state == LINK_CONNECTING && now_us >= l->next_us) {
        postbag__link_fail(l, now_us, "no answer to CONNECT in time");
        return LINK_WENT_DOWN;
    }
    if (l->state == LINK_WAITING && now_us >= l->next_us)
        connect_now(l, now_us);
    return LINK_SAME;
}

int64_t postbag__link_deadline(const struct link *l)
{
    if (l->state == LINK_WAITING || l->state == LINK_CONNECTING)
        return l->next_us;
    return INT64_MAX;
}

void postbag__link_fail(struct link *l, int64_t now_us, const char *why)
{
    if (l->state != LINK_CONNECTING && l->state != LINK_UP)
        return;
    set_error(l, POSTBAG_ELINK, why, 0);
    hang_up(l);
    back_off(l, now_us);
}

void postbag__link_stop(struct link *l)
{
    if (l->state == LINK_UP || l->state == LINK_CONNECTING)
        l->transport->ops->disconnect(l->transport, 0);
    l->state = LINK_OFF;
}

void postbag__link_hurry(struct link *l, int64_t now_us)
{
    if (l->state == LINK_WAITING)
        l->next_us = now_us;
}

void postbag__link_note_up(
    struct link *l, uint32_t generation, const struct postbag_link *info)
{
    l->up_info = *info;
    atomic_store(&l->up_generation, generation);
}

void postbag__link_note_lost(
    struct link *l, uint32_t generation, int err, int reason, const char *text)
{
    l->lost.err = err;
    l->lost.reason = reason;
    (void)snprintf(l->lost.text, sizeof(l->lost.text), "%s",
        text == NULL ? postbag_error_text(err) : text);
    atomic_store(&l->lost_generation, generation);
}
