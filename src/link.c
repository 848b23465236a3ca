/* SPDX-License-Identifier: MIT */
/* See link.h.  Why the delays and rules are as they are is in DESIGN.md. */
#include "link.h"

#include <stdio.h>
#include <string.h>

#include "backoff.h"

enum { SLOW_MS = 60000, STEP_MS = 60000, LEAVE_US = 5000000 };
enum { DAY_S = 86400, WARN_DAYS = 30 };

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
    atomic_init(&l->subscribed_generation, 0);
    atomic_init(&l->arrivals, 0);
    atomic_init(&l->hint, HINT_NONE);
    atomic_init(&l->renew, 0);
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

static void tell(const struct link *l, const char *what)
{
    postbag__log(l->log, POSTBAG_LOG_NOTICE, POSTBAG_OK, "%s link: %s",
        l->options.name, what);
}

/* ---- waiting ---- */

/* Constant, but for when somebody sets the clock. */
static int64_t read_clock(const struct link *l, int64_t now_us)
{
    return l->port->wall_ms(l->port->ctx) - now_us / 1000;
}

static void wait_until(struct link *l, int64_t now_us, int64_t until_us)
{
    l->state = LINK_WAITING;
    l->is_leaving = 0;
    l->is_renewing = 0;
    l->next_us = until_us;
    l->clock_ms = read_clock(l, now_us);
}

void postbag__link_start(struct link *l, int64_t now_us)
{
    uint64_t part =
        (uint64_t)random_bits(l) * (l->options.start_jitter_ms - 1u);

    if (l->transport == NULL || l->state != LINK_OFF)
        return;
    wait_until(l, now_us, now_us + ms((uint32_t)(part >> 32)));
    l->is_first = 1;
    l->is_hasty = 0;
}

/* When a waiting link may try. */
static int64_t next_try(const struct link *l)
{
    return l->next_us > l->hold_us ? l->next_us : l->hold_us;
}

/* Never the first delay: a fleet that gets its power back together gets its
 * network and its time together, too. */
static void hurry(struct link *l, int64_t now_us)
{
    if (!l->is_first && l->next_us > now_us)
        l->next_us = now_us;
}

/* Told again, it holds for longer; more often is not worth a line. */
static void hold(struct link *l, int64_t now_us)
{
    if (now_us >= l->hold_us)
        l->holds = 0;
    l->hold_us = now_us + ms(l->options.reconnect_cap_ms);
    if (l->holds >= 2)
        return;
    postbag__log(l->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
        "%s link: told%s that the network is gone; no new attempt for %lu ms",
        l->options.name, l->holds == 0 ? "" : " again",
        (unsigned long)l->options.reconnect_cap_ms);
    l->holds++;
}

static void take_hint(struct link *l, int64_t now_us)
{
    int hint = atomic_exchange(&l->hint, HINT_NONE);

    if (hint == HINT_GONE)
        hold(l, now_us);
    if (hint == HINT_BACK) {
        l->hold_us = 0;
        if (l->state != LINK_WAITING)
            return;
        tell(l, "told that the network is back");
        hurry(l, now_us);
    }
}

/* A certificate that was not valid in 1970 may be so now. */
static void follow_clock(struct link *l, int64_t now_us)
{
    int64_t clock_ms = read_clock(l, now_us);
    int64_t step_ms = clock_ms - l->clock_ms;

    if (step_ms <= STEP_MS && step_ms >= -STEP_MS)
        return;
    l->clock_ms = clock_ms;
    tell(l, "the clock was set");
    hurry(l, now_us);
}

/* ---- backing off ---- */

/* A broker that swallows messages is not stable, however long it lives; of one
 * that was sent none nothing bad is known. */
static int is_stable(const struct link *l, int64_t now_us)
{
    return l->state == LINK_UP && (l->proved || !l->was_used) &&
           now_us - l->up_us >= ms(l->options.stable_ms);
}

