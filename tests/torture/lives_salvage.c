/* SPDX-License-Identifier: MIT */
/*
 * A life of a tool that makes a new database of one that cannot be read
 * everywhere.  What it leaves out it says; what has no memory is no damage.
 */
#include "lives.h"

#include "postbag/care.h"
#include "scene.h"

enum { APPLICATION_ID = 7, MAX_ROWS = 1000 };

static void set_up_salvage(struct torture *t)
{
    scene_admin(t);
    scene_app(t);
    stage_remove_other();
    stage_run(t->app, "PRAGMA application_id = 7;"
                      "UPDATE outbox_meta SET value = 1000 WHERE key ="
                      " 'max_rows'");
    scene_close(t);
}

static int act_salvage(struct torture *t)
{
    const struct postbag_salvage how = {
        .struct_size = sizeof(how), .to = stage_other_path()};
    struct postbag_salvaged done = {.struct_size = sizeof(done)};
    struct postbag_admin_config c;
    int err;

    stage_remove_other();
    scene_admin_config(t, &c);
    err = CALL(t, postbag_admin_salvage, &c, &how, &done, &t->why);
    t->numbers[0] = done.messages;
    t->numbers[1] = done.damaged + done.holes + done.left_out;
    t->numbers[2] = done.without_wal;
    return err;
}

static void expect_whole(struct torture *t, struct sqlite3 *db)
{
    int64_t application = stage_get(db, "PRAGMA application_id");
    int64_t rows =
        stage_get(db, "SELECT value FROM outbox_meta WHERE key = 'max_rows'");

    EXPECT(t, t->numbers[1] == 0 && t->numbers[0] == STAGE_WAITING,
        "%lld messages, and %lld things are lost", (long long)t->numbers[0],
        (long long)t->numbers[1]);
    EXPECT(t, application == APPLICATION_ID, "application_id is %lld",
        (long long)application);
    EXPECT(t, rows == MAX_ROWS, "the limit is %lld", (long long)rows);
}

/* Only a disk hides something. */
static int may_lose(const struct torture *t)
{
    return stage_disk() != NULL && !t->is_again;
}

static void check_salvage(struct torture *t, int err)
{
    struct sqlite3 *db;

    if (err != POSTBAG_OK)
        return;
    db = stage_connect_to(stage_other_path());
    EXPECT(t,
        stage_get(db, "SELECT count(*) FROM pragma_integrity_check WHERE"
                      " integrity_check <> 'ok'") == 0,
        "the new database is not sound");
    if (!may_lose(t))
        expect_whole(t, db);
    else
        EXPECT(t,
            t->numbers[0] == STAGE_WAITING || t->numbers[1] > 0 ||
                t->numbers[2],
            "%lld messages, and nothing is said to be lost",
            (long long)t->numbers[0]);
    stage_close(db);
}

static void tear_down_salvage(struct torture *t)
{
    (void)t;
    stage_remove_other();
}

const struct life life_salvage = {.name = "salvage",
    .base = STAGE_FURNISHED,
    .set_up = set_up_salvage,
    .act = act_salvage,
    .check = check_salvage,
    .tear_down = tear_down_salvage};
