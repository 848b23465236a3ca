/* SPDX-License-Identifier: MIT */
/* See inbox_keep.h.  Engine thread. */
#include "inbox_keep.h"

#include "inbox_cap.h"

enum {
    GATE_MS = 50,
    ROWS = 64,
    RETRY_US = 2 * 1000,
    TROUBLE_US = 1000 * 1000,
    EVERY_US = 10 * 1000 * 1000,
    TELL_US = 60 * 1000 * 1000,
    FULL_US = 1000 * 1000 /* at its bounds: likely to pass them */
};

/* Once: with as many commands a day it goes on for ever. */
static void tell_forgotten(struct inbox_keep *k)
{
    int64_t excess = k->sweep.excess + k->sweep.forgotten;

    if (k->sweep.forgotten == 0 || k->has_told)
        return;
    k->has_told = 1;
    postbag__log(k->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
        "there are %lld done commands more than inbox_done_max_rows (%lu): the"
        " oldest are forgotten, the youngest of them %lld s after it was done"
        " instead of inbox_keep_s (%lu); should one come again, it is new",
        (long long)excess, (unsigned long)k->options.done_max_rows,
        (long long)(k->sweep.youngest_ms / 1000),
        (unsigned long)k->options.keep_s);
}

/* The first at once, then what came together. */
static void tell_given_up(struct inbox_keep *k, int64_t now_us)
{
    if (k->given_up == 0 || now_us < k->tell_us)
        return;
    postbag__log(k->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
        "%lld dead commands were given up: there are more than"
        " inbox_dead_max_rows (%lu)",
        (long long)k->given_up, (unsigned long)k->options.dead_max_rows);
    k->given_up = 0;
    k->tell_us = now_us + TELL_US;
}

/* What is too much goes by itself, in small pauses, in which others have the
 * write lock; what is only old waits for the next change. */
static void plan(
    struct inbox_keep *k, int64_t now_us, int more, int64_t dropped)
{
    int is_over = k->sweep.excess > 0 || dropped == ROWS;
    int is_full = is_over || k->sweep.forgotten > 0 || dropped > 0;
    int goes_on = is_full ? is_over && (more || dropped > 0) : more;

    k->is_due = is_over;
    k->next_us = now_us + (is_full ? FULL_US : EVERY_US);
    if (goes_on)
        k->next_us = now_us + RETRY_US;
}

/* At the gate. */
static int sweep(struct inbox_keep *k, int64_t now_us)
{
    const struct postbag_port *port = k->shared->port;
    struct inbox_purge p = {.now = postbag__moment_now(port, k->boot),
        .keep_ms = (int64_t)k->options.keep_s * 1000,
        .done_max_rows = k->options.done_max_rows,
        .dead_max_rows = k->options.dead_max_rows,
        .rows = ROWS};
    int64_t deleted = 0;
    int64_t dropped = 0;
    int more = 0;
    int err = postbag__inbox_purge(k->db, &k->sweep, &p, &deleted, &more);

    if (err == POSTBAG_OK)
        err = postbag__inbox_cap_dead(k->db, &p, &dropped);
    if (err == POSTBAG_OK)
        plan(k, now_us, more, dropped);
    k->given_up += dropped;
    return err;
}

static int sweep_if_due(struct inbox_keep *k, int64_t now_us)
{
    int err;

    if (!k->is_due || now_us < k->next_us)
        return POSTBAG_OK;
    err = postbag__gate_enter(k->shared, GATE_MS);
    if (err == POSTBAG_OK) {
        err = sweep(k, now_us);
        postbag__gate_leave(k->shared);
    }
    if (err != POSTBAG_OK)
        k->next_us = now_us + (err == POSTBAG_EBUSY ? RETRY_US : TROUBLE_US);
    return err;
}

int postbag__inbox_keep_step(
    struct inbox_keep *k, int64_t now_us, int did_change)
{
    int err;

    k->is_due |= did_change;
    k->sweep.forgotten = 0;
    err = sweep_if_due(k, now_us);
    tell_forgotten(k);
    tell_given_up(k, now_us);
    return err;
}

int64_t postbag__inbox_keep_deadline(const struct inbox_keep *k)
{
    int64_t at = k->is_due ? k->next_us : INT64_MAX;

    return k->given_up > 0 && k->tell_us < at ? k->tell_us : at;
}

void postbag__inbox_keep_end(struct inbox_keep *k)
{
    k->tell_us = 0;
    tell_given_up(k, 0);
}