static int is_slow(enum link_verdict verdict)
{
    return verdict == LINK_SLOW || verdict == LINK_TAKEN_OVER ||
           verdict == LINK_QUOTA;
}

static uint32_t draw_delay(struct link *l)
{
    uint32_t base = l->options.reconnect_base_ms;

    if (is_slow(l->verdict) && base < SLOW_MS)
        base = SLOW_MS;
    return postbag__backoff_ms(
        l->failures, base, l->options.reconnect_cap_ms, random_bits(l));
}

/* With the time of the next try, which is the hold's where that is later. */
static void tell_failure(const struct link *l, int64_t now_us)
{
    int is_held = l->hold_us > l->next_us;

    postbag__log(l->log, POSTBAG_LOG_WARNING, l->error_code,
        "%s link: %s; next try in %lu ms%s", l->options.name, l->error,
        (unsigned long)((next_try(l) - now_us) / 1000),
        is_held ? ", since the network is gone" : "");
}

/* The attempt or the connection is over; plan the next. */
static void back_off(struct link *l, int64_t now_us)
{
    int is_taken = l->verdict == LINK_TAKEN_OVER;
    int is_elsewhere = l->verdict == LINK_OTHER_SERVER;
    int was_stable = is_stable(l, now_us);

    /* else two devices of one id would throw each other out for ever */
    if (was_stable && !is_taken)
        l->failures = 0;
    if (l->failures < 1000)
        l->failures++;
    /* that we were thrown out is not this server's fault */
    if (is_elsewhere || (!was_stable && !is_taken))
        l->server++;
    /* servers that send us to each other are not followed at full speed */
    l->is_hasty = is_elsewhere && !l->is_hasty;
    l->has_learned = 0;
    wait_until(l, now_us, now_us + ms(l->is_hasty ? 0 : draw_delay(l)));
    tell_failure(l, now_us);
}

static void set_error(struct link *l, int code, const char *text)
{
    l->error_code = code;
    l->verdict = LINK_AGAIN;
    (void)snprintf(l->error, sizeof(l->error), "%s", text);
}

static void hang_up(struct link *l)
{
    l->transport->ops->disconnect(l->transport, 1);
}

/* ---- connecting ---- */

static void connect_now(struct link *l, int64_t now_us)
{
    struct postbag_connect c = {
        .session_expiry_s = l->options.session_expiry_s,
        .receive_max = l->options.receive_max,
        .max_packet = l->options.max_packet,
        .timeout_ms = l->options.connect_timeout_ms,
        .server = l->server,
    };
    int err;

    l->is_first = 0;
    l->verdict = LINK_AGAIN;
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
    set_error(l, err, postbag_error_text(err));
    back_off(l, now_us);
}

static const char *describe(const struct link *l, int was_up)
{
    if (l->verdict == LINK_TAKEN_OVER)
        return "another client uses this client id";
    /* 1 to 5 are no CONNACK of MQTT 5 */
    return postbag_reason_text(l->lost.reason, !was_up);
}

/* Why it was lost.  A transport may have put the code into its text. */
static void judge(struct link *l, int was_up)
{
    int reason = l->lost.reason;

    set_error(l, l->lost.err, l->lost.text);
    if (l->lost.err != POSTBAG_EREFUSED)
        return;
    l->verdict = was_up ? postbag__disconnect_verdict(reason)
                        : postbag__connack_verdict(reason);
    if (strstr(l->lost.text, "0x") == NULL)
        (void)snprintf(l->error, sizeof(l->error), "%.130s: %s (0x%02x)",
            l->lost.text, describe(l, was_up), (unsigned)reason & 0xffu);
    else if (l->verdict == LINK_TAKEN_OVER)
        (void)snprintf(l->error, sizeof(l->error), "%s: %s",
            describe(l, was_up), l->lost.text);
}

static enum link_change take_lost(struct link *l, int64_t now_us)
{
    int was_up = atomic_load(&l->up_generation) == l->generation;

