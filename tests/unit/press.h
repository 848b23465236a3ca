/* SPDX-License-Identifier: MIT */
/* A row put by plain SQL, and the frame that the envelope makes of it. */
#ifndef POSTBAG_TESTS_PRESS_H
#define POSTBAG_TESTS_PRESS_H

#include <sqlite3.h>
#include <stdlib.h>

#include "envelope.h"
#include "outbox_store.h"
#include "tempdb.h"
#include "unit.h"

struct press {
    struct tempdb t;
    struct db db;
    struct envelope e;
    int is_open;
    struct arena arena;
    struct row row;
    struct postbag_frame f;
    struct moment now; /* zeros: no clock was ever set */
};

static inline int press_set_up(void **state)
{
    struct press *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    tempdb_make_outbox(&p->t);
    sql_run(p->t.app, "UPDATE outbox_meta SET"
                      " value = x'000102030405060708090a0b0c0d0e0f'"
                      " WHERE key = 'stream'");
    assert_ok(postbag__db_open(&p->db, p->t.path, DB_WRITE, DB_NORMAL, 0));
    *state = p;
    return 0;
}

static inline int press_tear_down(void **state)
{
    struct press *p = *state;

    postbag__envelope_close(&p->e);
    postbag__arena_free(&p->arena);
    postbag__db_close(&p->db);
    tempdb_remove(&p->t);
    free(p);
    return 0;
}

/* Build the frame of the row that these columns make. */
static inline int press_build(struct press *p, enum envelope_kind kind,
    unsigned version, const char *columns, const char *values)
{
    struct outbox_store o;
    int err;

    if (p->is_open)
        postbag__envelope_close(&p->e);
    assert_ok(postbag__envelope_open(&p->e, &p->db, kind, "/gw/7"));
    p->is_open = 1;
    sql_run(p->t.app,
        "INSERT INTO outbox(id, created_ms, %s) VALUES"
        " (x'00112233445546778899aabbccddeeff', 1800000000125,"
        " %s)",
        columns, values);
    assert_ok(postbag__outbox_open(&o, &p->db, "main"));
    assert_ok(postbag__outbox_fetch(&o,
        sql_get(p->t.app, "SELECT max(seq) FROM outbox"), &p->arena, &p->row));
    err = postbag__envelope_build(&p->e, &p->row, version, &p->now, &p->f);
    postbag__outbox_close(&o);
    return err;
}

static inline void press_ok(struct press *p, enum envelope_kind kind,
    unsigned version, const char *columns, const char *values)
{
    if (press_build(p, kind, version, columns, values) != POSTBAG_OK)
        fail_msg("%s", p->db.fault.text);
}

#define PRESS(name) \
    cmocka_unit_test_setup_teardown(name, press_set_up, press_tear_down)

#endif
