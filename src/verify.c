/* SPDX-License-Identifier: MIT */
/*
 * What tables say of each other.  Rules count what they compare, and name no
 * reason of outbox_lost: a new reason needs no new rule here.
 */
#include "verify.h"

#include <stdio.h>

#include "schema.h"

/* ---- the rules ---- */

#define PUT VERIFY_PUT
#define ROW_BYTES "length(CAST(topic AS BLOB)) + length(CAST(payload AS BLOB))"
/* As the relay counts; 0 if the totals are gone. */
#define PUT_BYTES "ifnull(" POSTBAG__BYTES_PUT("") ", 0)"
/* Of the rows above the cursor c.  "priority > 0" must stand there literally,
 * or SQLite does not use the index of urgent rows. */
#define ABOVE(what) \
    "sum(iif(c.lane = 0, (SELECT " what " FROM outbox WHERE seq > c.acked" \
    "  AND priority = 0), (SELECT " what " FROM outbox WHERE priority > 0" \
    "  AND priority = c.lane AND seq > c.acked)))"
#define ROWS_ABOVE ABOVE("count(*)")
#define BYTES_ABOVE ABOVE("ifnull(sum(" ROW_BYTES "), 0)")
/* e is not dead, of the key and lane of the held row h, and older. */
#define OLDER_LIVE \
    "EXISTS (SELECT 1 FROM outbox_held e WHERE e.dest = h.dest" \
    " AND e.key = h.key AND e.key IS NOT NULL AND e.priority = h.priority" \
    " AND e.seq < h.seq AND e.state <> 'dead')"
/* Rows of nobody. */
#define STRAY(table) \
    "SELECT dest, printf('%d rows are of no destination', count(*))" \
    " FROM " table " WHERE dest NOT IN (SELECT name FROM outbox_dest)" \
    " GROUP BY dest"
#define STRAY_LANE(table) \
    "SELECT dest, printf('%d rows are of lane %d, which has no cursor'," \
    " count(*), lane) FROM " table " WHERE (dest, lane) NOT IN" \
    " (SELECT dest, lane FROM outbox_cursor) GROUP BY dest, lane"
#define CURSOR_OF_HELD \
    "outbox_held h JOIN outbox_cursor c" \
    " ON c.dest = h.dest AND c.lane = h.priority"

