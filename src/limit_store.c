/* SPDX-License-Identifier: MIT */
/*
 * Limits become a trigger with literals, as max_payload does (schema.c), so
 * that plain SQL meets them too.  What waits is what was put less what the
 * slowest destination has settled; both are known without a walk.  The row is
 * refused before it exists, or older ones make room for it: only the statement
 * is undone, and the rest of the application's transaction stays.
 */
#include "limit_store.h"

#include <stdio.h>
#include <string.h>

#include "coalesce_store.h"
#include "drop_sql.h"
#include "error.h"
#include "schema.h"

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

#define ROWS_WAIT(in) ROWS_PUT(in) " - " SETTLED(in, "settled_rows")
#define BYTES_WAIT(in) POSTBAG__BYTES_PUT(in) " - " SETTLED(in, "settled_bytes")

/* What NEW brings, and what it replaces, whichever trigger comes first. */
#define NEW_BYTES \
    "(length(CAST(NEW.topic AS BLOB)) + length(CAST(NEW.payload AS BLOB)))"
#define REPLACED(what) \
    "iif(NEW.coalesce IS NULL, 0, (SELECT " what \
    " FROM outbox o WHERE " POSTBAG__REPLACED "))"

/* A put makes room for itself and no more; one larger than its limit gets in
 * when nothing else waits.  bulk_part() in SQL. */
#define NEEDED \
    "min(" NEW_BYTES ", (SELECT iif(NEW.priority > 0, value," \
    "  value - max(value / 8, value > 1)) FROM outbox_meta" \
    " WHERE key = 'max_bytes'))"

/*
 * The oldest bulk rows that no relay has begun with and that have so many
 * bytes together, up to the last of them, CUT.  A few rows are looked at, and
 * only if these are too small, many.  What the rows' condition reads is not
 * what dropping them changes (drop_sql.h).  It has one upper bound, or SQLite
 * may walk up to the other.
 */
#define RESERVED "(SELECT max(sent_hi) FROM outbox_cursor WHERE lane = 0)"
#define MAY_DROP \
    "o.priority = 0 AND o.seq > " RESERVED \
    " AND (NEW.coalesce IS NULL OR o.coalesce IS NOT NEW.coalesce)"
#define CUT_WITHIN(look, bytes) \
    "(SELECT seq FROM (SELECT seq, sum(b) OVER (ORDER BY seq" \
    "  ROWS UNBOUNDED PRECEDING) AS upto FROM (SELECT o.seq," \
    "   iif(" MAY_DROP " AND o.seq < NEW.seq, " DROP_BYTES ", 0) AS b" \
    "   FROM outbox o WHERE o.seq > " RESERVED " ORDER BY o.seq LIMIT " look \
    "))" \
    " WHERE upto >= " bytes " LIMIT 1)"
#define CUT(bytes) \
    "ifnull(" CUT_WITHIN("16", bytes) ", " CUT_WITHIN("10000", bytes) ")"
#define CUT_ONE \
    "(SELECT seq FROM (SELECT o.seq, " MAY_DROP " AND o.seq < NEW.seq AS may" \
    " FROM outbox o WHERE o.seq > " RESERVED " ORDER BY o.seq LIMIT 10000)" \
    " WHERE may LIMIT 1)"
#define OLDEST(cut) MAY_DROP " AND o.seq <= " cut

/* An entry may grow as long as nothing above it was sent: what it then spans
 * was dropped, is of other lanes, or for others. */
#define GROWS \
    "reason = 'limit' AND outbox_lost.hi = (SELECT max(hi)" \
    " FROM outbox_lost x WHERE x.dest = l.name AND x.reason = 'limit'" \
    "  AND x.exact)" \
    " AND outbox_lost.hi < l.lo AND outbox_lost.hi > " RESERVED
#define GREW "reason = 'limit' AND hi = l.hi"
#define DROP_ALL(rows) \
    { \
        DROP_COUNT(rows, "0"), DROP_EXTEND(rows, GROWS), \
            DROP_RECORD(rows, "limit", GREW), DROP_DELETE(rows) \
    }

/* One rule, one trigger. */
struct rule {
    const char *name, *waits, *replaced, *brought; /* terms */
    const char *option, *unit, *no_cut, *drop[4];
};

