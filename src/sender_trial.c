/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  After an end that was not orderly: was it a message?  What must be
 * on disk before a row is sent, and what becomes of one that ends the process
 * again and again (trial.h).
 */
#include <stdio.h>
#include <string.h>

#include "sender.h"

int postbag__sender_begin_trial(struct sender *s)
{
    int err;

    memset(&s->trial, 0, sizeof(s->trial));
    s->is_trying = 0;
    if (!s->lease->is_inherited)
        return POSTBAG_OK;
    err = postbag__trial_store_load(s->trials, s->lanes, &s->trial);
    if (err != POSTBAG_OK)
        return err;
    postbag__trial_begin(&s->trial, s->options.window);
    s->is_trying = postbag__trial_isolates(&s->trial);
    if (s->is_trying)
        postbag__log(s->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
            "the relay ended twice without an answer to what was in flight;"
            " one message at a time, in case one of them is the reason");
    return POSTBAG_OK;
}

void postbag__sender_end_trial(struct sender *s)
{
    if (!s->is_trying || postbag__trial_isolates(&s->trial))
        return;
    s->is_trying = 0;
    postbag__log(s->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
        "what was in flight when the relay ended is tried; back to the window");
}

int postbag__sender_save_marks(struct sender *s)
{
    const struct postbag_port *port = s->shared->port;
    const struct due later = {.boot = s->boot,
        .ms = port->mono_us(port->ctx) / 1000 + s->options.retry_cap_ms};

    return postbag__trial_store_save(s->trials, &s->trial, &later);
}

/* ---- before a row is sent ---- */

/* The end of the process proves something against a suspect only where the
 * broker answered others. */
int postbag__sender_mark(struct sender *s, int which, int64_t seq, int deaths)
{
    int charge = !postbag__trial_is_suspect(deaths) ||
                 postbag__suspicion_was_acked(&s->suspicion);

    postbag__trial_sends(&s->trial, which, seq, deaths, charge);
    if (!postbag__trial_owes(&s->trial))
        return POSTBAG_OK;
    return postbag__sender_save(s, 0, 1);
}

int postbag__sender_weigh(struct sender *s, int lane, struct entry *e)
{
    int deaths = postbag__trial_deaths(&s->trial, lane, e->seq);
    int err;

    if (!postbag__trial_is_suspect(deaths))
        return POSTBAG_OK;
    err = postbag__sender_hold(s, lane, e, "retry", TRIAL_TEXT);
    if (err != POSTBAG_OK)
        return err;
    s->again = 1;
    postbag__log(s->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
        "message %lld is set aside: %s", (long long)e->seq, TRIAL_TEXT);
    return FATE_ENDED;
}

static int bury(struct sender *s, const struct row *row, int deaths)
{
    char error[120];

    (void)snprintf(error, sizeof(error),
        "the relay died with it in flight: 5 times, and %d times more while"
        " all others went well",
        deaths - TRIAL_SUSPECT);
    return postbag__sender_bury(s, row, error, 0);
}

int postbag__sender_weigh_held(
    struct sender *s, const struct row *row, int *deaths_out)
{
    int deaths = postbag__trial_store_deaths(s->trials, row->seq);
    int err;

    if (deaths < 0)
        return deaths;
    if (s->trial.marks[TRIAL_HELD].seq == row->seq) /* marked, but not sent */
        deaths = postbag__trial_deaths(&s->trial, TRIAL_HELD, row->seq);
    *deaths_out = deaths;
    if (!postbag__trial_is_guilty(deaths, s->options.max_attempts))
        return POSTBAG_OK;
    err = bury(s, row, deaths);
    s->again = 1;
    return err == POSTBAG_OK ? FATE_GONE : err;
}

/* A crash loop or a failing supply ends the process soon after it began: on a
 * connection that has lived, a death says more. */
int postbag__sender_may_try_killer(const struct sender *s, int64_t now_us)
{
    int64_t age_us = now_us - s->link->up_us;

    return age_us >= (int64_t)s->options.stable_ms * 1000 &&
           postbag__sender_may_try_suspect(s, now_us);
}