    judge(l, was_up);
    hang_up(l);
    if (l->lost.err == POSTBAG_EAGAIN && !was_up && !l->has_learned) {
        tell(l, l->error);
        wait_until(l, now_us, now_us);
        l->has_learned = 1;
        return LINK_WENT_DOWN;
    }
    if (l->lost.err == POSTBAG_EAGAIN)
        l->error_code = POSTBAG_ELINK;
    back_off(l, now_us);
    return LINK_WENT_DOWN;
}

static void tell_end(const struct link *l, const char *whose, int64_t end_s)
{
    int64_t left_s = end_s - l->port->wall_ms(l->port->ctx) / 1000;

    if (end_s == 0 || left_s > (int64_t)WARN_DAYS * DAY_S)
        return;
    if (left_s <= 0)
        postbag__log(l->log, POSTBAG_LOG_ERROR, POSTBAG_OK,
            "%s link: %s certificate has expired", l->options.name, whose);
    else
        postbag__log(l->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
            "%s link: %s certificate expires in %ld days", l->options.name,
            whose, (long)(left_s / DAY_S));
}

static enum link_change take_up(struct link *l, int64_t now_us)
{
    char server[24] = "";

    l->info = l->up_info;
    l->state = LINK_UP;
    l->server = l->info.server;
    l->up_us = now_us;
    l->hold_us = 0; /* there is a network */
    l->suback_us = 0;
    l->proved = 0;
    l->was_used = 0;
    l->has_learned = 0;
    if (l->server != 0)
        (void)snprintf(server, sizeof(server), ", server %lu",
            (unsigned long)l->server + 1);
    postbag__log(l->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
        "%s link: connected (MQTT %s%s%s)", l->options.name,
        l->info.mqtt_version >= 5 ? "5" : "3.1.1",
        l->info.session_present ? ", session kept" : "", server);
    tell_end(l, "our", l->info.own_certificate_end_s);
    tell_end(l, "the broker's", l->info.server_certificate_end_s);
    return LINK_CAME_UP;
}

/* ---- answers that do not come ---- */

/* Of connect_timeout_ms or ack_timeout_ms. */
static enum link_change give_up(struct link *l, int64_t now_us,
    const char *what, uint32_t limit_ms, const char *option)
{
    char why[80];

    (void)snprintf(why, sizeof(why), "no %s within %lu ms (%s)", what,
        (unsigned long)limit_ms, option);
    postbag__link_fail(l, now_us, why);
    return LINK_WENT_DOWN;
}

static void expect_suback(struct link *l, int64_t now_us)
{
    l->suback_us = now_us + ms(l->options.ack_timeout_ms);
    l->seen_arrivals = atomic_load(&l->arrivals);
}

void postbag__link_subscribe(
    struct link *l, int64_t now_us, const char *const *filters, size_t count)
{
    l->was_used = 1;
    expect_suback(l, now_us);
    if (l->transport->ops->subscribe(l->transport, filters, count) !=
        POSTBAG_OK)
        postbag__link_fail(l, now_us, "the subscription failed");
}

/* A connection without its subscriptions looks well and brings no command. */
static enum link_change await_suback(struct link *l, int64_t now_us)
{
    if (atomic_load(&l->subscribed_generation) == l->generation) {
        l->suback_us = 0;
        l->proved = 1; /* there may be no command for weeks */
        tell(l, "subscribed");
        return LINK_SAME;
    }
    if (now_us < l->suback_us)
        return LINK_SAME;
    /* thousands of kept commands may come before our SUBSCRIBE gets a turn */
    if (atomic_load(&l->arrivals) != l->seen_arrivals) {
        expect_suback(l, now_us);
        return LINK_SAME;
    }
    return give_up(
        l, now_us, "SUBACK", l->options.ack_timeout_ms, "ack_timeout_ms");
}

/* ---- up ---- */

/* When it has been away from the first server for long enough.  Not while the
 * network is said to be gone: it could not come back. */
