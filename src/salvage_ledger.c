/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Our tables as they came out of a damaged database, made to fit each
 * other.  The numbers of before are not carried over: what was settled and is
 * not there counts as passed.  A cursor that is missing begins at the
 * beginning: what was sent may be sent again, with its id.
 */
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "lost_store.h"
#include "row.h"
#include "salvage.h"
#include "verify.h"

#define PUT VERIFY_PUT
#define BYTES(t) \
    "length(CAST(" t ".topic AS BLOB)) + length(CAST(" t ".payload AS BLOB))"
#define SUM_BYTES(t, when) \
    "ifnull((SELECT sum(" BYTES(t) ") FROM outbox_held " t " WHERE " when \
                                   "), 0)"
#define OF_LANE "t.dest = outbox_cursor.dest AND t.priority = lane"
#define OTHER_MESSAGE \
    "o.id <> h.id OR o.priority <> h.priority OR o.key IS NOT h.key" \
    " OR ifnull(o.dest <> h.dest, 0)"
#define OLDER_LIVE \
    "EXISTS (SELECT 1 FROM outbox_held e WHERE e.dest = outbox_held.dest" \
    " AND e.key = outbox_held.key AND e.priority = outbox_held.priority" \
    " AND e.seq < outbox_held.seq AND e.state <> 'dead')"
/* Of all lanes; the columns of the cursor are of lane 0. */
#define ABOVE(what) \
    "ifnull((SELECT sum(" what ") FROM outbox_cursor c JOIN outbox o" \
    " ON o.priority = c.lane AND o.seq > c.acked" \
    " WHERE c.dest = outbox_cursor.dest), 0)"
#define HELD(which) \
    "(SELECT count(*) FROM outbox_held t JOIN outbox_cursor c" \
    " ON c.dest = t.dest AND c.lane = t.priority" \
    " WHERE t.dest = outbox_cursor.dest AND " which ")"

/* ---- destinations and their cursors ---- */

/* A name that stands in a row of another table is one if the list of them has
 * a hole. */
static const char *const unlisted_dests[] = {
    "INSERT OR IGNORE INTO outbox_dest(name) SELECT dest FROM outbox_cursor",
    "INSERT OR IGNORE INTO outbox_dest(name) SELECT dest FROM outbox_held",
};

static const char *const cursors[] = {
    "DELETE FROM outbox_dest WHERE name GLOB '*[^-A-Za-z0-9_.]*'"
    " OR length(name) NOT BETWEEN 1 AND 64",
    "INSERT INTO outbox_dest(name) SELECT 'main'"
    " WHERE NOT EXISTS (SELECT 1 FROM outbox_dest)",
    /* the end of the log may be readable here only */
    "INSERT OR IGNORE INTO outbox(seq, dest, " ROW_COLUMNS ")"
    " SELECT seq, dest, " ROW_COLUMNS " FROM outbox_held WHERE seq > " PUT,
    "UPDATE outbox_dest SET epoch = max(epoch, 0) + 1, owner = NULL,"
    " boot = NULL, lease_until = NULL, profile = NULL, archived = 0,"
    " first_seq = max(1, min(first_seq, 1 + " PUT "))",
    "CREATE TEMP TABLE lanes AS SELECT d.name, l.column1 AS lane,"
    "  max(d.first_seq - 1, min(ifnull(c.acked, 0), " PUT ")) AS acked,"
    "  min(ifnull(c.sent_hi, 0), 2000 + " PUT ") AS sent_hi,"
    "  max(ifnull(c.held_rows, 0), 0) + max(ifnull(c.dead_rows, 0), 0) AS held"
    "  FROM outbox_dest d JOIN (VALUES (0), (1), (2), (3)) l"
    "  LEFT JOIN outbox_cursor c ON c.dest = d.name AND c.lane = l.column1",
    "DELETE FROM outbox_cursor",
    "INSERT INTO outbox_cursor(dest, lane, acked, sent_hi)"
    " SELECT name, lane, acked, max(acked, sent_hi) FROM temp.lanes",
};

/* ---- what is held, and what of the log is settled ---- */

