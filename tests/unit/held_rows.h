/* SPDX-License-Identifier: MIT */
/* Held rows by plain SQL, for what operators do to them. */
#ifndef POSTBAG_TESTS_HELD_ROWS_H
#define POSTBAG_TESTS_HELD_ROWS_H

#include "db.h"
#include "tempdb.h"
#include "unit.h"

struct world {
    struct tempdb t;
    struct db db;
};

static inline int set_up(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    tempdb_make_outbox(&w.t);
    sql_run(w.t.app, "UPDATE outbox_cursor SET acked = 9");
    assert_ok(postbag__db_open(&w.db, w.t.path, DB_WRITE, DB_NORMAL, 0));
    *state = &w;
    return 0;
}

static inline int tear_down(void **state)
{
    struct world *w = *state;

    postbag__db_close(&w->db);
    tempdb_remove(&w->t);
    return 0;
}

/* A held row; its id is its seq in each byte.  key "" is none. */
static inline void hold(struct world *w, const char *dest, int seq,
    const char *state, const char *key, int priority)
{
    sql_run(w->t.app,
        "INSERT INTO outbox_held(dest, seq, state, attempts, due_boot, due_ms,"
        " dead_ms, error, id, topic, payload, key, priority, retain,"
        " created_ms) VALUES ('%s', %d, '%s', 5, zeroblob(16), 9, 8, 'why',"
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