static const struct rule rules[] = {
    {"outbox_limit_rows", ROWS_WAIT(""), REPLACED("count(*)"), "1", "max_rows",
        "messages", CUT_ONE " IS NULL", DROP_ALL(OLDEST(CUT_ONE))},
    {"outbox_limit_bytes", BYTES_WAIT(""),
        REPLACED("ifnull(sum(" DROP_BYTES "), 0)"), NEW_BYTES, "max_bytes",
        "bytes", CUT(NEEDED) " IS NULL", DROP_ALL(OLDEST(CUT(NEEDED)))},
};
enum { RULES = sizeof(rules) / sizeof(rules[0]), TRIGGER_SIZE = 12000 };

/* What of a limit bulk may take: it leaves an eighth, and at least one, to what
 * is urgent. */
static int64_t bulk_part(int64_t limit)
{
    int64_t urgent = limit / 8;

    if (urgent == 0 && limit > 1)
        urgent = 1;
    return limit - urgent;
}

/* Is so much reached for NEW? */
#define IS_REACHED " >= iif(NEW.priority > 0, %lu, %lu)"

/* db_codes.c knows these texts by their beginning. */
#define FULL \
    "SELECT iif(NEW.priority > 0," \
    " RAISE(ABORT, 'postbag: outbox is full: %s (%lu) %s wait')," \
    " RAISE(ABORT, 'postbag: outbox is full: %s (%lu) %s wait, less an" \
    " eighth that is kept for priority 1 to 3'))"

/* The statement that makes its trigger; "" without a limit.  Before the row
 * exists it is refused; dropping comes after, or the newest row would go. */
static void write_trigger(
    char out[TRIGGER_SIZE], const struct rule *r, uint32_t most, int drops)
{
    unsigned long limit = most;
    unsigned long bulk = (unsigned long)bulk_part(most);

    out[0] = '\0';
    if (limit != 0 && !drops)
        (void)snprintf(out, TRIGGER_SIZE,
            "CREATE TRIGGER %s BEFORE INSERT ON outbox"
            " WHEN %s - %s" IS_REACHED " BEGIN " FULL "; END",
            r->name, r->waits, r->replaced, limit, bulk, r->option, limit,
            r->unit, r->option, limit, r->unit);
    if (limit != 0 && drops)
        (void)snprintf(out, TRIGGER_SIZE,
            "CREATE TRIGGER %s AFTER INSERT ON outbox"
            " WHEN %s - %s - %s" IS_REACHED " BEGIN " FULL
            " WHERE %s; %s%s%s%s END",
            r->name, r->waits, r->replaced, r->brought, limit, bulk, r->option,
            limit, r->unit, r->option, limit, r->unit, r->no_cut, r->drop[0],
            r->drop[1], r->drop[2], r->drop[3]);
}

/* ---- setting them ---- */

static uint32_t limit_of(const struct limits *l, size_t rule)
{
    return rule == 0 ? l->max_rows : l->max_bytes;
}

static const char *overflow_of(const struct limits *l)
{
    return l->drop_oldest ? "drop_oldest" : "reject";
}

int postbag__overflow_parse(const char *name, struct limits *l)
{
    if (name[0] == '\0')
        return POSTBAG_OK;
    l->drop_oldest = strcmp(name, "drop_oldest") == 0;
    return strcmp(name, overflow_of(l)) == 0 ? POSTBAG_OK : POSTBAG_EINVAL;
}

/* 1, 0 or an error.  Another library may have other rules. */
static int has_trigger(struct db *db, const char *name, const char *sql)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT ifnull((SELECT sql FROM sqlite_schema"
        "  WHERE type = 'trigger' AND name = ?1), '') = ?2");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, name);
    postbag__bind_text(&s, 2, sql);
    err = postbag__row(&s);
    if (err == 1)
        err = postbag__col_i64(&s, 0) != 0;
    postbag__finalize(&s);
    return err;
}

static int set_trigger(struct db *db, const char *name, const char *sql)
{
    char drop[80];
    int err;

    (void)snprintf(drop, sizeof(drop), "DROP TRIGGER IF EXISTS %s", name);
    err = postbag__exec(db, drop);
    return err == POSTBAG_OK && sql[0] != '\0' ? postbag__exec(db, sql) : err;
}

static void bind_limits(struct stmt *s, const struct limits *l)
{
    postbag__bind_i64(s, 1, l->max_rows);
    postbag__bind_i64(s, 2, l->max_bytes);
    postbag__bind_text(s, 3, overflow_of(l));
}