static const char *const rows[] = {
    "DELETE FROM outbox_held WHERE dest NOT IN (SELECT name FROM outbox_dest)"
    " OR seq > " PUT,
    /* settled for everybody, and what an archive would still take */
    "DELETE FROM outbox WHERE seq < " PUT
    " AND NOT EXISTS (SELECT 1 FROM outbox_cursor c WHERE c.lane = priority"
    "  AND c.acked < seq AND (outbox.dest IS NULL OR outbox.dest = c.dest))",
    "DELETE FROM outbox WHERE seq < " PUT
    " AND EXISTS (SELECT 1 FROM outbox_held h, outbox o"
    "  WHERE o.seq = outbox.seq AND h.seq = o.seq AND (" OTHER_MESSAGE "))",
    "DELETE FROM outbox_held AS h WHERE EXISTS (SELECT 1 FROM outbox o"
    " WHERE o.seq = h.seq AND (" OTHER_MESSAGE "))",
    "INSERT OR IGNORE INTO outbox(seq, dest, " ROW_COLUMNS ")"
    " SELECT seq, iif((SELECT count(*) FROM outbox_held o"
    "  WHERE o.seq = h.seq) > 1, NULL, dest), " ROW_COLUMNS
    " FROM outbox_held h WHERE seq > (SELECT acked FROM outbox_cursor c"
    "  WHERE c.dest = h.dest AND c.lane = h.priority)",
    "UPDATE outbox_held SET attempts = max(attempts, 0), due_boot = NULL,"
    " due_ms = NULL, error = substr(error, 1, 50), revived = NULL,"
    " deaths = max(deaths, 0), replay = replay <> 0,"
    " dead_ms = iif(state = 'dead', ifnull(dead_ms, created_ms), NULL)",
    "UPDATE outbox_held AS h SET replay = 0 WHERE seq > (SELECT acked"
    " FROM outbox_cursor c WHERE c.dest = h.dest AND c.lane = h.priority)",
    "UPDATE outbox_held SET state = iif(" OLDER_LIVE ", 'behind', 'retry')"
    " WHERE state <> 'dead'",
};

/* ---- the counters ---- */

static const char *const counters[] = {
    "INSERT INTO outbox_sum SELECT " PUT
    ", ifnull(sum(" BYTES("o") "), 0) FROM outbox o",
    "UPDATE outbox_cursor SET"
    " sent_hi = max(sent_hi, ifnull((SELECT max(t.seq) FROM outbox_held t"
    "  WHERE " OF_LANE "), 0)),"
    " held_rows = (SELECT count(*) FROM outbox_held t WHERE " OF_LANE
    "  AND t.state <> 'dead'),"
    " held_bytes = " SUM_BYTES("t",
        OF_LANE " AND t.state <> 'dead'") ","
                                          " dead_rows = (SELECT count(*) FROM "
                                          "outbox_held t WHERE " OF_LANE
                                          "  AND t.state = 'dead'),"
                                          " dead_bytes = " SUM_BYTES("t",
                                              OF_LANE " AND t.state = 'dead'"),
    /* a counter that is there for the whole of a destination */
    "UPDATE outbox_cursor SET"
    " settled_rows = " PUT " - " ABOVE(
        "1") ","
             " settled_bytes = (SELECT bytes FROM outbox_sum) - " ABOVE(BYTES(
                 "o")) ","
                       " replayed = " HELD(
                           "t.replay <> 0") ","
                                            " passed = " PUT
                                            " - " ABOVE("1") " - " HELD(
                                                "t.seq <= c.acked AND t.replay "
                                                "= 0") " WHERE lane = 0",
};

/* ---- the inbox ---- */

static const char *const inbox[] = {
    "DELETE FROM inbox WHERE arrival < 1 OR typeof(id) NOT IN ('text', 'blob')"
    " OR attempts < 0 OR seen < 1",
    "UPDATE inbox SET processed_ms = NULL"
    " WHERE state IN ('due', 'deferred', 'claimed')"
    "  AND processed_ms IS NOT NULL",
    "UPDATE inbox SET processed_ms = received_ms"
    " WHERE state = 'done' AND processed_ms IS NULL",
    "DELETE FROM inbox_key AS k WHERE NOT EXISTS (SELECT 1 FROM inbox i"
    "  WHERE i.arrival = k.arrival AND i.consumer = k.consumer"
    "  AND i.key = k.key AND i.key_version = k.last_version"
    "  AND i.state <> 'deferred')"
    " AND (k.arrival IN (SELECT arrival FROM inbox)"
    "  OR NOT EXISTS (SELECT 1 FROM inbox i WHERE i.consumer = k.consumer"
    "   AND i.key = k.key AND i.state = 'deferred'))",
    "DELETE FROM inbox_sum WHERE min(max_rows, max_bytes, forgotten) < 0",
    "INSERT OR IGNORE INTO inbox_sum(only) VALUES (1)",
    "UPDATE inbox_sum SET (open_rows, open_bytes, done_rows) = (SELECT"
    " count(*) FILTER (WHERE state NOT IN ('done', 'dead')),"
    " ifnull(sum(ifnull(length(CAST(payload AS BLOB)), 0)"
    "  + ifnull(length(CAST(headers AS BLOB)), 0))"
    "  FILTER (WHERE state NOT IN ('done', 'dead')), 0),"
    " count(*) FILTER (WHERE state = 'done') FROM inbox)",
};