static const struct verify_rule rules[] = {
    {"dest", "SELECT NULL, 'there is none'"
             " WHERE NOT EXISTS (SELECT 1 FROM outbox_dest)"},
    {"dest", "SELECT d.name, printf('row %lld of lane %d is in an archive, but"
             " not settled', min(o.seq), c.lane)"
             " FROM outbox_dest d JOIN outbox_cursor c ON c.dest = d.name"
             " JOIN outbox o ON o.seq > c.acked AND o.seq <= d.archived"
             "  AND +o.priority = c.lane GROUP BY d.name, c.lane"},
    {"cursor",
        "SELECT d.name, printf('has %d cursors, not 4', count(c.lane))"
        " FROM outbox_dest d LEFT JOIN outbox_cursor c ON c.dest = d.name"
        "  AND c.lane BETWEEN 0 AND 3 GROUP BY d.name"
        " HAVING count(c.lane) <> 4"},
    {"cursor",
        "SELECT dest, printf('the cursor of lane %d belongs to nothing', lane)"
        " FROM outbox_cursor WHERE lane NOT BETWEEN 0 AND 3"
        "  OR dest NOT IN (SELECT name FROM outbox_dest)"},
    {"cursor",
        "SELECT dest, printf('lane %d is settled up to %lld, but the newest"
        " row is %lld', lane, acked, " PUT
        ") FROM outbox_cursor WHERE acked > " PUT},
    {"cursor",
        "SELECT dest, printf('lane %d is settled up to %lld, but only %lld was"
        " reserved', lane, acked, sent_hi)"
        " FROM outbox_cursor WHERE acked > sent_hi"},
    {"cursor",
        "SELECT d.name, printf('lane %d is settled up to %lld, but the first"
        " row of the destination is %lld', c.lane, c.acked, d.first_seq)"
        " FROM outbox_dest d JOIN outbox_cursor c ON c.dest = d.name"
        " WHERE c.acked < d.first_seq - 1"},
    {"cursor",
        "SELECT dest, printf('a counter of lane %d is below 0', lane)"
        " FROM outbox_cursor WHERE min(settled_rows, settled_bytes, delivered,"
        "  dropped, passed, replayed) < 0"},
    {"ledger",
        "SELECT dest, printf('%lld rows are settled and %lld replayed, but"
        " %lld delivered + %lld held or dead + %lld dropped + %lld passed make"
        " %lld', s, r, v, h, l, p, v + h + l + p)"
        " FROM (SELECT dest, sum(settled_rows) AS s, sum(replayed) AS r,"
        "  sum(delivered) AS v, sum(dropped) AS l, sum(passed) AS p,"
        "  (SELECT count(*) FROM " CURSOR_OF_HELD
        "   WHERE h.dest = o.dest AND h.seq <= c.acked) AS h"
        "  FROM outbox_cursor o GROUP BY dest) WHERE s + r <> v + h + l + p"},
    {"ledger",
        "SELECT dest, printf('of %lld rows put %lld are settled, which leaves"
        " %lld, but %lld stand above the cursors', put, s, put - s, n)"
        " FROM (SELECT dest, " PUT " AS put, sum(settled_rows) AS s,"
        "  " ROWS_ABOVE " AS n FROM outbox_cursor c GROUP BY dest)"
        " WHERE put - s <> n"},
    {"ledger",
        "SELECT dest, printf('of %lld bytes put %lld are settled, which leaves"
        " %lld, but %lld stand above the cursors', put, s, put - s, n)"
        " FROM (SELECT dest, " PUT_BYTES " AS put, sum(settled_bytes) AS s,"
        "  " BYTES_ABOVE " AS n FROM outbox_cursor c GROUP BY dest)"
        " WHERE n <> put - s"},
    {"ledger",
        "SELECT dest, printf('%lld rows are counted as dropped, outbox_lost"
        " tells of %lld', l, n) FROM (SELECT dest, sum(dropped) AS l,"
        "  (SELECT ifnull(sum(n), 0) FROM outbox_lost t"
        "   WHERE t.dest = c.dest) AS n"
        "  FROM outbox_cursor c GROUP BY dest) WHERE l <> n"},
    {"lost",
        "SELECT dest, printf('rows %lld to %lld, reason %s: %lld messages and"
        " %lld bytes cannot be', lo, hi, reason, n, bytes) FROM outbox_lost"
        " WHERE lo < 1 OR hi < lo OR n < 1 OR bytes < 0"
        "  OR exact AND n > hi - lo + 1 OR hi > " PUT},
    {"lost",
        "SELECT dest, printf('lane %d counts %lld entries that name messages,"
        " not %lld', lane, losses, n) FROM (SELECT *, iif(lane = 0, (SELECT"
        "   count(*) FROM outbox_lost t WHERE t.dest = c.dest AND exact), 0)"
        "  AS n FROM outbox_cursor c) WHERE losses <> n"},
    {"total", "SELECT NULL, 'there is none'"
              " WHERE NOT EXISTS (SELECT 1 FROM outbox_sum)"},
    {"total",
        "SELECT NULL, printf('rows %lld to %lld have %lld bytes, the totals"
        " differ by %lld', was + 1, seq, got, bytes - had)"
        " FROM (SELECT *, (SELECT count(*) FROM outbox o"
        "   WHERE o.seq > s.was AND o.seq <= s.seq) AS n,"
        "  (SELECT ifnull(sum(" ROW_BYTES "), 0) FROM outbox o"
        "   WHERE o.seq > s.was AND o.seq <= s.seq) AS got"
        "  FROM (SELECT seq, bytes, lag(seq) OVER w AS was,"
        "   lag(bytes) OVER w AS had FROM outbox_sum"
        "   WINDOW w AS (ORDER BY seq)) s WHERE was IS NOT NULL)"
        /* rows that are gone may be in the total, or have gone before it */
        " WHERE got > bytes - had OR (n = seq - was AND got <> bytes - had)"},
    {"total",
        "SELECT NULL, printf('of the totals at each 256th row from %lld to"
        " %lld there are %lld, not %lld', lo, put, n, put / 256 - lo / 256)"
        " FROM (SELECT ifnull(min(seq), 0) AS lo, count(*) FILTER (WHERE"
        "   seq % 256 = 0 AND seq > (SELECT min(seq) FROM outbox_sum)) AS n,"
        "  " PUT " AS put FROM outbox_sum) WHERE n <> put / 256 - lo / 256"},
    {"held",
        "SELECT dest, printf('lane %d counts %lld held rows of %lld bytes and"
        " %lld dead of %lld; there are %lld of %lld and %lld of %lld', lane,"
        " held_rows, held_bytes, dead_rows, dead_bytes, h, hb, n - h, b - hb)"
        " FROM (SELECT c.*, count(t.seq) AS n,"
        "  count(t.seq) FILTER (WHERE t.state <> 'dead') AS h,"
        "  ifnull(sum(" ROW_BYTES "), 0) AS b, ifnull(sum(" ROW_BYTES ")"
        "   FILTER (WHERE t.state <> 'dead'), 0) AS hb"
        "  FROM outbox_cursor c LEFT JOIN outbox_held t ON t.dest = c.dest"
        "   AND t.priority = c.lane GROUP BY c.dest, c.lane)"
        " WHERE (held_rows, held_bytes, dead_rows, dead_bytes)"
        "  <> (h, hb, n - h, b - hb)"},
    {"held", "SELECT dest, printf('row %lld of lane %d has no cursor', seq,"
             " priority) FROM outbox_held h WHERE NOT EXISTS (SELECT 1"
             "  FROM outbox_cursor c WHERE c.dest = h.dest"
             "  AND c.lane = h.priority)"},
    {"held",
        "SELECT h.dest, printf('row %lld is held, but only %lld was reserved',"
        " h.seq, c.sent_hi) FROM " CURSOR_OF_HELD " WHERE h.seq > c.sent_hi"},
    {"held",
        "SELECT h.dest, printf('row %lld is above the cursor at %lld, and not"
        " in the log', h.seq, c.acked) FROM " CURSOR_OF_HELD
        " WHERE h.seq > c.acked"
        "  AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.seq = h.seq)"},
    {"held",
        "SELECT h.dest, printf('row %lld is another message than in the log',"
        " h.seq) FROM outbox_held h JOIN outbox o ON o.seq = h.seq"
        " WHERE o.id <> h.id OR o.priority <> h.priority"
        "  OR o.key IS NOT h.key OR o.dest <> h.dest"},
    {"held",
        "SELECT h.dest, printf('row %lld waits behind a row of its key, but"
        " there is none', h.seq) FROM outbox_held h"
        " WHERE h.state = 'behind' AND NOT " OLDER_LIVE},
    {"held",
        "SELECT h.dest, printf('row %lld is tried while an older row of its"
        " key waits', h.seq) FROM outbox_held h"
        " WHERE h.state IN ('retry', 'suspect') AND " OLDER_LIVE},
    {"held",
        "SELECT dest, printf('row %lld is %s, and dead_ms says otherwise', seq,"
        " state) FROM outbox_held"
        " WHERE (state = 'dead') <> (dead_ms IS NOT NULL)"},
    {"held",
        "SELECT h.dest, printf('row %lld is replayed, but was never settled',"
        " h.seq) FROM " CURSOR_OF_HELD " WHERE h.replay <> 0"
        "  AND h.seq > c.acked"},
    {"acks",
        "SELECT a.dest, printf('row %lld of lane %d was acknowledged, but the"
        " cursor is at %lld', a.upto, a.lane, c.acked)"
        " FROM outbox_acks a JOIN outbox_cursor c ON c.dest = a.dest"
        "  AND c.lane = a.lane WHERE a.upto > c.acked"},
    {"acks",
        "SELECT dest, printf('rows %lld and %lld of lane %d were acknowledged"
        " in one boot at %lld ms and, later, at %lld ms', was, upto, lane,"
        " before, mono_ms) FROM (SELECT *, lag(upto) OVER w AS was,"
        "  lag(mono_ms) OVER w AS before FROM outbox_acks"
        "  WINDOW w AS (PARTITION BY dest, lane, boot ORDER BY upto))"
        " WHERE boot IS NOT NULL AND mono_ms < before"},
    {"acks", STRAY_LANE("outbox_acks")},
    {"late", STRAY_LANE("outbox_late")},
    {"lost", STRAY("outbox_lost")},
    {"seen", STRAY("outbox_seen")},
    {"late",
        "SELECT k.dest, printf('row %lld of lane %d was delivered late, but the"
        " cursor is at %lld', k.seq, k.lane, c.acked)"
        " FROM outbox_late k JOIN outbox_cursor c ON c.dest = k.dest"
        "  AND c.lane = k.lane WHERE k.seq > c.acked"},
    {"inbox",
        "SELECT NULL, printf('command %lld is %s, and processed_ms is %s',"
        " arrival, state, ifnull(processed_ms, 'NULL')) FROM inbox"
        " WHERE state = 'done' AND processed_ms IS NULL"
        "  OR state IN ('due', 'deferred', 'claimed')"
        "   AND processed_ms IS NOT NULL"},
    {"inbox",
        "SELECT NULL, printf('%lld open commands of %lld bytes and %lld done"
        " ones are counted; there are %lld of %lld and %lld', open_rows,"
        " open_bytes, done_rows, o, b, d) FROM inbox_sum, (SELECT"
        "  count(*) FILTER (WHERE state NOT IN ('done', 'dead')) AS o,"
        "  ifnull(sum(ifnull(length(CAST(payload AS BLOB)), 0)"
        "   + ifnull(length(CAST(headers AS BLOB)), 0))"
        "   FILTER (WHERE state NOT IN ('done', 'dead')), 0) AS b,"
        "  count(*) FILTER (WHERE state = 'done') AS d FROM inbox)"
        " WHERE (open_rows, open_bytes, done_rows) <> (o, b, d)"},
    {"inbox", "SELECT NULL, 'nothing counts the commands'"
              " WHERE NOT EXISTS (SELECT 1 FROM inbox_sum)"},
    {"inbox",
        "SELECT NULL, printf('version %lld is the last one of key %s and"
        " consumer %s, but command %lld does not say so', last_version,"
        " substr(quote(key), 1, 60), substr(quote(consumer), 1, 60), arrival)"
        " FROM inbox_key k WHERE NOT EXISTS (SELECT 1 FROM inbox i"
        "  WHERE i.arrival = k.arrival AND i.consumer = k.consumer"
        "  AND i.key = k.key AND i.key_version = k.last_version"
        "  AND i.state <> 'deferred')"
        " AND (k.arrival IN (SELECT arrival FROM inbox)"
        "  OR NOT EXISTS (SELECT 1 FROM inbox i WHERE i.consumer = k.consumer"
        "   AND i.key = k.key AND i.state = 'deferred'))"},
    {"meta", "SELECT NULL, printf('there is no %s', column1)"
             " FROM (VALUES ('stream'), ('machine'), ('file'),"
             "  ('max_payload'), ('max_rows'), ('max_bytes'), ('overflow'),"
             "  ('min_free_bytes'))"
             " WHERE column1 NOT IN (SELECT key FROM outbox_meta"
             "  WHERE value NOT NULL OR key IN ('machine', 'file'))"},
    {"file", "SELECT NULL, quick_check FROM pragma_quick_check"
             " WHERE quick_check <> 'ok'"},
    /* what it says of pages, quick_check has said */
    {"index", "SELECT NULL, integrity_check FROM sqlite_schema t"
              " JOIN pragma_integrity_check(t.name)"
              " WHERE t.type = 'table' AND (t.name GLOB 'outbox*'"
              "  OR t.name GLOB 'inbox*')"
              " AND integrity_check LIKE '% index %'"},
};