static int64_t leave_us(const struct link *l)
{
    int64_t at_us = l->up_us + (int64_t)l->options.first_server_s * 1000000;

    if (l->info.server == 0)
        return INT64_MAX;
    return at_us > l->hold_us ? at_us : l->hold_us;
}

static void begin_to_leave(struct link *l, int64_t now_us)
{
    l->is_leaving = 1;
    l->next_us = now_us + LEAVE_US;
}

/* An attempt that runs is left alone, and so is a link that leaves. */
static void take_renewal(struct link *l, int64_t now_us)
{
    if (atomic_exchange(&l->renew, 0) == 0)
        return;
    tell(l, "told to connect anew");
    l->hold_us = 0; /* who says so knows of a network */
    if (l->state == LINK_WAITING)
        hurry(l, now_us);
    if (l->state != LINK_UP || l->is_leaving)
        return;
    l->is_renewing = 1;
    begin_to_leave(l, now_us);
}

void postbag__link_leave(struct link *l, int64_t now_us)
{
    l->transport->ops->disconnect(l->transport, 0);
    if (is_stable(l, now_us))
        l->failures = 0;
    if (!l->is_renewing) {
        tell(l, "back to the first server");
        l->server = 0;
    }
    l->is_hasty = 0;
    wait_until(l, now_us, now_us);
}

/* ---- the step ---- */

enum link_change postbag__link_step(struct link *l, int64_t now_us)
{
    int busy = l->state == LINK_CONNECTING || l->state == LINK_UP;

    if (l->transport == NULL)
        return LINK_SAME; /* there is no such link */
    take_hint(l, now_us);
    take_renewal(l, now_us);
    if (l->state == LINK_OFF)
        return LINK_SAME;
    if (busy && atomic_load(&l->lost_generation) == l->generation)
        return take_lost(l, now_us);
    if (l->state == LINK_CONNECTING &&
        atomic_load(&l->up_generation) == l->generation)
        return take_up(l, now_us);
    if (l->state == LINK_CONNECTING && now_us >= l->next_us)
        return give_up(l, now_us, "connection", l->options.connect_timeout_ms,
            "connect_timeout_ms");
    if (l->state == LINK_UP && !l->is_leaving && now_us >= leave_us(l))
        begin_to_leave(l, now_us);
    if (l->state == LINK_UP && l->suback_us != 0)
        return await_suback(l, now_us);
    if (l->state != LINK_WAITING)
        return LINK_SAME;
    follow_clock(l, now_us);
    if (now_us >= next_try(l))
        connect_now(l, now_us);
    return LINK_SAME;
}

static int64_t up_deadline(const struct link *l)
{
    int64_t at_us = l->is_leaving ? l->next_us : leave_us(l);

    return l->suback_us != 0 && l->suback_us < at_us ? l->suback_us : at_us;
}

int64_t postbag__link_deadline(const struct link *l)
{
    switch (l->state) {
    case LINK_WAITING:
        return next_try(l);
    case LINK_CONNECTING:
        return l->next_us;
    case LINK_UP:
        return up_deadline(l);
    case LINK_OFF:
        break;
    }
    return INT64_MAX;
}

void postbag__link_fail(struct link *l, int64_t now_us, const char *why)
{
    if (l->state != LINK_CONNECTING && l->state != LINK_UP)
        return;
    set_error(l, POSTBAG_ELINK, why);
    hang_up(l);
    back_off(l, now_us);
}

void postbag__link_ease(struct link *l, int64_t now_us, uint32_t failures)
{
    if (l->state != LINK_WAITING || l->failures <= failures)
        return;
    l->failures = failures;
    l->next_us = now_us + ms(draw_delay(l));
    postbag__log(l->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
        "%s link: the message is out of the way; next try in %lu ms",
        l->options.name, (unsigned long)((next_try(l) - now_us) / 1000));
}

void postbag__link_stop(struct link *l)
{
    if (l->state == LINK_UP || l->state == LINK_CONNECTING)
        l->transport->ops->disconnect(l->transport, 0);
    l->state = LINK_OFF;
}