static int is_stored(struct db *db, const struct limits *l)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT count(*) = 3 FROM outbox_meta WHERE (key, value) IN (VALUES"
        " ('max_rows', ?1), ('max_bytes', ?2), ('overflow', ?3))");

    if (err != POSTBAG_OK)
        return err;
    bind_limits(&s, l);
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
        "REPLACE INTO outbox_meta(key, value) VALUES"
        " ('max_rows', ?1), ('max_bytes', ?2), ('overflow', ?3)");

    if (err != POSTBAG_OK)
        return err;
    bind_limits(&s, l);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

static int is_set(struct db *db, const struct limits *l)
{
    char sql[TRIGGER_SIZE];
    int err = is_stored(db, l);

    for (size_t i = 0; i < RULES && err == 1; i++) {
        write_trigger(sql, &rules[i], limit_of(l, i), l->drop_oldest);
        err = has_trigger(db, rules[i].name, sql);
    }
    return err;
}

static int set(struct db *db, const struct limits *l)
{
    char sql[TRIGGER_SIZE];
    int err = store(db, l);

    for (size_t i = RULES; i-- > 0 && err == POSTBAG_OK;) {
        write_trigger(sql, &rules[i], limit_of(l, i), l->drop_oldest);
        err = set_trigger(db, rules[i].name, sql);
    }
    return err;
}

int postbag__limits_read(struct db *db, struct limits *out)
{
    int64_t max_rows = 0;
    int64_t max_bytes = 0;
    int64_t drops = 0;
    int err = postbag__query_i64(db,
        "SELECT ifnull((SELECT value FROM outbox_meta"
        " WHERE key = 'max_rows'), 0)",
        &max_rows);

    if (err == POSTBAG_OK)
        err = postbag__query_i64(db,
            "SELECT ifnull((SELECT value FROM outbox_meta"
            " WHERE key = 'max_bytes'), 0)",
            &max_bytes);
    if (err == POSTBAG_OK)
        err = postbag__query_i64(db,
            "SELECT EXISTS (SELECT 1 FROM outbox_meta"
            " WHERE key = 'overflow' AND value = 'drop_oldest')",
            &drops);
    out->max_rows = (uint32_t)max_rows;
    out->max_bytes = (uint32_t)max_bytes;
    out->drop_oldest = drops != 0;
    return err;
}

static uint32_t option(uint32_t given, uint32_t stored)
{
    if (given == 0)
        return stored;
    return given == POSTBAG__NO_LIMIT ? 0 : given;
}

/* As they are, and as the options make them: 1 if that is the same, trigger
 * and all; 0, or an error. */
static int compare(struct db *db, const struct limit_options *options,
    struct limits *was, struct limits *now)
{
    int err = postbag__limits_read(db, was);

    if (err != POSTBAG_OK)
        return err;
    *now = *was;
    now->max_rows = option(options->max_rows, was->max_rows);
    now->max_bytes = option(options->max_bytes, was->max_bytes);
    err = postbag__overflow_parse(options->overflow, now);
    return err == POSTBAG_OK ? is_set(db, now) : err;
}

/* Looked at again once nobody else can change it. */
int postbag__limits_take(struct db *db, const struct limit_options *options,
    struct limits *was, struct limits *now)
{
    int err = compare(db, options, was, now);

    if (err != 0)
        return err < 0 ? err : POSTBAG_OK;
    err = postbag__begin(db, DB_FULL);
    if (err != POSTBAG_OK)
        return err;
    err = compare(db, options, was, now);
    if (err == 0)
        err = set(db, now);
    if (err >= 0)
        return postbag__commit(db);
    postbag__rollback(db);
    return err;
}

int postbag__limits_set(struct db *db, const struct limits *l)
{
    const struct limit_options options = {
        .max_rows = l->max_rows == 0 ? POSTBAG__NO_LIMIT : l->max_rows,
        .max_bytes = l->max_bytes == 0 ? POSTBAG__NO_LIMIT : l->max_bytes,
        .overflow = overflow_of(l),
    };
    struct limits was;
    struct limits now;

    return postbag__limits_take(db, &options, &was, &now);
}

/* ---- how full ---- */

#define META(key) "(SELECT value FROM main.outbox_meta WHERE key = '" key "')"

static const char pressure_sql[] = "SELECT " ROWS_WAIT("main.") ", " BYTES_WAIT(
    "main.") ", " META("max_rows") ", " META("max_bytes");

int postbag__pressure_prepare(struct db *db, struct stmt *s)
{
    return postbag__prepare(db, s, pressure_sql);
}

/* Of what bulk may take: below 1000 every put is taken. */
static int64_t fill(int64_t waits, int64_t limit)
{
    return limit == 0 ? 0 : waits * 1000 / bulk_part(limit);
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
