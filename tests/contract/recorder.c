/* SPDX-License-Identifier: MIT */
/* See recorder.h. */
#include "recorder.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define WAIT_S 10

static void begin(struct recorder *r)
{
    pthread_mutex_lock(&r->lock);
    r->late += r->is_closed;
}

static void end(struct recorder *r)
{
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void on_up(
    void *ctx, uint32_t generation, const struct postbag_link *link)
{
    struct recorder *r = ctx;
    begin(r);
    r->ups++;
    r->up_generation = generation;
    r->link = *link;
    end(r);
}

static void on_lost(
    void *ctx, uint32_t generation, int err, int reason, const char *text)
{
    struct recorder *r = ctx;
    begin(r);
    r->losts++;
    r->lost_generation = generation;
    r->lost_err = err;
    r->lost_reason = reason;
    (void)snprintf(r->lost_text, sizeof(r->lost_text), "%s", text);
    end(r);
}

static void on_settled(
    void *ctx, uint32_t token, int err, int reason, const char *text)
{
    struct recorder *r = ctx;
    begin(r);
    r->order[r->settled++ % RECORDER_TOKENS] = token;
    struct outcome *o = &r->outcomes[token % RECORDER_TOKENS];
    o->count++;
    o->err = err;
    o->reason = reason;
    r->has_text = text != NULL;
    if (r->has_text)
        (void)snprintf(r->settled_text, sizeof(r->settled_text), "%s", text);
    end(r);
}

static int on_arrived(
    void *ctx, uint32_t generation, const struct postbag_frame *f)
{
    struct recorder *r = ctx;
    (void)generation;
    begin(r);
    if (r->on_arrived != NULL)
        r->on_arrived(r->on_arrived_ctx, f);
    r->arrivals++;
    r->dup = f->dup;
    (void)snprintf(r->topic, sizeof(r->topic), "%s", f->topic);
    (void)snprintf(r->payload, sizeof(r->payload), "%.*s", (int)f->payload_len,
        (const char *)f->payload);
    int answer = r->answer;
    end(r);
    return answer;
}

static void on_subscribed(void *ctx, uint32_t generation)
{
    struct recorder *r = ctx;
    begin(r);
    r->subscribed++;
    r->subscribed_generation = generation;
    end(r);
}

void recorder_init(struct recorder *r)
{
    pthread_condattr_t clock;
    memset(r, 0, sizeof(*r));
    r->events = (struct postbag_transport_events){
        .ctx = r,
        .up = on_up,
        .lost = on_lost,
        .settled = on_settled,
        .arrived = on_arrived,
        .subscribed = on_subscribed,
    };
    pthread_mutex_init(&r->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &clock);
    pthread_condattr_destroy(&clock);
}

void recorder_destroy(struct recorder *r)
{
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
}

static void set_closed(struct recorder *r, unsigned is_closed)
{
    pthread_mutex_lock(&r->lock);
    r->is_closed = is_closed;
    pthread_mutex_unlock(&r->lock);
}

void recorder_close(struct recorder *r)
{
    set_closed(r, 1);
}

void recorder_open(struct recorder *r)
{
    set_closed(r, 0);
}

void recorder_answer(struct recorder *r, int answer)
{
    pthread_mutex_lock(&r->lock);
    r->answer = answer;
    pthread_mutex_unlock(&r->lock);
}

static int wait_for(struct recorder *r, const unsigned *counter, unsigned count,
    const unsigned *or_counter, unsigned or_count)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += WAIT_S;
    int timed_out = 0;
    pthread_mutex_lock(&r->lock);
    while (*counter < count && *or_counter < or_count && !timed_out)
        timed_out = pthread_cond_timedwait(&r->changed, &r->lock, &until) != 0;
    int reached = *counter >= count;
    pthread_mutex_unlock(&r->lock);
    return reached;
}

int recorder_wait(struct recorder *r, const unsigned *counter, unsigned count)
{
    return wait_for(r, counter, count, counter, count);
}

int recorder_wait_attempt(struct recorder *r, unsigned ups, unsigned losts)
{
    return wait_for(r, &r->ups, ups, &r->losts, losts);
}

unsigned recorder_settled_once(struct recorder *r, uint32_t count, int err)
{
    unsigned found = 0;
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < count; i++)
        found += r->outcomes[i].count == 1 && r->outcomes[i].err == err;
    pthread_mutex_unlock(&r->lock);
    return found;
}
