/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Dead messages that the broker might take by now are sent once more
 * without an operator (option dead_requeue_s).  When stands in outbox_held
 * since they died, by the clock of this boot; another boot waits anew, as does
 * what would wait for longer than the option says.
 */
#include "sender.h"

enum { MOST_ROWS = 64 };

/* End a transaction that did its part with err. */
static int finish(struct sender *s, int err)
{
    if (err == POSTBAG_OK)
        return postbag__lease_commit(s->lease);
    postbag__lease_rollback(s->lease);
    return err;
}

int postbag__sender_plan_revivals(struct sender *s)
{
    struct due due;
    int err;

    if (s->options.dead_requeue_s == 0)
        return POSTBAG_OK;
    (void)postbag__sender_comes_back(s, 1, &due);
    err = postbag__held_has_old_plans(s->held, &due);
    if (err != 1)
        return err;
    err = postbag__lease_begin(s->lease, DB_NORMAL);
    if (err != POSTBAG_OK)
        return err;
    return finish(s, postbag__held_plan_anew(s->held, &due));
}

const struct due *postbag__sender_comes_back(
    const struct sender *s, int is_mendable, struct due *out)
{
    const struct postbag_port *port = s->shared->port;

    if (!is_mendable || s->options.dead_requeue_s == 0)
        return NULL;
    out->boot = s->boot;
    out->ms = port->mono_us(port->ctx) / 1000 +
              (int64_t)s->options.dead_requeue_s * 1000;
    return out;
}

/* No more than may be held. */
static int64_t room(const struct sender *s)
{
    int64_t rows = (int64_t)s->bound.max_rows / 8 * 7 - s->held_stats.live;

    if (rows > MOST_ROWS)
        return MOST_ROWS;
    return rows > 0 ? rows : 1;
}

int postbag__sender_revive(struct sender *s, int64_t now_us)
{
    int64_t count = 0;
    int err;

    if (s->revive_ms > now_us / 1000 || s->bound.is_reached)
        return POSTBAG_OK;
    err = postbag__lease_begin(s->lease, DB_FULL);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__held_revive(s->held, now_us / 1000, room(s), &count);
    err = finish(s, err);
    if (err != POSTBAG_OK)
        return err;
    postbag__log(s->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
        "%lld dead messages are sent once more (dead_requeue_s)",
        (long long)count);
    postbag__sender_look_after(s);
    return POSTBAG_OK;
}
