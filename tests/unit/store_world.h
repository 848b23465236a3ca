/* SPDX-License-Identifier: MIT */
/* A database with our tables, and a store's own connection to it. */
#ifndef POSTBAG_TESTS_STORE_WORLD_H
#define POSTBAG_TESTS_STORE_WORLD_H

#include "db.h"
#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"

struct world {
    struct tempdb t;
    struct sim_port sim;
    struct db db;
};

static inline struct world *world_open(void **state)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    tempdb_make_outbox(&w.t);
    sim_port_init(&w.sim);
    assert_ok(postbag__db_open(&w.db, w.t.path, DB_WRITE, DB_NORMAL, 0));
    *state = &w;
    return &w;
}

static inline int world_close(void **state)
{
    struct world *w = *state;

    postbag__db_close(&w->db);
    tempdb_remove(&w->t);
    return 0;
}

#endif
