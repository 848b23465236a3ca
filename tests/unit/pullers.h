/* SPDX-License-Identifier: MIT */
/* Two pullers of commands, each on a connection of its own, beside a receiver
 * and a worker. */
#ifndef POSTBAG_TESTS_PULLERS_H
#define POSTBAG_TESTS_PULLERS_H

#include "inbox_world.h"

#include <sqlite3.h>

#include "postbag/pull.h"
#include "sound.h"

struct pullers {
    struct inbox_world *world;
    sqlite3 *db[2];
    struct postbag_writer *w[2];
    struct postbag_command cmd; /* the last one */
    int handled;                /* by the worker, of consumer b */
};

static inline enum postbag_outcome handle(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    (void)cmd;
    (void)w;
    ((struct pullers *)ctx)->handled++;
    return POSTBAG_DONE;
}

static inline void connect_one(struct pullers *p, int i)
{
    const struct postbag_writer_config c = {.struct_size = sizeof(c),
        .db = p->db[i] = tempdb_connect(&p->world->t.file),
        .port = &p->world->port,
        .reply_topics = "re/#"};
    struct postbag_fault why = {0};

    if (postbag_writer_open(&p->w[i], &c, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
}

static inline void leave(struct pullers *p)
{
    for (int i = 0; i < 2; i++) {
        postbag_writer_close(p->w[i]);
        (void)sqlite3_close(p->db[i]);
    }
}

static inline int set_up(void **state)
{
    struct pullers *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    p->world = world_new();
    temp_db_run(&p->world->t, "CREATE TABLE effect(id)");
    world_add(p->world, "p", "cmd/a", NULL, NULL);
    world_add(p->world, "b", "cmd/b", handle, p);
    p->world->again_topics = "re/#";
    world_open_receiver(p->world, 100);
    world_open_worker(p->world, "");
    connect_one(p, 0);
    connect_one(p, 1);
    *state = p;
    return 0;
}

static inline int tear_down(void **state)
{
    struct pullers *p = *state;

    leave(p);
    assert_sound(&p->world->t.file);
    world_free(p->world);
    free(p);
    return 0;
}

static inline int next(struct pullers *p)
{
    p->cmd.struct_size = sizeof(p->cmd);
    return postbag_inbox_next(p->w[0], "p", &p->cmd);
}

static inline void expect_next(struct pullers *p, const char *id)
{
    assert_ok(next(p));
    assert_int_equal(p->cmd.id_len, strlen(id));
    assert_string_equal(p->cmd.id, id);
}

static inline void act(struct pullers *p, int i)
{
    sql_run(
        p->db[i], "INSERT INTO effect VALUES ('%s')", (const char *)p->cmd.id);
}

/* In the transaction that is open. */
static inline void act_and_mark(struct pullers *p)
{
    act(p, 0);
    assert_ok(postbag_inbox_done(p->w[0], p->cmd.arrival));
}

static inline void serve(struct pullers *p, const char *id)
{
    assert_ok(postbag_begin(p->w[0]));
    expect_next(p, id);
    act_and_mark(p);
    assert_ok(postbag_commit(p->w[0]));
}

static inline const char *effects(struct pullers *p)
{
    return sql_text(p->db[0], "SELECT id FROM effect ORDER BY rowid");
}

static inline const char *row_is(struct pullers *p, const char *columns)
{
    return sql_text(p->db[0], "SELECT %s FROM inbox", columns);
}

#endif
