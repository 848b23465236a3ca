/* SPDX-License-Identifier: MIT */
/* Six messages in the log, and the store of what is held of them. */
#ifndef POSTBAG_TESTS_HELD_SHELF_H
#define POSTBAG_TESTS_HELD_SHELF_H

#include <stdlib.h>

#include "held_store.h"
#include "tempdb.h"
#include "unit.h"

struct shelf {
    struct tempdb t;
    struct db db;
    struct lost_store lost;
    struct held_store h;
    struct arena arena;
    struct row row;
    int attempts;
};

static const uint8_t held_shelf_boot[16] = {1};

static inline struct due at(int64_t ms)
{
    const struct due due = {
        .boot = held_shelf_boot, .ms = ms, .furthest_ms = ms + 1000};

    return due;
}

static inline int set_up(void **state)
{
    struct shelf *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    tempdb_make_outbox(&s->t);
    sql_run(s->t.app, "INSERT INTO outbox(topic, payload, key, priority)"
                      " VALUES ('1', 'p1', 'a', 0), ('2', 'p2', 'a', 0),"
                      " ('3', 'p3', 'b', 0), ('4', 'p4', 'a', 1),"
                      " ('5', 'p5', NULL, 0), ('6', 'p6', 'a', 0)");
    assert_ok(postbag__db_open(&s->db, s->t.path, DB_WRITE, DB_NORMAL, 0));
    assert_ok(postbag__lost_open(&s->lost, &s->db, "main"));
    assert_ok(postbag__held_open(&s->h, &s->db, &s->lost));
    *state = s;
    return 0;
}

static inline int tear_down(void **state)
{
    struct shelf *s = *state;

    postbag__arena_free(&s->arena);
    postbag__held_close(&s->h);
    postbag__lost_close(&s->lost);
    postbag__db_close(&s->db);
    tempdb_remove(&s->t);
    free(s);
    return 0;
}

static inline void hold(
    struct shelf *s, int64_t seq, const char *name, int64_t ms)
{
    const struct due due = at(ms);
    const struct hold h = {.state = name,
        .attempts = 1,
        .due = strcmp(name, "retry") == 0 ? &due : NULL,
        .error = "why"};

    assert_ok(postbag__held_hold(&s->h, seq, &h, 77));
}

static inline const char *states(struct shelf *s)
{
    return sql_text(
        s->t.app, "SELECT seq, state, attempts FROM outbox_held ORDER BY seq");
}

#endif
