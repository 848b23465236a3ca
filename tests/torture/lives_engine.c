/* SPDX-License-Identifier: MIT */
/* Lives of firmware that relays: opening, steps, commands, threads. */
#include "lives.h"

#include <string.h>

#include "postbag/slow.h"
#include "postbag/versions.h"
#include "scene.h"

enum { LONG_MS = 2500, BACKOFF_MS = 120000 };

/* ---- open and close ----------------------------------------------------- */

static int act_open(struct torture *t)
{
    int err;

    if (t->is_again)
        scene_transports(t, 1);
    err = CALL(t, postbag_open, &t->p, &t->config, &t->why);
    EXPECT(t, (err == POSTBAG_OK) == (t->p != NULL), "a handle, and %s",
        postbag_error_name(err));
    EXPECT(t, t->destroyed == (err == POSTBAG_OK ? 0 : 2),
        "%u transports were destroyed after %s", t->destroyed,
        postbag_error_name(err));
    if (err != POSTBAG_OK)
        return err;
    NOTE(t, postbag_close, t->p);
    t->p = NULL;
    EXPECT(t, t->destroyed == 2, "%u transports were destroyed at the end",
        t->destroyed);
    return POSTBAG_OK;
}

static void set_up_open(struct torture *t)
{
    scene_transports(t, 1);
}

const struct life life_open = {.name = "open",
    .base = STAGE_FURNISHED,
    .set_up = set_up_open,
    .act = act_open};

/* The tables are made. */
const struct life life_open_bare = {.name = "open_bare",
    .base = STAGE_BARE,
    .set_up = set_up_open,
    .act = act_open};

/* ---- what waits is sent ------------------------------------------------- */

static void set_up_relay(struct torture *t)
{
    scene_transports(t, 0);
    scene_engine(t);
}

/* The main loop of firmware goes on, whatever a step says; at the end of the
 * life it stops, and what could not be done is done by the next one. */
static int act_relay(struct torture *t)
{
    int err = scene_run_ms(t, LONG_MS);
    int stopped;

    NOTE(t, postbag_wake, t->p);
    NOTE(t, postbag_link_hint, t->p, 1);
    NOTE(t, postbag_reconnect, t->p);
    if (err == POSTBAG_OK)
        err = scene_run_ms(t, LONG_MS);
    stopped = CALL(t, postbag_stop, t->p, 500);
    return err != POSTBAG_OK ? err : stopped;
}

/* No message that is not there has left, and none counts as delivered that has
 * not. */
static void check_relay(struct torture *t, int err)
{
    int64_t acked = scene_get(t, "SELECT sum(delivered) FROM outbox_cursor"
                                 " WHERE dest = 'main'");

    (void)err;
    EXPECT(t, acked <= (int64_t)t->sent_count + STAGE_SETTLED - 2,
        "%lld count as delivered, %zu have left", (long long)acked,
        t->sent_count);
}

const struct life life_relay = {.name = "relay",
    .base = STAGE_FURNISHED,
    .set_up = set_up_relay,
    .act = act_relay,
    .check = check_relay,
    .flags = LIFE_LOCKS};

/* ... messages each larger than all before, so that buffers grow; with MQTT
 * 3.1.1, whose frames do not tell the fake transport what they are. */
static void set_up_relay_large(struct torture *t)
{
    scene_app(t);
    stage_run(t->app, "INSERT INTO outbox(topic, payload, key) VALUES"
                      " ('large', randomblob(20000), 'k1'),"
                      " ('larger', randomblob(40000), 'k2')");
    set_up_relay(t);
    t->out->link.mqtt_version = t->life->detail == NULL ? 5 : 4;
}

const struct life life_relay_large = {.name = "relay_large",
    .base = STAGE_FURNISHED,
    .set_up = set_up_relay_large,
    .act = act_relay,
    .check = check_relay,
    .flags = LIFE_LOCKS};

const struct life life_relay_json = {.name = "relay_json",
    .base = STAGE_FURNISHED,
    .set_up = set_up_relay_large,
    .act = act_relay,
    .check = check_relay,
    .flags = LIFE_LOCKS | LIFE_NO_IDS,
    .detail = "3.1.1"};

/* ... which the broker refuses. */
static void set_up_relay_refused(struct torture *t)
{
    set_up_relay(t);
    t->out->refuse_topic = "new/1";
    t->out->refuse_reason = 0x87;
}

const struct life life_relay_refused = {.name = "relay_refused",
    .base = STAGE_FURNISHED,
    .set_up = set_up_relay_refused,
    .act = act_relay,
    .check = check_relay,
    .flags = LIFE_LOCKS};

/* ---- commands ----------------------------------------------------------- */

static enum postbag_outcome handle(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .payload = "ok", .payload_len = 2};
    struct torture *t = ctx;
    struct postbag_writer *before = t->w;
    int err;

    t->handled++;
    if (sqlite3_exec(postbag_writer_db(w), "INSERT INTO effect VALUES ('x')",
            NULL, NULL, NULL) != SQLITE_OK) {
        t->numbers[2] = APP_FAILED;
        return POSTBAG_RETRY;
    }
    t->w = w;
    err = CALL(t, postbag_reply, w, cmd, &m, NULL);
    t->w = before;
    if (err != POSTBAG_OK)
        t->numbers[2] = err;
    return err == POSTBAG_OK ? POSTBAG_DONE : POSTBAG_RETRY;
}

static enum postbag_outcome slow(void *ctx, const struct postbag_command *cmd)
{
    (void)ctx;
    (void)cmd;
    return POSTBAG_DONE;
}