/* ---- rows that are none ---- */

static int delete_wrong(struct salvage *s, const char *table, const char *when)
{
    char sql[4096];
    int err;

    (void)snprintf(sql, sizeof(sql),
        "INSERT INTO temp.gone SELECT seq, seq FROM %s WHERE %s", table, when);
    err = strcmp(table, "outbox") == 0 ? postbag__exec(s->to, sql) : POSTBAG_OK;
    (void)snprintf(sql, sizeof(sql), "DELETE FROM %s WHERE %s", table, when);
    if (err == POSTBAG_OK)
        err = postbag__exec(s->to, sql);
    if (err != POSTBAG_OK || postbag__changes(s->to) == 0)
        return err;
    s->out->damaged += postbag__changes(s->to);
    if (strcmp(table, "outbox") == 0)
        s->log_is_whole = 0;
    else
        s->held_is_whole = 0;
    return POSTBAG_OK;
}

/* First what is no JSON, of which nothing more can be asked. */
static int delete_all_wrong(struct salvage *s, const char *table)
{
    char when[VERIFY_NO_MESSAGE];
    int err =
        delete_wrong(s, table, "headers NOT NULL AND NOT json_valid(headers)");

    postbag__verify_no_message(when);
    return err == POSTBAG_OK ? delete_wrong(s, table, when) : err;
}

int postbag__salvage_ledger(struct salvage *s)
{
    int err = delete_all_wrong(s, "outbox");

    if (err == POSTBAG_OK)
        err = delete_all_wrong(s, "outbox_held");
    if (err == POSTBAG_OK && !s->dests_are_whole)
        err = POSTBAG__EXEC_ALL(s->to, unlisted_dests);
    if (err == POSTBAG_OK)
        err = POSTBAG__EXEC_ALL(s->to, cursors);
    if (err == POSTBAG_OK)
        err = POSTBAG__EXEC_ALL(s->to, rows);
    if (err == POSTBAG_OK)
        err = POSTBAG__EXEC_ALL(s->to, counters);
    return err == POSTBAG_OK ? POSTBAG__EXEC_ALL(s->to, inbox) : err;
}

/* ---- what is lost ---- */

/* Rows that were dropped before are named by the damaged database. */
static int read_known(struct salvage *s)
{
    struct stmt from;
    struct stmt to = {0};
    int err =
        postbag__exec(s->to, "CREATE TEMP TABLE known(lo INTEGER, hi INTEGER)");

    if (err == POSTBAG_OK)
        err = postbag__prepare(
            s->to, &to, "INSERT INTO temp.known VALUES (?1, ?2)");
    if (err != POSTBAG_OK)
        return err;
    if (postbag__prepare(s->from, &from,
            "SELECT lo, hi FROM main.outbox_lost WHERE lo <= hi") == POSTBAG_OK)
        while (err == POSTBAG_OK && postbag__row(&from) == 1) {
            postbag__bind_column(&to, 1, &from, 0);
            postbag__bind_column(&to, 2, &from, 1);
            err = postbag__run(&to);
        }
    postbag__finalize(&from);
    postbag__finalize(&to);
    return err;
}

/* The log is dense, and so is what waits for a destination: a number that is
 * not there is lost, whatever became of its row.  FLOOR: up to it all may be
 * settled; of a cursor that is lost, up to the first row. */
#define FLOOR \
    "SELECT max((SELECT min(n) FROM (SELECT max(acked) AS n" \
    "  FROM outbox_cursor GROUP BY dest)), iif(%d, 0," \
    "  ifnull((SELECT min(seq) FROM outbox), 0)))"
static const char gaps[] =
    "WITH floor(at) AS (" FLOOR "), there(lo, hi) AS ("
    "  SELECT seq, seq FROM outbox UNION ALL SELECT lo, hi FROM temp.known"
    "  UNION ALL SELECT at, at FROM floor)"
    " INSERT INTO temp.gone SELECT below + 1, lo - 1 FROM (SELECT lo,"
    "  max(hi) OVER (ORDER BY lo, hi ROWS BETWEEN UNBOUNDED PRECEDING"
    "   AND 1 PRECEDING) AS below FROM there), floor"
    " WHERE below >= at AND below < lo - 1";

