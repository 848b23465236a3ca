/* SPDX-License-Identifier: MIT */
/* Lives of firmware that claims requests and pulls commands. */
#include "lives.h"

#include <string.h>

#include "postbag/claim.h"
#include "postbag/pull.h"
#include "scene.h"

static const char answer[] = "valve is open";

/* ---- claims ------------------------------------------------------------- */

static int claim(struct torture *t, struct postbag_claim *out)
{
    const struct postbag_request r = {.struct_size = sizeof(r),
        .consumer = "http",
        .source = "phone",
        .id = "r1",
        .id_len = 2,
        .content = "POST /valve",
        .content_len = 11};

    out->struct_size = sizeof(*out);
    return CALL(t, postbag_inbox_claim, t->w, &r, out);
}

static int act_on_it(struct torture *t, int64_t arrival)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .topic = "put", .payload = NULL};
    int err = scene_sql(t, "UPDATE state SET n = n + 1");

    if (err == POSTBAG_OK)
        err = CALL(t, postbag_put, t->w, &m, NULL);
    if (err == POSTBAG_OK)
        err = CALL(
            t, postbag_inbox_finish, t->w, arrival, answer, sizeof(answer));
    return err;
}

static void expect_answer(struct torture *t, const struct postbag_claim *c)
{
    EXPECT(t, c->is == POSTBAG_CLAIM_DONE, "the claim is %d", c->is);
    EXPECT(t,
        c->result_len == sizeof(answer) &&
            memcmp(c->result, answer, sizeof(answer)) == 0,
        "another result");
}

static int serve(struct torture *t)
{
    struct postbag_claim c;
    int err = CALL(t, postbag_begin, t->w);

    if (err != POSTBAG_OK)
        return err;
    err = claim(t, &c);
    if (err == POSTBAG_OK && c.is == POSTBAG_CLAIM_NEW)
        err = act_on_it(t, c.arrival);
    else if (err == POSTBAG_OK)
        expect_answer(t, &c);
    if (err == POSTBAG_OK) {
        err = CALL(t, postbag_commit, t->w);
        t->is_unknown = err == POSTBAG_EIO;
    }
    if (err != POSTBAG_OK)
        NOTE(t, postbag_rollback, t->w);
    return err;
}

/* The effect, its message and the mark: all or nothing. */
static void check_claim(struct torture *t, int err)
{
    int64_t state = scene_get(t, "SELECT n FROM state");
    int64_t rows =
        scene_get(t, "SELECT count(*) FROM outbox WHERE topic = 'put'");
    int64_t done = scene_get(t, "SELECT count(*) FROM inbox WHERE"
                                " consumer = 'http' AND state = 'done'");
    int64_t all =
        scene_get(t, "SELECT count(*) FROM inbox WHERE consumer = 'http'");

    EXPECT(t, state == rows && rows == done && done == all,
        "half done: state %lld, messages %lld, done %lld of %lld",
        (long long)state, (long long)rows, (long long)done, (long long)all);
    if (err == POSTBAG_OK)
        EXPECT(
            t, state == 1, "the effect was had %lld times", (long long)state);
    else if (!t->is_unknown && t->numbers[0] == 0)
        EXPECT(t, state == 0, "an effect without a commit");
}

const struct life life_claim = {.name = "claim",
    .base = STAGE_FURNISHED,
    .set_up = scene_writer,
    .act = serve,
    .check = check_claim};

static void set_up_repeated(struct torture *t)
{
    scene_writer(t);
    t->numbers[0] = 1;
    if (serve(t) != POSTBAG_OK)
        torture_wrong(t, "not served");
}

const struct life life_claim_repeated = {.name = "claim_repeated",
    .base = STAGE_FURNISHED,
    .set_up = set_up_repeated,
    .act = serve,
    .check = check_claim};

/* ---- commands that are pulled ------------------------------------------- */

static int answer_it(struct torture *t, const struct postbag_command *cmd)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .payload = "ok", .payload_len = 2};

    if (cmd->response_topic == NULL)
        return POSTBAG_OK;
    return CALL(t, postbag_reply, t->w, cmd, &m, NULL);
}

