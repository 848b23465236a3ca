/* SPDX-License-Identifier: MIT */
/* A writer that takes requests, and a table that shows their effects. */
#ifndef POSTBAG_TESTS_CLAIM_DESK_H
#define POSTBAG_TESTS_CLAIM_DESK_H

#include <sqlite3.h>
#include <stdlib.h>

#include "postbag/claim.h"
#include "postbag/linux.h"
#include "sound.h"
#include "tempdb.h"
#include "unit.h"

struct desk {
    struct tempdb t;
    struct sqlite3 *db;
    struct postbag_writer *w;
    struct postbag_claim claim; /* the last one */
};

static inline void desk_connect(struct desk *d)
{
    struct postbag_writer_config c = {
        .struct_size = sizeof(c), .port = postbag_linux_port()};
    struct postbag_fault why = {0};

    d->db = tempdb_connect(&d->t);
    (void)sqlite3_busy_timeout(d->db, 60000);
    c.db = d->db;
    if (postbag_writer_open(&d->w, &c, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
}

static inline void desk_leave(struct desk *d)
{
    postbag_writer_close(d->w);
    (void)sqlite3_close(d->db);
}

static inline void desk_make(struct desk *d)
{
    tempdb_make_outbox(&d->t);
    sql_run(d->t.app, "CREATE TABLE effect(id)");
    (void)sqlite3_close(d->t.app);
    d->t.app = NULL;
}

static inline int desk_claim(
    struct desk *d, const char *id, const char *content)
{
    const struct postbag_request r = {.struct_size = sizeof(r),
        .consumer = "http",
        .id = id,
        .id_len = strlen(id),
        .content = content,
        .content_len = strlen(content)};

    memset(&d->claim, 0, sizeof(d->claim));
    d->claim.struct_size = sizeof(d->claim);
    return postbag_inbox_claim(d->w, &r, &d->claim);
}

/* What it is to whoever claims it now. */
static inline int desk_look(struct desk *d, const char *id, const char *content)
{
    assert_ok(postbag_begin(d->w));
    assert_ok(desk_claim(d, id, content));
    assert_ok(postbag_commit(d->w));
    return d->claim.is;
}

static inline void desk_act(struct desk *d, const char *id)
{
    sql_run(d->db, "INSERT INTO effect VALUES ('%s')", id);
}

static inline int64_t desk_effects(struct desk *d)
{
    return sql_get(d->db, "SELECT count(*) FROM effect");
}

/* A request as it should be served, up to the COMMIT; the claim's answer. */
static inline int desk_serve(struct desk *d, const char *id)
{
    assert_ok(postbag_begin(d->w));
    assert_ok(desk_claim(d, id, "open"));
    if (d->claim.is == POSTBAG_CLAIM_NEW) {
        desk_act(d, id);
        assert_ok(postbag_inbox_finish(d->w, d->claim.arrival, "201", 3));
    }
    return d->claim.is;
}

/* A desk for one test; what is left of it is sound. */
static inline int desk_set_up(void **state)
{
    struct desk *d = calloc(1, sizeof(*d));

    assert_non_null(d);
    desk_make(d);
    desk_connect(d);
    *state = d;
    return 0;
}

static inline int desk_tear_down(void **state)
{
    struct desk *d = *state;

    assert_sound(&d->t);
    desk_leave(d);
    tempdb_remove(&d->t);
    free(d);
    return 0;
}

#define DESK(name) \
    cmocka_unit_test_setup_teardown(name, desk_set_up, desk_tear_down)

#endif
