/* SPDX-License-Identifier: MIT */
/* Held rows by plain SQL, for what operators do to them. */
#ifndef POSTBAG_TESTS_HELD_ROWS_H
#define POSTBAG_TESTS_HELD_ROWS_H

#include "store_world.h"

static inline int set_up(void **state)
{
    sql_run(world_open(state)->t.app, "UPDATE outbox_cursor SET acked = 9");
    return 0;
}

static inline int tear_down(void **state)
{
    return world_close(state);
}

/* A held row; its id is its seq in each byte.  key "" is none. */
static inline void hold(struct world *w, const char *dest, int seq,
    const char *state, const char *key, int priority)
{
    sql_run(w->t.app,
        "INSERT INTO outbox_held(dest, seq, state, attempts, due_boot, due_ms,"
        " dead_ms, deaths, error, id, topic, payload, key, priority, retain,"
        " created_ms) VALUES ('%s', %d, '%s', 5, zeroblob(16), 9, 8, 17, 'why',"
        " CAST(replace(hex(zeroblob(8)), '0', char(%d)) AS BLOB), 't', 'xyz', "
        "nullif('%s', ''), %d, 0, 1)",
        dest, seq, state, seq, key, priority);
}

/* "1|retry 2|dead", of destination main. */
static inline const char *states(struct world *w)
{
    return sql_text(w->t.app, "SELECT seq, state FROM outbox_held"
                              " WHERE dest = 'main' ORDER BY seq");
}

#endif
