/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  Texts of triggers that drop rows of the log which no relay has
 * begun with: count them for every destination, record them, delete them.
 *
 * `rows` is a condition on o, a row of the log.  It must say the same in each
 * of the statements, whatever those before it have changed, and select only
 * rows above every reservation of their lane (and so above every cursor), and
 * never the newest row.  CROSS JOIN: the few rows first, or SQLite makes an
 * index of the whole log for this one statement.
 */
#ifndef POSTBAG_SRC_DROP_SQL_H
#define POSTBAG_SRC_DROP_SQL_H

/* A blob's length is known without reading it; a text must be read. */
#define DROP_BYTES \
    "length(CAST(o.topic AS BLOB)) + iif(typeof(o.payload) = 'blob'," \
    " length(o.payload), length(CAST(o.payload AS BLOB)))"

#define DROP_NOW "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

/* For the books of each destination.  Bytes above the newest running total
 * were never counted as put. */
#define DROP_COUNT(rows, at_lane) \
    "UPDATE outbox_cursor SET settled_rows = settled_rows + l.n," \
    " settled_bytes = settled_bytes + l.bytes, dropped = dropped + l.ours," \
    " passed = passed + l.n - l.ours FROM (SELECT d.name, count(*) AS n," \
    "  sum(o.dest IS NULL OR o.dest = d.name) AS ours," \
    "  sum(iif(o.seq <= (SELECT max(seq) FROM outbox_sum), " DROP_BYTES \
    ", 0)) AS bytes FROM outbox o CROSS JOIN outbox_dest d WHERE " rows \
    "  GROUP BY d.name) l WHERE dest = l.name AND lane = " at_lane ";"

/* What each destination loses of its own: l.name, lo, hi, n, bytes. */
#define DROP_LOSSES(rows) \
    "(SELECT d.name, min(o.seq) AS lo, max(o.seq) AS hi, count(*) AS n," \
    "  sum(" DROP_BYTES ") AS bytes FROM outbox o CROSS JOIN outbox_dest d" \
    "  WHERE " rows " AND (o.dest IS NULL OR o.dest = d.name)" \
    "  GROUP BY d.name) l"

/* An INSERT into outbox_lost adds to the entry that is there: of the same range
 * and reason, or summing up the same reason. */
#define DROP_MERGE \
    " ON CONFLICT DO UPDATE SET lo = min(lo, excluded.lo)," \
    " hi = max(hi, excluded.hi), n = n + excluded.n," \
    " bytes = bytes + excluded.bytes, at_ms = max(at_ms, excluded.at_ms)"

/* Into the entry of outbox_lost that `entry` selects, if there is one, ... */
#define DROP_EXTEND(rows, entry) \
    "UPDATE outbox_lost SET lo = min(outbox_lost.lo, l.lo)," \
    " hi = max(outbox_lost.hi, l.hi), n = outbox_lost.n + l.n," \
    " bytes = outbox_lost.bytes + l.bytes, at_ms = " DROP_NOW \
    " FROM " DROP_LOSSES(rows) " WHERE dest = l.name AND " entry ";"

/* ... else into a new one; `entry` selects the extended one. */
#define DROP_RECORD(rows, why, entry) \
    "INSERT INTO outbox_lost(dest, lo, hi, n, bytes, reason, at_ms)" \
    " SELECT l.name, l.lo, l.hi, l.n, l.bytes, '" why "', " DROP_NOW \
    " FROM " DROP_LOSSES( \
        rows) " WHERE NOT EXISTS (SELECT 1" \
              "  FROM outbox_lost WHERE dest = l.name AND " entry ");"

/* Into the entry that sums up its reason: what is deleted needs no name. */
#define DROP_SUM_UP(rows, why) \
    "INSERT INTO outbox_lost(dest, lo, hi, n, bytes, reason, at_ms, exact)" \
    " SELECT l.name, l.lo, l.hi, l.n, l.bytes, '" why "', " DROP_NOW ", 0" \
    " FROM " DROP_LOSSES(rows) " WHERE true" DROP_MERGE ";"

#define DROP_DELETE(rows) \
    "DELETE FROM outbox WHERE seq IN" \
    " (SELECT o.seq FROM outbox o WHERE " rows ");"

#endif