static int find_gaps(struct salvage *s)
{
    char sql[1024];
    int err = read_known(s);

    (void)snprintf(sql, sizeof(sql), gaps, s->cursors_are_whole);
    return err == POSTBAG_OK ? postbag__exec(s->to, sql) : err;
}

/* A row may be found missing in more than one way. */
static const char merge[] =
    "CREATE TEMP TABLE merged AS SELECT min(lo) AS lo, max(hi) AS hi"
    " FROM (SELECT lo, hi, sum(first) OVER (ORDER BY lo, hi"
    "  ROWS UNBOUNDED PRECEDING) AS island FROM (SELECT lo, hi,"
    "   ifnull(lo - 1 > max(hi) OVER (ORDER BY lo, hi ROWS BETWEEN"
    "    UNBOUNDED PRECEDING AND 1 PRECEDING), 1) AS first FROM temp.gone))"
    " GROUP BY island";

/* Of each range that part that the destination may not have got: what is not
 * in the log, and not held. */
static const char lost_of_dest[] =
    "SELECT lo, hi, hi - lo + 1"
    "  - (SELECT count(*) FROM outbox o WHERE o.seq BETWEEN lo AND hi)"
    "  - (SELECT count(*) FROM outbox_held h WHERE h.dest = ?1"
    "   AND h.seq BETWEEN lo AND hi"
    "   AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.seq = h.seq)), 0"
    " FROM (SELECT max(g.lo, 1 + (SELECT min(acked) FROM outbox_cursor"
    "   WHERE dest = ?1)) AS lo, min(g.hi, " PUT ") AS hi"
    "  FROM temp.merged g) WHERE lo <= hi ORDER BY lo";

/* How many are held and dead the cursor knew; which ones, nobody: they are
 * summed up. */
static const char lost_of_held[] =
    "SELECT 1, (SELECT max(acked) FROM outbox_cursor WHERE dest = ?1),"
    " min((SELECT sum(held) FROM temp.lanes WHERE name = ?1)"
    "  - (SELECT count(*) FROM outbox_held WHERE dest = ?1),"
    "  (SELECT passed FROM outbox_cursor WHERE dest = ?1 AND lane = 0)), 1";

static int count_lost(struct db *to, const char *dest, const struct lost *lost)
{
    struct stmt s;
    int err = postbag__prepare(to, &s,
        "UPDATE outbox_cursor SET dropped = dropped + ?2, passed = passed - ?2"
        " WHERE dest = ?1 AND lane = 0");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    postbag__bind_i64(&s, 2, lost->n);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

static int note_lost_as(
    struct salvage *s, struct lost_store *store, const char *query)
{
    struct stmt x;
    int err = postbag__prepare(s->to, &x, query);

    if (err == POSTBAG_OK)
        postbag__bind_text(&x, 1, store->dest);
    while (err == POSTBAG_OK && (err = postbag__row(&x)) == 1) {
        const struct lost lost = {.lo = postbag__col_i64(&x, 0),
            .hi = postbag__col_i64(&x, 1),
            .n = postbag__col_i64(&x, 2),
            .is_replay = postbag__col_i64(&x, 3) != 0};

        err = POSTBAG_OK;
        if (lost.n <= 0)
            continue;
        err = count_lost(s->to, store->dest, &lost);
        if (err == POSTBAG_OK)
            err = postbag__lost_note(store, &lost, "damaged", s->now_ms);
    }
    postbag__finalize(&x);
    return err;
}

static int note_lost_of(struct salvage *s, const char *dest)
{
    struct lost_store store;
    int err = postbag__lost_open(&store, s->to, dest);

    if (err == POSTBAG_OK)
        err = note_lost_as(s, &store, lost_of_dest);
    if (err == POSTBAG_OK && !s->held_is_whole)
        err = note_lost_as(s, &store, lost_of_held);
    postbag__lost_close(&store);
    return err;
}

int postbag__salvage_note_lost(struct salvage *s)
{
    struct stmt x;
    int err = s->log_is_whole ? POSTBAG_OK : find_gaps(s);

    if (err == POSTBAG_OK)
        err = postbag__exec(s->to, merge);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__prepare(s->to, &x, "SELECT name FROM outbox_dest");
    while (err == POSTBAG_OK && (err = postbag__row(&x)) == 1)
        err = note_lost_of(s, postbag__col_string(&x, 0));
    postbag__finalize(&x);
    return err;
}
