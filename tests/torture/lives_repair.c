/* SPDX-License-Identifier: MIT */
/*
 * Lives of tools that change a database.  Each change is whole or is not: a
 * query says how much of it there is.
 */
#include "lives.h"

#include <stdlib.h>

#include "postbag/care.h"
#include "postbag/prepare.h"
#include "scene.h"

struct change {
    int (*make)(struct torture *t);
    const char *query;
    int64_t before, after;
    int in_parts; /* what is between them may be there after an error */
};

static const struct change *of(const struct torture *t)
{
    return t->life->detail;
}

/* EIO of a commit: look before you do it again. */
static int act_change(struct torture *t)
{
    if (t->is_again && of(t)->query != NULL && stage_exists() &&
        scene_get(t, of(t)->query) == of(t)->after)
        return POSTBAG_OK;
    if ((t->life->flags & LIFE_ALONE) != 0)
        scene_shut_eye(t);
    return of(t)->make(t);
}

static void check_change(struct torture *t, int err)
{
    const struct change *c = of(t);
    int64_t now;

    if (!stage_exists()) {
        EXPECT(t, err != POSTBAG_OK, "there is no database");
        return;
    }
    now = c->query == NULL ? c->after : scene_get(t, c->query);
    if (err == POSTBAG_OK)
        EXPECT(t, now == c->after, "done, and there is %lld", (long long)now);
    else if (c->in_parts)
        EXPECT(t,
            (now >= c->before && now <= c->after) ||
                (now <= c->before && now >= c->after),
            "there is %lld", (long long)now);
    else
        EXPECT(t, now == c->before || (err == POSTBAG_EIO && now == c->after),
            "%s, and there is %lld", postbag_error_name(err), (long long)now);
}

#define CHANGE(what, sql, was, is) \
    const struct life life_##what = {.name = #what, \
        .base = STAGE_FURNISHED, \
        .set_up = scene_admin, \
        .act = act_change, \
        .check = check_change, \
        .detail = &(const struct change){ \
            .make = what, .query = sql, .before = was, .after = is}}

/* ---- destinations ------------------------------------------------------- */

static int set_profile(struct torture *t)
{
    return CALL(t, postbag_admin_set_profile, t->a, NULL, "eventgrid");
}

CHANGE(set_profile,
    "SELECT count(*) FROM sqlite_schema WHERE sql LIKE '%eventgrid%'", 0, 1);

static int dest_add(struct torture *t)
{
    return CALL(t, postbag_admin_dest_add, t->a, "more", POSTBAG_FROM_OLDEST);
}

CHANGE(dest_add,
    "SELECT (SELECT count(*) FROM outbox_dest WHERE name = 'more') +"
    " (SELECT count(*) FROM outbox_cursor WHERE dest = 'more')",
    0, 5);

static int dest_remove(struct torture *t)
{
    return CALL(t, postbag_admin_dest_remove, t->a, "cloud");
}

CHANGE(dest_remove,
    "SELECT (SELECT count(*) FROM outbox_dest WHERE name = 'cloud') +"
    " (SELECT count(*) FROM outbox_cursor WHERE dest = 'cloud')",
    5, 0);

/* ---- messages ----------------------------------------------------------- */

static int admin_put(struct torture *t)
{
    const struct postbag_message m = {
        .struct_size = sizeof(m), .topic = "put", .payload = NULL};

    return CALL(t, postbag_admin_put, t->a, &m, NULL);
}

CHANGE(admin_put, "SELECT count(*) FROM outbox WHERE topic = 'put'", 0, 1);

static int requeue(struct torture *t)
{
    int64_t count = -1;
    int err = CALL(t, postbag_admin_requeue, t->a, NULL, 0, NULL, &count);

    EXPECT(
        t, err != POSTBAG_OK || count == 1, "%lld requeued", (long long)count);
    return err;
}

CHANGE(requeue, "SELECT count(*) FROM outbox_held WHERE state = 'dead'", 1, 0);

static int discard(struct torture *t)
{
    return CALL(t, postbag_admin_discard, t->a, NULL, STAGE_DEAD, NULL);
}

CHANGE(discard,
    "SELECT (SELECT count(*) FROM outbox_held WHERE state = 'dead') * 10 +"
    " (SELECT count(*) FROM outbox_lost WHERE reason = 'discarded')",
    10, 1);

static int replay(struct torture *t)
{
    const struct postbag_replay r = {.struct_size = sizeof(r)};
    int64_t count = -1;
    int64_t next = -1;
    int err = CALL(t, postbag_admin_replay, t->a, &r, &count, &next);

    EXPECT(t, err != POSTBAG_OK || (count == 5 && next == 0),
        "%lld replayed, next %lld", (long long)count, (long long)next);
    return err;
}

CHANGE(replay, "SELECT count(*) FROM outbox_held", 2, 7);

static int take_row(void *ctx, const struct postbag_row *row)
{
    struct torture *t = ctx;

    EXPECT(t, row->topic != NULL, "a message without topic");
    t->numbers[0]++;
    return 0;
}

static int take_sync(void *ctx)
{
    (void)ctx;
    return 0;
}

