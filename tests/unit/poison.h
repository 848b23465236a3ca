/* SPDX-License-Identifier: MIT */
/* A broker that answers, but hangs up on some topics. */
#ifndef POSTBAG_TESTS_POISON_H
#define POSTBAG_TESTS_POISON_H

#include <sqlite3.h>
#include <string.h>

#include "relay.h"
#include "unit.h"

static inline const char *held_now(struct bench *b)
{
    return sql_text(b->w.t.app,
        "SELECT ifnull(group_concat("
        "topic || ' ' || state || ' ' || attempts, ', '), '')"
        " FROM (SELECT * FROM outbox_held ORDER BY seq)");
}

static inline int64_t delivered(struct bench *b)
{
    return sql_get(b->w.t.app, "SELECT sum(delivered) FROM outbox_cursor");
}

static inline int is_of(const struct fake_sent *sent, const char *topic)
{
    return !sent->is_settled && strncmp(sent->topic, topic, strlen(topic)) == 0;
}

static inline int flies(struct relay *r, const char *topic)
{
    for (size_t i = 0; i < r->out->count; i++)
        if (is_of(&r->out->sent[i], topic))
            return 1;
    return 0;
}

/* A tenth of a second of a broker that answers, but hangs up on topics that
 * begin so ("-" on none, "" on all) and answers nothing that flies with it. */
static inline void serve_once(struct relay *r, const char *poison)
{
    relay_run_ms(r, 100);
    if (r->out->in_flight == 0)
        return;
    if (flies(r, poison))
        fake_lose(r->out, POSTBAG_ELINK, 0);
    else
        (void)fake_settle_all(r->out, 0);
}

/* A broker that answers all but the topics that begin with "bad", so many
 * tenths of a second. */
static inline void pass_over(struct relay *r, int tenths)
{
    for (int i = 0; i < tenths; i++) {
        relay_run_ms(r, 100);
        for (size_t k = 0; k < r->out->count; k++)
            if (!r->out->sent[k].is_settled && !is_of(&r->out->sent[k], "bad"))
                fake_settle(r->out, k, 0);
    }
}

static inline void serve(struct relay *r, int seconds, const char *poison)
{
    for (int i = 0; i < seconds * 10; i++)
        serve_once(r, poison);
}

/* One at a time, until so many are held. */
static inline void serve_until_held(
    struct relay *r, const char *poison, int rows)
{
    struct tempdb *t = &r->world->t;

    for (int i = 0; i < 6000; i++) {
        if (sql_get(t->app, "SELECT count(*) FROM outbox_held") == rows)
            return;
        serve_once(r, poison);
    }
    fail_msg("%d are not held", rows);
}

#endif
