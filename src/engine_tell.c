/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  What became of messages that no broker has: dead, dropped, damaged.
 * In the log, many at once.  Engine thread.
 */
#include "engine.h"

enum { TELL_US = 10 * 1000000 };

/* The first at once, then what came together in ten seconds.  Not with code
 * EREFUSED, which is that of a broker that refuses us. */
static void tell_dead(struct engine *e, int64_t now_us)
{
    struct sender *s = &e->sender;

    if ((s->newly_dead == 0 && s->overflowed == 0) || now_us < e->dead_us)
        return;
    if (s->newly_dead == 1)
        postbag__log(&e->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
            "1 message is dead: %s; see postbag dead ls", s->last_dead);
    else if (s->newly_dead != 0)
        postbag__log(&e->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
            "%lu messages are dead, the last one: %s; see postbag dead ls",
            (unsigned long)s->newly_dead, s->last_dead);
    if (s->overflowed != 0)
        postbag__log(&e->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
            "dead messages dropped to make room: %lu, see outbox_lost",
            (unsigned long)s->overflowed);
    s->newly_dead = 0;
    s->overflowed = 0;
    e->dead_us = now_us + TELL_US;
}

/* Likewise; they asked for it, so this is no warning. */
static void tell_over(struct engine *e, int64_t now_us)
{
    struct sender *s = &e->sender;

    if (s->newly_over == 0 || now_us < e->over_us)
        return;
    postbag__log(&e->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
        "dropped, since their ttl_ms was over: %lu, see outbox_lost",
        (unsigned long)s->newly_over);
    s->newly_over = 0;
    e->over_us = now_us + TELL_US;
}

/* Each is named in outbox_lost. */
static void tell_damaged(struct engine *e)
{
    struct sender *s = &e->sender;

    if (s->newly_damaged != 0)
        postbag__log(&e->log, POSTBAG_LOG_ERROR, POSTBAG_ECORRUPT,
            "dropped, since they are damaged in the database: %lu messages,"
            " see outbox_lost; run postbag doctor",
            (unsigned long)s->newly_damaged);
    s->newly_damaged = 0;
}

void postbag__engine_tell(struct engine *e, int64_t now_us)
{
    tell_dead(e, now_us);
    tell_over(e, now_us);
    tell_damaged(e);
}
