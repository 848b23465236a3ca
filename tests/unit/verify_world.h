/* SPDX-License-Identifier: MIT */
/*
 * A database with all that may be in one is sound; spoiled in one place, the
 * finding says which.
 */
#ifndef POSTBAG_TESTS_VERIFY_WORLD_H
#define POSTBAG_TESTS_VERIFY_WORLD_H

#include "limit_store.h"
#include "profile.h"
#include "profile_store.h"
#include "schema.h"
#include "tempdb.h"
#include "unit.h"
#include "verify.h"

struct world {
    struct tempdb t;
    struct db db;
    char found[4096]; /* "check dest: text", each with a line feed */
    int count, stop_with;
};

/* Two destinations: rows in flight, refused ones, dead ones, dropped ones
 * below and above the cursors, urgent ones, and a purged low end. */
static const char sound[] =
    "INSERT INTO outbox(topic, payload, key, priority, dest)"
    " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
    "  SELECT i + 1 FROM n WHERE i < 600)"
    " SELECT 't', iif(i = 560, zeroblob(5000), 'xyz'),"
    "  iif(i BETWEEN 20 AND 23, 'k', NULL), iif(i IN (50, 550), 2, 0),"
    "  iif(i = 30, 'main', NULL) FROM n;"
    "INSERT INTO outbox_held(dest, seq, state, attempts, error, dead_ms, id,"
    "  topic, payload, key, priority, retain, created_ms)"
    " SELECT 'main', seq, iif(seq = 20, 'retry', iif(seq = 22, 'dead',"
    "  'behind')), 1, 'why', iif(seq = 22, 1, NULL), id, topic, payload, key,"
    "  priority, retain, created_ms FROM outbox WHERE seq BETWEEN 20 AND 23;"
    "UPDATE outbox_cursor SET acked = 300, sent_hi = 400, settled_rows = 301,"
    " settled_bytes = 1200, delivered = 292, dropped = 5"
    " WHERE dest = 'main' AND lane = 0;"
    "UPDATE outbox_cursor SET acked = 150, sent_hi = 200, settled_rows = 151,"
    " settled_bytes = 600, delivered = 148, dropped = 2, passed = 1"
    " WHERE dest = 'cloud' AND lane = 0;"
    "UPDATE outbox_cursor SET acked = 100, sent_hi = 100, settled_rows = 1,"
    " settled_bytes = 4, delivered = 1 WHERE lane = 2;"
    "INSERT INTO outbox_lost VALUES ('main', 10, 12, 3, 12, 'ttl', 1, 1),"
    " ('main', 500, 500, 1, 4, 'limit', 1, 1),"
    " ('main', 580, 580, 1, 4, 'limit', 1, 1),"
    " ('cloud', 500, 500, 1, 4, 'limit', 1, 1),"
    " ('cloud', 580, 580, 1, 4, 'limit', 1, 1);"
    "DELETE FROM outbox WHERE seq <= 100 OR seq IN (500, 580);"
    "INSERT INTO outbox_acks(dest, lane, upto, at_ms)"
    " VALUES ('main', 0, 300, 1);"
    "INSERT INTO outbox_late VALUES ('main', 0, 299, 1, 2);"
    "INSERT INTO outbox_seen VALUES ('main', 0, 600, zeroblob(16), 1, 1);"
    "UPDATE outbox_dest SET owner = zeroblob(16), boot = zeroblob(16),"
    " lease_until = 5, epoch = 3, archived = 150 WHERE name = 'main';"
    "UPDATE outbox_held SET due_boot = zeroblob(16), due_ms = 7, revived = 1,"
    " headers = '{\"a\":1}' WHERE seq = 20;"
    "INSERT INTO inbox(consumer, id, state, received_ms, processed_ms,"
    "  content_hash)"
    " SELECT 'c', column1, column2, 1, column3, zeroblob(32)"
    "  FROM (VALUES ('1', 'due', NULL), ('2', 'done', 2), ('3', 'dead', NULL),"
    "  (x'04', 'dead', 2));";

static inline void run(struct world *w, const char *sql)
{
    sql_run(w->t.app, "%s", sql);
}

/* Copy a row of the log to the held rows of main. */
#define HOLD(seq) \
    "INSERT INTO outbox_held(dest, seq, state, id, topic, payload, priority," \
    " retain, created_ms) SELECT 'main', seq, 'retry', id, topic, payload," \
    " priority, retain, created_ms FROM outbox WHERE seq = " seq

static inline int set_up(void **state)
{
    static struct world w;
    const struct limits limits = {.max_rows = 1000};

    memset(&w, 0, sizeof(w));
    tempdb_make_outbox(&w.t);
    /* the application's: what it has not committed is seen */
    assert_ok(postbag__db_borrow(&w.db, w.t.app));
    assert_ok(postbag__schema_add_dest(&w.db, "cloud"));
    assert_ok(postbag__limits_set(&w.db, &limits));
    assert_ok(postbag__profile_set(&w.db, "main", postbag_profile_find("aws")));
    run(&w, sound);
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

static inline int note(
    void *ctx, const char *check, const char *dest, const char *text)
{
    struct world *w = ctx;
    size_t used = strlen(w->found);

    (void)snprintf(w->found + used, sizeof(w->found) - used, "%s%s%s: %s\n",
        check, dest == NULL ? "" : " ", dest == NULL ? "" : dest, text);
    w->count++;
    return w->stop_with;
}

static inline int verify(struct world *w)
{
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .ctx = w, .finding = note};

    w->found[0] = '\0';
    w->count = 0;
    return postbag__verify(&w->db, &v);
}

static inline void assert_sound(struct world *w)
{
    assert_ok(verify(w));
    assert_string_equal(w->found, "");
}

/* What spoils it, a finding, and how many there are. */
struct spoiling {
    const char *sql, *finding;
    int count;
};

static inline void assert_found(struct world *w, const struct spoiling *s)
{
    assert_ok(verify(w));
    if (strstr(w->found, s->finding) == NULL || w->count != s->count)
        fail_msg("%s:\n%s", s->sql, w->found);
}

#define CHECK_ALL(w, list) check_all(w, list, COUNT(list))

/* Each is rolled back. */
static inline void check_all(
    struct world *w, const struct spoiling *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        run(w, "BEGIN");
        run(w, all[i].sql);
        assert_found(w, &all[i]);
        run(w, "ROLLBACK");
    }
    assert_sound(w);
}

#endif
