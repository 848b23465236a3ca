/* SPDX-License-Identifier: MIT */
/* Lives of firmware that puts messages in its own transactions. */
#include "lives.h"

#include <string.h>

#include "postbag/pressure.h"
#include "scene.h"

/* ---- open and close ----------------------------------------------------- */

static int act_open(struct torture *t)
{
    struct postbag_writer_config c;
    int err;

    scene_writer_config(t, &c);
    err = CALL(t, postbag_writer_open, &t->w, &c, &t->why);
    EXPECT(t, (err == POSTBAG_OK) == (t->w != NULL), "a writer, and %s",
        postbag_error_name(err));
    if (err != POSTBAG_OK)
        return err;
    EXPECT(t, NOTE(t, postbag_writer_db, t->w) == t->app, "another handle");
    EXPECT(t, NOTE(t, postbag_writer_fault, t->w)->code == POSTBAG_OK,
        "a fault of nothing");
    NOTE(t, postbag_writer_close, t->w);
    t->w = NULL;
    return POSTBAG_OK;
}

const struct life life_writer_open = {.name = "writer_open",
    .base = STAGE_FURNISHED,
    .set_up = scene_app,
    .act = act_open};

/* ---- a state change and its messages ------------------------------------ */

enum { MESSAGES = 3 };

static int put_one(struct torture *t, int i)
{
    static const char *const keys[MESSAGES] = {"k1", "k2", NULL};
    const struct postbag_message m = {.struct_size = sizeof(m),
        .topic = "put",
        .payload = "1234567890",
        .payload_len = 10,
        .id = &t->ids[i],
        .key = keys[i],
        .key_version = i,
        .type = "com.example.reading",
        .content_type = "text/plain",
        .headers = i == 1 ? "{\"traceparent\":\"00-2\"}" : NULL,
        .priority = i == 2 ? 1 : 0,
        .ttl_ms = i == 2 ? 3600000 : 0,
        .is_text = 1};
    struct postbag_id id;
    int err = CALL(t, postbag_put, t->w, &m, &id);

    if (err == POSTBAG_OK)
        EXPECT(t, memcmp(&id, &t->ids[i], sizeof(id)) == 0, "another id");
    return err;
}

static int make_ids(struct torture *t)
{
    int err = POSTBAG_OK;

    for (int i = 0; i < MESSAGES && err == POSTBAG_OK && !t->is_unknown; i++)
        err = CALL(t, postbag_id_new, &t->sim.port, &t->ids[i]);
    return err;
}

/* As postbag_commit says: did the one that ended with EIO commit? */
static int is_settled(struct torture *t, int *err)
{
    int stored = 0;

    if (!t->is_unknown)
        return 0;
    *err = CALL(t, postbag_find, t->w, &t->ids[0], &stored);
    if (*err == POSTBAG_OK && stored)
        t->is_unknown = 0;
    return *err == POSTBAG_OK && stored;
}

static int put_all(struct torture *t)
{
    int err = scene_sql(t, "UPDATE state SET n = n + 1");

    for (int i = 0; i < MESSAGES && err == POSTBAG_OK; i++)
        err = put_one(t, i);
    if (err != POSTBAG_OK)
        return err;
    err = CALL(t, postbag_commit, t->w);
    t->is_unknown = err == POSTBAG_EIO;
    return err;
}

static int act_put(struct torture *t)
{
    int err = make_ids(t);

    if (err == POSTBAG_OK)
        err = CALL(t, postbag_begin, t->w);
    if (err != POSTBAG_OK)
        return err;
    if (is_settled(t, &err)) {
        NOTE(t, postbag_rollback, t->w);
        return POSTBAG_OK;
    }
    if (err == POSTBAG_OK)
        err = put_all(t);
    if (err != POSTBAG_OK)
        NOTE(t, postbag_rollback, t->w);
    return err;
}

