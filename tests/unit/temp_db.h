/* SPDX-License-Identifier: MIT */
/*
 * A fresh database with our tables in a folder of its own, for tests of the
 * stores.  What the test writes itself it writes in plain SQL.
 */
#ifndef POSTBAG_TESTS_TEMP_DB_H
#define POSTBAG_TESTS_TEMP_DB_H

#include <stdlib.h>
#include <unistd.h>

#include "db.h"
#include "schema.h"
#include "tempdb.h"
#include "unit.h"

struct temp_db {
    struct tempdb file;
    const char *path;
    struct db db;
};

static inline void temp_db_open(struct temp_db *t)
{
    tempdb_make(&t->file);
    t->path = t->file.path;
    assert_ok(postbag__db_open(&t->db, t->path, DB_CREATE, DB_NORMAL, 1000));
    assert_ok(postbag__schema_ensure(&t->db, 0));
    /* the test writes as an application does, on SQLite's default */
    assert_ok(postbag__exec(&t->db, "PRAGMA trusted_schema=ON"));
}

static inline void temp_db_close(struct temp_db *t)
{
    postbag__db_close(&t->db);
    tempdb_remove(&t->file);
}

static inline void temp_db_run(struct temp_db *t, const char *sql)
{
    if (postbag__exec(&t->db, sql) != POSTBAG_OK)
        fail_msg("%s: %s", sql, t->db.fault.text);
}

/* The one number of a query. */
static inline int64_t temp_db_get(struct temp_db *t, const char *sql)
{
    int64_t n = -1;

    if (postbag__query_i64(&t->db, sql, &n) != POSTBAG_OK)
        fail_msg("%s: %s", sql, t->db.fault.text);
    return n;
}

/* Put n messages with a payload of 10 bytes. */
static inline void temp_db_put(struct temp_db *t, int n, int priority)
{
    char sql[256];

    (void)snprintf(sql, sizeof(sql),
        "INSERT INTO outbox(topic, payload, priority)"
        " WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL"
        "  SELECT i + 1 FROM n WHERE i < %d)"
        " SELECT 't/' || i, '0123456789', %d FROM n",
        n, priority);
    temp_db_run(t, sql);
}

/* What the relay writes when a destination has settled a lane up to seq. */
static inline void temp_db_settle(
    struct temp_db *t, const char *dest, int lane, int64_t seq)
{
    char sql[256];

    (void)snprintf(sql, sizeof(sql),
        "UPDATE outbox_cursor SET acked = %lld, sent_hi = max(sent_hi, %lld)"
        " WHERE dest = '%s' AND lane = %d",
        (long long)seq, (long long)seq, dest, lane);
    temp_db_run(t, sql);
}

/* Every lane of the destination. */
static inline void temp_db_settle_all(
    struct temp_db *t, const char *dest, int64_t seq)
{
    for (int lane = 0; lane < 4; lane++)
        temp_db_settle(t, dest, lane, seq);
}

/* Copy a row of the log to the held rows of main. */
static inline void temp_db_hold(
    struct temp_db *t, int64_t seq, const char *state)
{
    char sql[512];

    (void)snprintf(sql, sizeof(sql),
        "INSERT INTO outbox_held(dest, seq, state, attempts, error, due_boot,"
        "  due_ms, dead_ms, id, topic, payload, key, priority, retain,"
        "  created_ms)"
        " SELECT 'main', seq, '%s', 5, 'refused: 0x87', zeroblob(16), 9, 8,"
        "  id, topic, payload, key, priority, retain, created_ms FROM outbox"
        " WHERE seq = %lld",
        state, (long long)seq);
    temp_db_run(t, sql);
}

#endif
