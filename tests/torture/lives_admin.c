/* SPDX-License-Identifier: MIT */
/* Lives of tools that look at a database. */
#include "lives.h"

#include <string.h>

#include "postbag/care.h"
#include "postbag/prepare.h"
#include "scene.h"

/* ---- making and opening ------------------------------------------------- */

static int act_init(struct torture *t)
{
    struct postbag_admin_config c;

    scene_admin_config(t, &c);
    return CALL(t, postbag_admin_init, &c, 4096, &t->why);
}

static void check_init(struct torture *t, int err)
{
    int64_t tables;

    if (!stage_exists()) {
        EXPECT(t, err != POSTBAG_OK, "there is no database");
        return;
    }
    tables = scene_get(t, "SELECT count(*) FROM sqlite_schema WHERE name IN"
                          " ('outbox', 'inbox', 'outbox_meta', 'outbox_dest')");
    EXPECT(t, tables == 0 || tables == 4, "half done: %lld tables",
        (long long)tables);
    if (err == POSTBAG_OK)
        EXPECT(t, tables == 4, "no tables");
}

static void set_up_nothing(struct torture *t)
{
    (void)t;
}

const struct life life_init = {.name = "init",
    .base = STAGE_NONE,
    .set_up = set_up_nothing,
    .act = act_init,
    .check = check_init};

const struct life life_init_bare = {.name = "init_bare",
    .base = STAGE_BARE,
    .set_up = set_up_nothing,
    .act = act_init,
    .check = check_init};

static int act_open(struct torture *t)
{
    struct postbag_admin_config c;
    int err;

    scene_admin_config(t, &c);
    c.writable = t->life->detail != NULL;
    err = CALL(t, postbag_admin_open, &t->a, &c, &t->why);
    EXPECT(t, (err == POSTBAG_OK) == (t->a != NULL), "an admin, and %s",
        postbag_error_name(err));
    if (err != POSTBAG_OK)
        return err;
    EXPECT(t, NOTE(t, postbag_admin_fault, t->a)->code == POSTBAG_OK,
        "a fault of nothing");
    NOTE(t, postbag_admin_close, t->a);
    t->a = NULL;
    return POSTBAG_OK;
}

const struct life life_admin_open = {.name = "admin_open",
    .base = STAGE_FURNISHED,
    .set_up = set_up_nothing,
    .act = act_open};

const struct life life_admin_open_writable = {.name = "admin_open_writable",
    .base = STAGE_FURNISHED,
    .set_up = set_up_nothing,
    .act = act_open,
    .detail = "writable"};

/* ---- looking ------------------------------------------------------------ */

static int count_name(void *ctx, const char *name)
{
    struct torture *t = ctx;

    EXPECT(t, name != NULL && name[0] != '\0', "a destination without name");
    t->numbers[0]++;
    return 0;
}

static int count_row(void *ctx, const struct postbag_row *row)
{
    struct torture *t = ctx;

    EXPECT(t, row->topic != NULL && row->topic[0] != '\0',
        "message %lld has no topic", (long long)row->seq);
    t->numbers[0]++;
    return 0;
}

static int count_command(void *ctx, const struct postbag_inbox_row *row)
{
    struct torture *t = ctx;

    EXPECT(t, row->topic != NULL && row->id != NULL && row->state != NULL,
        "command %lld lacks a part", (long long)row->arrival);
    t->numbers[0]++;
    return 0;
}

static int destinations(struct torture *t)
{
    int err = CALL(t, postbag_admin_destinations, t->a, count_name, t);

    if (err == POSTBAG_OK)
        EXPECT(t, t->numbers[0] == 2, "%lld destinations",
            (long long)t->numbers[0]);
    return err;
}