/* Goes on where it ended: numbers[3] counts what was done. */
static int subscribe(struct torture *t)
{
    const struct postbag_version_rules rules = {
        .struct_size = sizeof(rules), .gap = "defer", .repeat = "refuse"};
    int err = POSTBAG_OK;

    for (; t->numbers[3] < 3 && err == POSTBAG_OK; t->numbers[3]++) {
        if (t->numbers[3] == 0)
            err = CALL(t, postbag_on, t->p, "fast", "cmd/a", handle, t);
        else if (t->numbers[3] == 1)
            err = CALL(
                t, postbag_on_slow, t->p, "slow", "cmd/b", slow, handle, t);
        else
            err = CALL(t, postbag_on_versions, t->p, "fast", &rules);
        if (err != POSTBAG_OK)
            return err;
    }
    return err;
}

static void set_up_commands(struct torture *t)
{
    scene_transports(t, 1);
    scene_engine(t);
}

/* A command of this number comes in, or is refused: then the broker delivers it
 * again. */
static int arrive(struct torture *t, const char *topic, const char *id)
{
    const struct postbag_property p[] = {{"id", id}, {"partitionkey", "k"},
        {"keyversion", id}, {"correlationid", "c"}};
    const struct postbag_frame f = {.topic = topic,
        .payload = "go",
        .payload_len = 2,
        .response_topic = "re/2",
        .correlation = "c",
        .correlation_len = 1,
        .properties = p,
        .property_count = 4};

    int err;

    if (!t->in->is_up)
        return POSTBAG_ELINK;
    err = t->in->up->arrived(t->in->up->ctx, t->in->connect.generation, &f);
    if (err != POSTBAG_OK)
        fake_lose(t->in, POSTBAG_ELINK, 0); /* as transport.h says */
    return err;
}

static int work_all(struct torture *t)
{
    int did = 1;
    int err = POSTBAG_OK;

    for (int i = 0; i < 10 && did && err == POSTBAG_OK; i++)
        err = CALL(t, postbag_work, t->p, &did);
    return err;
}

static int deliver(struct torture *t, const char *topic, const char *id)
{
    int err = arrive(t, topic, id);

    /* what counts as stored must be done in the end, and once */
    if (err == POSTBAG_OK)
        t->numbers[*id == '1' ? 0 : 1] |= topic[4] == 'a' ? 1 : 2;
    return err;
}

static int act_commands(struct torture *t)
{
    static const char *const ids[] = {"1", "2", "1"};
    int err = subscribe(t);
    int first = err;

    if (err == POSTBAG_OK && t->is_again)
        err = scene_run_ms(t, BACKOFF_MS);
    if (err != POSTBAG_OK)
        return err;
    for (int i = 0; i < 3; i++) {
        err = scene_run_ms(t, 4000);
        if (err == POSTBAG_OK)
            err = deliver(t, "cmd/a", ids[i]);
        if (err == POSTBAG_OK)
            err = deliver(t, "cmd/b", ids[i]);
        if (first == POSTBAG_OK)
            first = err;
        err = work_all(t);
        if (first == POSTBAG_OK)
            first = err;
    }
    if (first == POSTBAG_OK)
        first = (int)t->numbers[2]; /* what a handler ran into */
    t->numbers[2] = POSTBAG_OK;
    return first;
}

static int bits(int64_t n)
{
    return (int)(n & 1) + (int)(n >> 1 & 1);
}

static void check_commands(struct torture *t, int err)
{
    int64_t effects = scene_get(t, "SELECT count(*) FROM effect");
    int64_t done = scene_get(t, "SELECT count(*) FROM inbox WHERE state ="
                                " 'done' AND consumer IN ('fast', 'slow')");
    int64_t rows = scene_get(t, "SELECT count(*) FROM inbox WHERE"
                                " consumer IN ('fast', 'slow')");
    int64_t replies =
        scene_get(t, "SELECT count(DISTINCT id) FROM outbox WHERE topic ="
                     " 're/2'");
    int accepted = bits(t->numbers[0]) + bits(t->numbers[1]);

    EXPECT(t, effects == done && replies == done,
        "half done: %lld effects, %lld done, %lld replies", (long long)effects,
        (long long)done, (long long)replies);
    EXPECT(t, rows >= accepted, "%d acknowledged, %lld stored", accepted,
        (long long)rows);
    if (err == POSTBAG_OK)
        EXPECT(t, done == 4 && accepted == 4, "%lld of 4 commands are done",
            (long long)done);
}

const struct life life_commands = {.name = "commands",
    .base = STAGE_FURNISHED,
    .set_up = set_up_commands,
    .act = act_commands,
    .check = check_commands,
    .flags = LIFE_LOCKS};

/* ---- threads ------------------------------------------------------------ */

static int act_threads(struct torture *t)
{
    int err = subscribe(t);
    int stopped;

    if (err != POSTBAG_OK)
        return err;
    err = CALL(t, postbag_start, t->p);
    if (err != POSTBAG_OK)
        return err;
    stopped = CALL(t, postbag_stop, t->p, 0);
    EXPECT(t, stopped == POSTBAG_OK || stopped == POSTBAG_EAGAIN, "stop: %s",
        postbag_error_name(stopped));
    return POSTBAG_OK;
}

const struct life life_threads = {.name = "threads",
    .base = STAGE_FURNISHED,
    .set_up = set_up_commands,
    .act = act_threads,
    .flags = LIFE_LOCKS};
