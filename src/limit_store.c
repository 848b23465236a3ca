/* SPDX-License-Identifier: MIT */
/*
 * Limits become a trigger with literals, as max_payload does (schema.c), so
 * that plain SQL meets them too.  What waits is what was put less what the
 * slowest destination has settled; both are known without a walk.  The row is
 * refused before it exists: only the statement is undone, and the rest of the
 * application's transaction stays.
 */
#include "limit_store.h"

#include <stdio.h>

#include "error.h"

/* ---- the trigger ---- */

/*
 * Terms of the trigger and of the query for how full it is.  `in` is the
 * schema: a trigger names none and stays in its own, a query on the
 * application's connection must not meet its temporary tables.
 */

/* The fewest that a destination has settled. */
#define SETTLED(in, column) \
    "(SELECT min(n) FROM (SELECT sum(" column ") AS n FROM " in \
    "outbox_cursor GROUP BY dest))"

/* Rows put: the log is dense, and its newest row always there. */
#define ROWS_PUT(in) "ifnull((SELECT max(seq) FROM " in "outbox), 0)"

/* Bytes put: the last running total and the few rows after it.  A blob's
 * length is known without reading it; a text must be read. */
#define BYTES_PUT(in) \
    "(SELECT bytes FROM " in "outbox_sum ORDER BY seq DESC LIMIT 1)" \
    " + (SELECT ifnull(sum(length(CAST(topic AS BLOB))" \
    "  + iif(typeof(payload) = 'blob', length(payload)," \
    "        length(CAST(payload AS BLOB)))), 0) FROM " in "outbox" \
    "  WHERE seq > (SELECT max(seq) FROM " in "outbox_sum))"

#define ROWS_WAIT(in) ROWS_PUT(in) " - " SETTLED(in, "settled_rows")
#define BYTES_WAIT(in) BYTES_PUT(in) " - " SETTLED(in, "settled_bytes")

/* db_codes.c knows these texts by their beginning. */
#define FULL " THEN RAISE(ABORT, 'postbag: outbox is full: "

static const char rows_rule[] =
    " WHEN " ROWS_WAIT("") " >= %lu" FULL "max_rows (%lu) messages wait')";
static const char bytes_rule[] =
    " WHEN " BYTES_WAIT("") " >= %lu" FULL "max_bytes (%lu) bytes wait')";

enum { RULE_SIZE = 600, TRIGGER_SIZE = 2 * RULE_SIZE + 100 };

/* The statement that makes the trigger; "" without a limit. */
static void write_trigger(char out[TRIGGER_SIZE], const struct limits *l)
{
    char rows[RULE_SIZE] = "";
    char bytes[RULE_SIZE] = "";

    if (l->max_rows != 0)
        (void)snprintf(rows, sizeof(rows), rows_rule,
            (unsigned long)l->max_rows, (unsigned long)l->max_rows);
    if (l->max_bytes != 0)
        (void)snprintf(bytes, sizeof(bytes), bytes_rule,
            (unsigned long)l->max_bytes, (unsigned long)l->max_bytes);
    out[0] = '\0';
    if (rows[0] != '\0' || bytes[0] != '\0')
        (void)snprintf(out, TRIGGER_SIZE,
            "CREATE TRIGGER outbox_limit BEFORE INSERT ON outbox BEGIN"
            " SELECT CASE%s%s END; END",
            rows, bytes);
}

/* ---- setting them ---- */

/* 1: they are so already.  A library with another rule has another trigger. */
static int is_set(struct db *db, const struct limits *l, const char *trigger)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT ifnull((SELECT sql FROM sqlite_schema"
        "  WHERE type = 'trigger' AND name = 'outbox_limit'), '') = ?1"
        " AND (SELECT value FROM outbox_meta WHERE key = 'max_rows') IS ?2"
        " AND (SELECT value FROM outbox_meta WHERE key = 'max_bytes') IS ?3");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, trigger);
    postbag__bind_i64(&s, 2, l->max_rows);
    postbag__bind_i64(&s, 3, l->max_bytes);
    err = postbag__row(&s);
    if (err == 1)
        err = postbag__col_i64(&s, 0) != 0;
    postbag__finalize(&s);
    return err;
}

static int store(struct db *db, const struct limits *l)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "UPDATE outbox_meta SET value = iif(key = 'max_rows', ?1, ?2)"
        " WHERE key IN ('max_rows', 'max_bytes')");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, l->max_rows);
    postbag__bind_i64(&s, 2, l->max_bytes);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

int postbag__limits_set(struct db *db, const struct limits *l)
{
    char trigger[TRIGGER_SIZE];
    int err;

    write_trigger(trigger, l);
    err = is_set(db, l, trigger);
    if (err != 0)
        return err < 0 ? err : POSTBAG_OK;
    err = postbag__begin(db, DB_FULL);
    if (err != POSTBAG_OK)
        return err;
    err = store(db, l);
    if (err == POSTBAG_OK)
        err = postbag__exec(db, "DROP TRIGGER IF EXISTS outbox_limit");
    if (err == POSTBAG_OK && trigger[0] != '\0')
        err = postbag__exec(db, trigger);
    if (err == POSTBAG_OK)
        return postbag__commit(db);
    postbag__rollback(db);
    return err;
}

int postbag__limits_read(struct db *db, struct limits *out)
{
    int64_t max_rows = 0;
    int64_t max_bytes = 0;
    int err = postbag__query_i64(db,
        "SELECT ifnull((SELECT value FROM outbox_meta"
        " WHERE key = 'max_rows'), 0)",
        &max_rows);

    if (err == POSTBAG_OK)
        err = postbag__query_i64(db,
            "SELECT ifnull((SELECT value FROM outbox_meta"
            " WHERE key = 'max_bytes'), 0)",
            &max_bytes);
    out->max_rows = (uint32_t)max_rows;
    out->max_bytes = (uint32_t)max_bytes;
    return err;
}

/* ---- how full ---- */

#define META(key) "(SELECT value FROM main.outbox_meta WHERE key = '" key "')"

static const char pressure_sql[] = "SELECT " ROWS_WAIT("main.") ", " BYTES_WAIT(
    "main.") ", " META("max_rows") ", " META("max_bytes");

int postbag__pressure_prepare(struct db *db, struct stmt *s)
{
    return postbag__prepare(db, s, pressure_sql);
}

static int64_t fill(int64_t waits, int64_t limit)
{
    return limit == 0 ? 0 : waits * 1000 / limit;
}

int postbag__pressure_read(struct stmt *s, struct postbag_pressure *out)
{
    int err = postbag__row(s);

    if (err != 1)
        return err;
    out->rows = postbag__col_i64(s, 0);
    out->bytes = postbag__col_i64(s, 1);
    out->max_rows = postbag__col_i64(s, 2);
    out->max_bytes = postbag__col_i64(s, 3);
    out->rows_fill = fill(out->rows, out->max_rows);
    out->bytes_fill = fill(out->bytes, out->max_bytes);
    postbag__reset(s);
    return POSTBAG_OK;
}