static int archive(struct torture *t)
{
    const struct postbag_archive a = {
        .struct_size = sizeof(a), .ctx = t, .row = take_row, .sync = take_sync};
    int64_t count = -1;
    int64_t gone = -1;
    int err;

    t->numbers[0] = 0;
    err = CALL(t, postbag_admin_archive, t->a, &a, &count, &gone);
    EXPECT(t, err != POSTBAG_OK || (count == t->numbers[0] && gone == 0),
        "%lld archived, %lld handed out, %lld gone", (long long)count,
        (long long)t->numbers[0], (long long)gone);
    return err;
}

CHANGE(archive, "SELECT archived FROM outbox_dest WHERE name = 'main'", 0,
    STAGE_SETTLED);

/* More settled rows than the newest ones that stay. */
static void set_up_purge(struct torture *t)
{
    scene_app(t);
    stage_run(t->app,
        "INSERT INTO outbox(topic, payload, dest) WITH RECURSIVE n(i) AS"
        " (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 700)"
        " SELECT 'bulk', 'x', 'main' FROM n;"
        "UPDATE outbox_cursor SET acked = 713, sent_hi = 713 WHERE lane <> 2;"
        "UPDATE outbox_cursor SET acked = 11, sent_hi = 11 WHERE lane = 2;");
    scene_admin(t);
}

static int purge(struct torture *t)
{
    int64_t count = -1;
    int err = CALL(t, postbag_admin_purge, t->a, 0, &count);

    EXPECT(t, count >= 0, "not told how many");
    return err;
}

static void check_purge(struct torture *t, int err)
{
    int64_t rows = scene_get(t, "SELECT count(*) FROM outbox");

    EXPECT(t, rows >= 1 && rows <= 713, "%lld rows", (long long)rows);
    if (err == POSTBAG_OK)
        EXPECT(t, rows < 713 - 256, "purged, and %lld rows are left",
            (long long)rows);
}

const struct life life_purge = {.name = "purge",
    .base = STAGE_FURNISHED,
    .set_up = set_up_purge,
    .act = act_change,
    .check = check_purge,
    .flags = LIFE_NO_END, /* its cursors were moved by hand */
    .detail = &(const struct change){.make = purge}};

/* ---- commands ----------------------------------------------------------- */

static int inbox_requeue(struct torture *t)
{
    int64_t count = -1;
    int err = CALL(t, postbag_admin_inbox_requeue, t->a, NULL, &count);

    EXPECT(
        t, err != POSTBAG_OK || count == 1, "%lld requeued", (long long)count);
    return err;
}

CHANGE(inbox_requeue, "SELECT count(*) FROM inbox WHERE state = 'dead'", 1, 0);

static int inbox_discard(struct torture *t)
{
    int64_t count = -1;
    int err = CALL(t, postbag_admin_inbox_discard, t->a, NULL, &count);

    EXPECT(
        t, err != POSTBAG_OK || count == 1, "%lld discarded", (long long)count);
    return err;
}

CHANGE(inbox_discard,
    "SELECT count(*) * 10 + sum(error IS 'discarded') FROM inbox WHERE"
    " consumer = 'q' AND state = 'done'",
    10, 21);

/* ---- the file ----------------------------------------------------------- */

static void set_up_alone(struct torture *t)
{
    (void)t;
}

static int vacuum(struct torture *t)
{
    struct postbag_admin_config c;
    int64_t before = -1;
    int64_t after = -1;

    scene_admin_config(t, &c);
    return CALL(t, postbag_admin_vacuum, &c, &before, &after, &t->why);
}

static int prepare(struct torture *t)
{
    struct postbag_admin_config c;

    scene_admin_config(t, &c);
    return CALL(t, postbag_prepare, &c, 1 << 20, 128 << 10, &t->why);
}

/* It may leave a table of its own after an error, which the next call
 * removes. */
static const char rows_of_all[] =
    "SELECT (SELECT count(*) FROM outbox) * 100 + (SELECT count(*) FROM inbox)";

const struct life life_vacuum = {.name = "vacuum",
    .base = STAGE_FURNISHED,
    .set_up = set_up_alone,
    .act = act_change,
    .check = check_change,
    .flags = LIFE_ALONE,
    .detail = &(const struct change){
        .make = vacuum, .query = rows_of_all, .before = 1305, .after = 1305}};

const struct life life_prepare = {.name = "prepare",
    .base = STAGE_FURNISHED,
    .set_up = set_up_alone,
    .act = act_change,
    .check = check_change,
    .flags = LIFE_ALONE,
    .detail = &(const struct change){
        .make = prepare, .query = rows_of_all, .before = 1305, .after = 1305}};

const struct life life_prepare_new = {.name = "prepare_new",
    .base = STAGE_NONE,
    .set_up = set_up_alone,
    .act = act_change,
    .check = check_change,
    .flags = LIFE_ALONE,
    .detail = &(const struct change){.make = prepare,
        .query = "SELECT count(*) FROM sqlite_schema WHERE name IN"
                 " ('outbox', 'inbox')",
        .before = 0,
        .after = 2,
        .in_parts = 1}};