/* Both or neither; and both if the commit said so. */
static void check_put(struct torture *t, int err)
{
    int64_t state = scene_get(t, "SELECT n FROM state");
    int64_t rows =
        scene_get(t, "SELECT count(*) FROM outbox WHERE topic = 'put'");

    EXPECT(t, rows == state * MESSAGES,
        "half done: the state is %lld, and there are %lld messages",
        (long long)state, (long long)rows);
    if (err == POSTBAG_OK)
        EXPECT(t, state == 1, "committed, and the state is %lld",
            (long long)state);
    else if (!t->is_unknown)
        EXPECT(t, state == 0, "not committed, and the state is %lld",
            (long long)state);
}

const struct life life_put = {.name = "put",
    .base = STAGE_FURNISHED,
    .set_up = scene_writer,
    .act = act_put,
    .check = check_put};

/* ... beside an engine in this process, whose gate it shares. */
static void set_up_beside_engine(struct torture *t)
{
    scene_transports(t, 0);
    scene_engine(t);
    scene_writer(t);
}

const struct life life_put_beside_engine = {.name = "put_beside_engine",
    .base = STAGE_FURNISHED,
    .set_up = set_up_beside_engine,
    .act = act_put,
    .check = check_put,
    .flags = LIFE_LOCKS};

/* ---- what is rolled back ------------------------------------------------ */

static int act_roll_back(struct torture *t)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .topic = "back", .payload = NULL};
    int err = CALL(t, postbag_begin, t->w);

    if (err == POSTBAG_OK)
        err = scene_sql(t, "UPDATE state SET n = n + 1");
    if (err == POSTBAG_OK)
        err = CALL(t, postbag_put, t->w, &m, NULL);
    NOTE(t, postbag_rollback, t->w);
    return err;
}

static void check_nothing(struct torture *t, int err)
{
    (void)err;
    EXPECT(t, scene_get(t, "SELECT n FROM state") == 0, "the state stayed");
    EXPECT(t,
        scene_get(t, "SELECT count(*) FROM outbox WHERE topic = 'back'") == 0,
        "what was rolled back is there");
}

const struct life life_roll_back = {.name = "roll_back",
    .base = STAGE_FURNISHED,
    .set_up = scene_writer,
    .act = act_roll_back,
    .check = check_nothing};

/* ---- the application's own BEGIN and COMMIT ----------------------------- */

static int act_own(struct torture *t)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .topic = "put", .payload = NULL};
    int err = scene_sql(t, "BEGIN IMMEDIATE");

    if (err == POSTBAG_OK)
        err = scene_sql(t, "UPDATE state SET n = n + 1");
    for (int i = 0; i < MESSAGES && err == POSTBAG_OK; i++)
        err = CALL(t, postbag_put, t->w, &m, &t->ids[i]);
    if (err == POSTBAG_OK)
        err = scene_sql(t, "COMMIT");
    if (!sqlite3_get_autocommit(t->app))
        NOTE(t, postbag_rollback, t->w);
    return err;
}

static int act_own_once(struct torture *t)
{
    int stored = 0;
    int err;

    if (!t->is_again)
        return act_own(t);
    err = CALL(t, postbag_find, t->w, &t->ids[MESSAGES - 1], &stored);
    return err != POSTBAG_OK || stored ? err : act_own(t);
}

static void check_own(struct torture *t, int err)
{
    t->is_unknown = 1;
    check_put(t, err);
}

const struct life life_own_transaction = {.name = "own_transaction",
    .base = STAGE_FURNISHED,
    .set_up = scene_writer,
    .act = act_own_once,
    .check = check_own};

/* ---- questions ---------------------------------------------------------- */

static int act_ask(struct torture *t)
{
    struct postbag_pressure p = {.struct_size = sizeof(p)};
    int stored = 1;
    int err = CALL(t, postbag_pressure, t->w, &p);

    if (err == POSTBAG_OK)
        EXPECT(t, p.rows == STAGE_WAITING, "%lld messages wait",
            (long long)p.rows);
    if (err == POSTBAG_OK)
        err = CALL(t, postbag_find, t->w, &t->ids[0], &stored);
    if (err == POSTBAG_OK)
        EXPECT(t, stored == 0, "a message of no id is stored");
    return err;
}

const struct life life_ask = {.name = "ask",
    .base = STAGE_FURNISHED,
    .set_up = scene_writer,
    .act = act_ask};