/* ---- telling ---- */

int postbag__verify_tell(const struct postbag_verify *v, const char *check,
    const char *dest, const char *text)
{
    return v->finding == NULL ? 0 : v->finding(v->ctx, check, dest, text);
}

int postbag__verify_unreadable(struct db *db, const struct postbag_verify *v,
    const char *check, const char *dest, int err)
{
    char text[sizeof(db->fault.text)];

    if (err != POSTBAG_ECORRUPT && err != POSTBAG_ESCHEMA &&
        err != POSTBAG_ENOTFOUND)
        return err;
    (void)snprintf(text, sizeof(text), "%s", db->fault.text);
    return postbag__verify_tell(v, check, dest, text);
}

int postbag__verify_run(struct db *db, const struct postbag_verify *v,
    const struct verify_rule *rule)
{
    struct stmt s;
    int result = 0;
    int err = postbag__prepare(db, &s, rule->sql);

    for (int i = 0; err == POSTBAG_OK && i < VERIFY_MOST && result == 0; i++) {
        err = postbag__row(&s);
        if (err != 1)
            break;
        err = POSTBAG_OK;
        result = postbag__verify_tell(v, rule->check, postbag__col_text(&s, 0),
            postbag__col_string(&s, 1));
    }
    postbag__finalize(&s);
    return err == POSTBAG_OK
               ? result
               : postbag__verify_unreadable(db, v, rule->check, NULL, err);
}

int postbag__verify(struct db *db, const struct postbag_verify *v)
{
    int err = postbag__verify_schema(db, v);

    if (err < 0)
        err = postbag__verify_unreadable(db, v, "schema", NULL, err);
    if (err == 0)
        err = postbag__verify_values(db, v);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && err == 0; i++)
        err = postbag__verify_run(db, v, &rules[i]);
    return err;
}
