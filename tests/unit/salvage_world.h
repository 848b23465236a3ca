/* SPDX-License-Identifier: MIT */
/* A database to be damaged, and the new one that is made of it. */
#ifndef POSTBAG_TESTS_SALVAGE_WORLD_H
#define POSTBAG_TESTS_SALVAGE_WORLD_H

#include <sqlite3.h>
#include <stdlib.h>

#include "postbag/care.h"
#include "sim_port.h"
#include "tempdb.h"
#include "unit.h"

struct world {
    struct tempdb t; /* app is closed before the damage is done */
    struct sim_port sim;
    char saved[160];
    struct sqlite3 *out; /* the new one */
    char told[4096];     /* what the callbacks were told */
    struct postbag_salvaged s;
    struct postbag_fault why;
};

static inline int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    tempdb_make_outbox(&w->t);
    sim_port_init(&w->sim);
    (void)snprintf(w->saved, sizeof(w->saved), "%s/saved", w->t.folder);
    *state = w;
    return 0;
}

static inline int tear_down(void **state)
{
    struct world *w = *state;

    (void)sqlite3_close(w->out);
    tempdb_remove(&w->t);
    free(w);
    return 0;
}

/* All of it in the one file, and nobody has it open. */
static inline void settle_file(struct world *w)
{
    sql_run(w->t.app, "PRAGMA wal_checkpoint(TRUNCATE)");
    (void)sqlite3_close(w->t.app);
    w->t.app = NULL;
}

/* The leaf of a table that has its n-th row, from 1 on. */
static inline uint32_t leaf_of(struct world *w, const char *table, int64_t n)
{
    return (uint32_t)sql_get(w->t.app,
        "SELECT pageno FROM (SELECT *, sum(ncell) OVER (ORDER BY path) AS upto"
        " FROM dbstat WHERE name = '%s' AND pagetype = 'leaf')"
        " WHERE upto - ncell < %lld AND upto >= %lld",
        table, (long long)n, (long long)n);
}

/* Pages of 4096 bytes.  from 0: zeros. */
static inline void overwrite_page(struct world *w, uint32_t page, uint32_t from)
{
    FILE *f = fopen(w->t.path, "r+b");
    char bytes[4096] = {0};

    assert_non_null(f);
    if (from != 0) {
        assert_int_equal(fseek(f, (long)(from - 1) * 4096, SEEK_SET), 0);
        assert_int_equal(fread(bytes, 1, 4096, f), 4096);
    }
    assert_int_equal(fseek(f, (long)(page - 1) * 4096, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, 4096, f), 4096);
    assert_int_equal(fclose(f), 0);
}

static inline void tell(struct world *w, const char *line)
{
    size_t len = strlen(w->told);

    (void)snprintf(w->told + len, sizeof(w->told) - len, "%s\n", line);
}

static inline int tell_lost(
    void *ctx, const char *table, int64_t lo, int64_t hi)
{
    char line[160];

    (void)snprintf(line, sizeof(line), "lost of %s: %lld to %lld", table,
        (long long)lo, (long long)hi);
    tell(ctx, line);
    return 0;
}

static inline int tell_left_out(
    void *ctx, const char *kind, const char *name, const char *why)
{
    char line[400];

    (void)snprintf(line, sizeof(line), "left out: %s %s: %s", kind, name, why);
    tell(ctx, line);
    return 0;
}

static inline int salvage_with(
    struct world *w, const struct postbag_salvage *how)
{
    const struct postbag_admin_config c = {
        .struct_size = sizeof(c), .db_path = w->t.path, .port = &w->sim.port};

    w->s.struct_size = sizeof(w->s);
    return postbag_admin_salvage(&c, how, &w->s, &w->why);
}

static inline int salvage(struct world *w)
{
    const struct postbag_salvage how = {.struct_size = sizeof(how),
        .to = w->saved,
        .ctx = w,
        .lost = tell_lost,
        .left_out = tell_left_out};
    int err = salvage_with(w, &how);

    if (err == POSTBAG_OK)
        assert_int_equal(sqlite3_open(w->saved, &w->out), SQLITE_OK);
    return err;
}

static inline int unsound(
    void *ctx, const char *check, const char *dest, const char *text)
{
    (void)ctx;
    fail_msg("%s %s: %s", check, dest == NULL ? "" : dest, text);
    return 0;
}

static inline void assert_saved_is_sound(struct world *w)
{
    const struct postbag_admin_config c = {
        .struct_size = sizeof(c), .db_path = w->saved, .port = &w->sim.port};
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .finding = unsound};
    struct postbag_admin *a;

    assert_ok(postbag_admin_open(&a, &c, NULL));
    assert_ok(postbag_admin_verify(a, &v));
    postbag_admin_close(a);
}

/* n messages of 100 bytes, and nothing else: some forty a page. */
static inline void put_messages(struct world *w, int n)
{
    sql_run(w->t.app,
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c"
        " WHERE i < %d) INSERT INTO outbox(topic, payload, key)"
        " SELECT 't/' || i, printf('%%100d', i), 'k' || i %% 3 FROM c",
        n);
}

#endif