static int pull_one(struct torture *t, int *found)
{
    struct postbag_command cmd = {.struct_size = sizeof(cmd)};
    int err = CALL(t, postbag_begin, t->w);

    *found = 0;
    if (err != POSTBAG_OK)
        return err;
    err = CALL(t, postbag_inbox_next, t->w, "p", &cmd);
    *found = err == POSTBAG_OK;
    if (err == POSTBAG_OK)
        err = scene_sql(t, "INSERT INTO effect SELECT 'pulled'");
    if (err == POSTBAG_OK)
        err = answer_it(t, &cmd);
    if (err == POSTBAG_OK)
        err = CALL(t, postbag_inbox_done, t->w, cmd.arrival);
    if (err == POSTBAG_ENOTFOUND)
        err = POSTBAG_OK;
    if (err == POSTBAG_OK) {
        err = CALL(t, postbag_commit, t->w);
        t->is_unknown = err == POSTBAG_EIO;
    }
    if (err != POSTBAG_OK)
        NOTE(t, postbag_rollback, t->w);
    return err;
}

static int act_pull(struct torture *t)
{
    int found = 1;
    int err = POSTBAG_OK;

    while (found && err == POSTBAG_OK)
        err = pull_one(t, &found);
    return err;
}

static void check_pull(struct torture *t, int err)
{
    int64_t effects = scene_get(t, "SELECT count(*) FROM effect");
    int64_t done = scene_get(t, "SELECT count(*) FROM inbox WHERE"
                                " consumer = 'p' AND state = 'done'");
    int64_t first =
        scene_get(t, "SELECT count(*) FROM inbox WHERE consumer = 'p' AND"
                     " id = '1' AND state = 'done'");
    int64_t replies =
        scene_get(t, "SELECT count(*) FROM outbox WHERE topic = 're/1'");

    EXPECT(t, effects == done, "half done: %lld effects, %lld done",
        (long long)effects, (long long)done);
    EXPECT(t, replies == first, "half done: %lld replies, %lld done",
        (long long)replies, (long long)first);
    if (err == POSTBAG_OK)
        EXPECT(t, done == 3, "%lld of 3 are done", (long long)done);
}

const struct life life_pull = {.name = "pull",
    .base = STAGE_FURNISHED,
    .set_up = scene_writer,
    .act = act_pull,
    .check = check_pull};

/* ---- put off ------------------------------------------------------------ */

static int act_put_off(struct torture *t)
{
    const struct postbag_put_off *how = t->life->detail;
    struct postbag_command cmd = {.struct_size = sizeof(cmd)};
    int is_dead = -1;
    int err = CALL(t, postbag_inbox_next, t->w, "p", &cmd);

    if (err != POSTBAG_OK)
        return err;
    if (t->is_again && cmd.id_len == 1 && *(const char *)cmd.id != '1')
        return POSTBAG_OK; /* EIO: it had been put off */
    err = CALL(t, postbag_inbox_put_off, t->w, cmd.arrival, how, &is_dead);
    t->is_unknown = err == POSTBAG_EIO;
    if (err == POSTBAG_OK)
        EXPECT(t, is_dead == (how != NULL), "is it dead? %d", is_dead);
    return err;
}

static void check_put_off(struct torture *t, int err)
{
    int64_t attempts = scene_get(
        t, "SELECT attempts FROM inbox WHERE consumer = 'p' AND id = '1'");
    int64_t others =
        scene_get(t, "SELECT count(*) FROM inbox WHERE consumer = 'p' AND"
                     " id <> '1' AND attempts > 0");

    EXPECT(t, others == 0, "another command was charged");
    if (!t->is_unknown)
        EXPECT(t, attempts == (err == POSTBAG_OK), "%lld attempts",
            (long long)attempts);
    EXPECT(t, attempts <= 1, "charged twice");
}

const struct life life_put_off = {.name = "put_off",
    .base = STAGE_FURNISHED,
    .set_up = scene_writer,
    .act = act_put_off,
    .check = check_put_off};

static const struct postbag_put_off for_good = {
    .struct_size = sizeof(for_good), .why = "no such valve", .for_good = 1};

const struct life life_put_off_for_good = {.name = "put_off_for_good",
    .base = STAGE_FURNISHED,
    .set_up = scene_writer,
    .act = act_put_off,
    .check = check_put_off,
    .detail = &for_good};
