/* SPDX-License-Identifier: MIT */
/* See scene.h. */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 6000, AFTER_FURNISHING_MS = 10000 };

struct postbag_thread {
    void (*run)(void *arg);
    void *arg;
};

static void demand(int err, const char *what, const char *why)
{
    if (err == POSTBAG_OK)
        return;
    (void)fprintf(
        stderr, "scene: %s: %s: %s\n", what, postbag_error_name(err), why);
    abort();
}

/* ---- hooks -------------------------------------------------------------- */

static int decide_port(void *ctx, enum sim_call call)
{
    (void)ctx;
    return fuse_ask(FUSE_PORT, (int)call);
}

static int decide_transport(void *ctx, enum fake_call call)
{
    (void)ctx;
    return fuse_ask(FUSE_TRANSPORT, (int)call);
}

/* A thread that the system lets run when somebody waits for its end. */
static int thread_start(void *ctx, struct postbag_thread **out,
    const char *name, int niceness, void (*run)(void *arg), void *arg)
{
    int err = fuse_ask(FUSE_PORT, FUSE_THREAD_START);

    (void)ctx;
    (void)name;
    (void)niceness;
    if (err != POSTBAG_OK)
        return err;
    *out = calloc(1, sizeof(**out));
    if (*out == NULL)
        return POSTBAG_ENOMEM;
    (*out)->run = run;
    (*out)->arg = arg;
    return POSTBAG_OK;
}

static void thread_join(void *ctx, struct postbag_thread *thread)
{
    (void)ctx;
    thread->run(thread->arg);
    free(thread);
}

static void note_sent(void *ctx, const struct fake_sent *s)
{
    struct torture *t = ctx;
    struct delivery *d = &t->sent[t->sent_count];

    if (t->sent_count == DELIVERIES) {
        torture_wrong(t, "more than %d frames left", DELIVERIES);
        return;
    }
    t->sent_count++;
    d->seq = s->seq;
    d->is_in_act = !t->is_ending;
    (void)snprintf(d->id, sizeof(d->id), "%s", s->id);
    (void)snprintf(d->key, sizeof(d->key), "%s", s->key);
}

static void keep_line(void *ctx, const struct postbag_log_line *line)
{
    struct torture *t = ctx;

    if (line->code == 0)
        return;
    t->log_errors++;
    (void)snprintf(t->log, sizeof(t->log), "%s", line->text);
}

/* ---- a trial ------------------------------------------------------------ */

void scene_begin(struct torture *t, const struct life *life)
{
    memset(t, 0, sizeof(*t));
    t->life = life;
    t->base = life->base;
    stage_port(&t->sim);
    sim_pass_ms(&t->sim, AFTER_FURNISHING_MS);
    t->sim.decide = decide_port;
    t->sim.port.thread_start = thread_start;
    t->sim.port.thread_join = thread_join;
}

void scene_end(struct torture *t)
{
    scene_close(t);
    scene_shut_eye(t);
}

struct sqlite3 *scene_eye(struct torture *t)
{
    if (t->eye == NULL && stage_exists())
        t->eye = stage_connect();
    return t->eye;
}

void scene_shut_eye(struct torture *t)
{
    if (t->eye != NULL)
        stage_close(t->eye);
    t->eye = NULL;
}

int64_t scene_get(struct torture *t, const char *sql)
{
    return stage_get(scene_eye(t), sql);
}

uint64_t scene_print(struct torture *t)
{
    uint64_t print = scene_eye(t) == NULL ? 0 : stage_print(t->eye);

    scene_shut_eye(t);
    return print;
}

/* ---- what is opened ----------------------------------------------------- */

void scene_app(struct torture *t)
{
    t->app = stage_connect();
}

void scene_writer_config(
    const struct torture *t, struct postbag_writer_config *out)
{
    *out = (struct postbag_writer_config){.struct_size = sizeof(*out),
        .db = t->app,
        .port = &t->sim.port,
        .engine = t->p,
        .begin_timeout_ms = 100,
        .reply_topics = "re/#"};
}

void scene_writer(struct torture *t)
{
    struct postbag_writer_config c;

    if (t->app == NULL)
        scene_app(t);
    scene_writer_config(t, &c);
    demand(postbag_writer_open(&t->w, &c, &t->why), "writer", t->why.text);
}

void scene_admin_config(
    const struct torture *t, struct postbag_admin_config *out)
{
    *out = (struct postbag_admin_config){.struct_size = sizeof(*out),
        .db_path = stage_path(),
        .port = &t->sim.port,
        .writable = 1,
        .busy_ms = 2};
}

void scene_admin(struct torture *t)
{
    struct postbag_admin_config c;

    scene_admin_config(t, &c);
    demand(postbag_admin_open(&t->a, &c, &t->why), "admin", t->why.text);
}

static struct fake_transport *transport(struct torture *t)
{
    struct fake_transport *one = fake_transport_new();

    one->destroyed = &t->destroyed;
    one->decide = decide_transport;
    one->auto_settle = 1;
    one->on_send = note_sent;
    one->on_send_ctx = t;
    return one;
}

void scene_transports(struct torture *t, int with_inbound)
{
    t->out = transport(t);
    t->in = with_inbound ? transport(t) : NULL;
    t->destroyed = 0;
    t->config = (struct postbag_config){.struct_size = sizeof(t->config),
        .db_path = stage_path(),
        .port = &t->sim.port,
        .transport = &t->out->base,
        .inbound = t->in == NULL ? NULL : &t->in->base,
        .log = keep_line,
        .log_ctx = t,
        .keep_s = 86400,
        .run_dir = "none",
        .reply_topics = "re/#"};
}

void scene_engine(struct torture *t)
{
    demand(postbag_open(&t->p, &t->config, &t->why), "engine", t->why.text);
}

void scene_close(struct torture *t)
{
    if (t->w != NULL)
        postbag_writer_close(t->w);
    if (t->a != NULL)
        postbag_admin_close(t->a);
    if (t->p != NULL)
        postbag_close(t->p);
    if (t->app != NULL)
        stage_close(t->app);
    t->w = NULL;
    t->a = NULL;
    t->p = NULL;
    t->app = NULL;
}

/* ---- what is done ------------------------------------------------------- */

int scene_sql(struct torture *t, const char *sql)
{
    return sqlite3_exec(t->app, sql, NULL, NULL, NULL) == SQLITE_OK
               ? POSTBAG_OK
               : APP_FAILED;
}

int scene_run_ms(struct torture *t, int64_t ms)
{
    int64_t end_us = t->sim.mono_us + ms * 1000;
    int64_t next_us = 0;
    int first = POSTBAG_OK;
    int i;

    for (i = 0; i < MOST_STEPS && (next_us < end_us || t->sim.is_woken); i++) {
        int err;

        t->sim.is_woken = 0;
        next_us = -1;
        err = CALL(t, postbag_step, t->p, &next_us);
        if (first == POSTBAG_OK)
            first = err;
        EXPECT(t, next_us >= 0, "a step does not say when to come again");
        /* that it is locked is news only if it stays so */
        EXPECT(t,
            err == POSTBAG_OK || err == POSTBAG_EBUSY || t->log[0] != '\0',
            "a step failed with %s, and no line of the log says so",
            postbag_error_name(err));
        if (!t->sim.is_woken && next_us > t->sim.mono_us)
            sim_pass_ms(&t->sim, (next_us - t->sim.mono_us + 999) / 1000);
    }
    EXPECT(t, i < MOST_STEPS, "the engine spins: %s", t->log);
    return first;
}