static int database(struct torture *t)
{
    struct postbag_database d = {.struct_size = sizeof(d)};
    int err = CALL(t, postbag_admin_database, t->a, &d);

    if (err == POSTBAG_OK)
        EXPECT(t,
            d.inbox_due == 3 && d.inbox_dead == 1 && d.inbox_done == 1 &&
                d.waiting_rows == STAGE_WAITING && d.page_bytes > 0,
            "numbers: %lld due, %lld wait", (long long)d.inbox_due,
            (long long)d.waiting_rows);
    return err;
}

static int status(struct torture *t)
{
    struct postbag_status s = {.struct_size = sizeof(s)};
    int err = CALL(t, postbag_admin_status, t->a, "main", &s);

    if (err == POSTBAG_OK)
        EXPECT(t,
            s.pending == STAGE_WAITING && s.held == 1 && s.dead == 1 &&
                s.ledger_gap == 0,
            "numbers: %lld wait, %lld held, %lld dead", (long long)s.pending,
            (long long)s.held, (long long)s.dead);
    return err;
}

static int list(struct torture *t)
{
    const struct postbag_row_filter f = {.struct_size = sizeof(f)};
    int err = CALL(t, postbag_admin_list, t->a, &f, count_row, t);

    if (err == POSTBAG_OK)
        EXPECT(t, t->numbers[0] == STAGE_SETTLED + STAGE_WAITING,
            "%lld messages", (long long)t->numbers[0]);
    return err;
}

static int show(struct torture *t)
{
    int err = CALL(t, postbag_admin_show, t->a, NULL, STAGE_SETTLED + 2, NULL,
        count_row, t);

    if (err == POSTBAG_OK)
        EXPECT(
            t, t->numbers[0] == 1, "%lld messages", (long long)t->numbers[0]);
    return err;
}

static int inbox_list(struct torture *t)
{
    const struct postbag_inbox_filter f = {.struct_size = sizeof(f)};
    int err = CALL(t, postbag_admin_inbox_list, t->a, &f, count_command, t);

    if (err == POSTBAG_OK)
        EXPECT(
            t, t->numbers[0] == 5, "%lld commands", (long long)t->numbers[0]);
    return err;
}

static int live_path(struct torture *t)
{
    char path[300];

    return CALL(
        t, postbag_admin_live_path, t->a, "/run/x", NULL, path, sizeof(path));
}

static int note_finding(
    void *ctx, const char *check, const char *dest, const char *text)
{
    struct torture *t = ctx;

    (void)check;
    (void)dest;
    t->numbers[1] += fuse_blow() == NULL || fuse_struck() == 0;
    EXPECT(t, t->numbers[1] == 0, "verify finds: %s", text);
    t->numbers[2]++;
    return 0;
}

static int note_ledger(
    void *ctx, const char *dest, const struct postbag_status *s)
{
    struct torture *t = ctx;

    EXPECT(t, dest != NULL && s->ledger_gap == 0, "a ledger with a gap");
    t->numbers[0]++;
    return 0;
}

/* What cannot be read is a finding: then it is no lie that it was checked. */
static int verify(struct torture *t)
{
    const struct postbag_verify v = {.struct_size = sizeof(v),
        .ctx = t,
        .finding = note_finding,
        .ledger = note_ledger};
    int err;

    t->numbers[2] = 0;
    err = CALL(t, postbag_admin_verify, t->a, &v);
    if (err == POSTBAG_OK)
        EXPECT(t, t->numbers[0] == 2 || t->numbers[2] > 0, "%lld ledgers",
            (long long)t->numbers[0]);
    return err;
}

typedef int (*look)(struct torture *t);

struct looking {
    look at;
};

static int act_look(struct torture *t)
{
    const struct looking *l = t->life->detail;

    t->numbers[0] = 0;
    return l->at(t);
}

#define LOOK(what) \
    const struct life life_##what = {.name = #what, \
        .base = STAGE_FURNISHED, \
        .set_up = scene_admin, \
        .act = act_look, \
        .detail = &(const struct looking){what}}

LOOK(destinations);
LOOK(database);
LOOK(status);
LOOK(list);
LOOK(show);
LOOK(inbox_list);
LOOK(live_path);
LOOK(verify);
