/* SPDX-License-Identifier: MIT */
/* Floor 2.  The tables: create, check, migrate.  See FORMAT.md. */
#ifndef POSTBAG_SRC_SCHEMA_H
#define POSTBAG_SRC_SCHEMA_H

#include "db.h"

enum { POSTBAG__MAX_PAYLOAD_DEFAULT = 65536 };

/* Bytes ever put: the newest running total and the few rows after it.  A blob's
 * length is known without reading it; a text must be read.  `in`: "", or a
 * schema and its dot. */
#define POSTBAG__BYTES_PUT(in) \
    "((SELECT bytes FROM " in "outbox_sum ORDER BY seq DESC LIMIT 1)" \
    " + (SELECT ifnull(sum(length(CAST(topic AS BLOB))" \
    "  + iif(typeof(payload) = 'blob', length(payload)," \
    "        length(CAST(payload AS BLOB)))), 0) FROM " in "outbox" \
    "  WHERE seq > (SELECT max(seq) FROM " in "outbox_sum)))"

/*
 * What a row of outbox (o) is to a destination: d and c are its rows of
 * outbox_dest and, for the row's lane, outbox_cursor; h is the row's copy in
 * outbox_held, if there is one.  In SQL, for the view outbox_status and for
 * whoever lists rows, so that they agree.
 */
#define POSTBAG__ROW_IS_PASSED \
    "(o.seq < d.first_seq OR ifnull(o.dest <> d.name, 0))"
/* An entry l of outbox_lost of o's destination tells of row o: not one that
 * sums up, and those of a limit are bulk. */
#define POSTBAG__LOST_NAMES_ROW \
    "(o.seq BETWEEN l.lo AND l.hi AND l.exact" \
    " AND (o.priority = 0 OR l.reason <> 'limit'))"
#define POSTBAG__ROW_STATE \
    "CASE WHEN h.seq IS NOT NULL THEN h.state" \
    " WHEN " POSTBAG__ROW_IS_PASSED " THEN 'passed'" \
    " WHEN o.seq > c.acked" \
    "  THEN iif(o.seq <= c.sent_hi, 'sending', 'pending')" \
    " WHEN EXISTS (SELECT 1 FROM outbox_lost l WHERE l.dest = d.name" \
    "  AND " POSTBAG__LOST_NAMES_ROW ") THEN 'dropped'" \
    " ELSE 'published' END"
#define POSTBAG__OF_ROW_LATE \
    " FROM outbox_late k WHERE k.dest = d.name AND k.lane = o.priority" \
    " AND k.seq = o.seq)"
#define POSTBAG__ROW_PUBLISHED_AT \
    "CASE " POSTBAG__ROW_STATE " WHEN 'published' THEN ifnull(" \
    "(SELECT k.at_ms" POSTBAG__OF_ROW_LATE \
    ", (SELECT a.at_ms FROM outbox_acks a WHERE a.dest = d.name" \
    "   AND a.lane = o.priority AND a.upto >= o.seq" \
    "   ORDER BY a.upto LIMIT 1)) END"
#define POSTBAG__ROW_ATTEMPTS \
    "coalesce(h.attempts, (SELECT k.attempts" POSTBAG__OF_ROW_LATE \
    ", o.seq <= c.sent_hi AND NOT " POSTBAG__ROW_IS_PASSED ")"

/* A broker may hang up on these, and mosquitto does (MQTT 5, 1.5.4). */
#define POSTBAG__CONTROL_PATTERN \
    "'*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159)" \
    " || ']*'"

/* Bring the database to POSTBAG_SCHEMA_VERSION: create what is missing,
 * migrate what is older, leave every table that is not ours alone.
 * max_payload 0 keeps what the database has.  One transaction. */
POSTBAG_CHECK int postbag__schema_ensure(struct db *db, uint32_t max_payload);

/* Is an outbox of our version in "main"?  OK or ESCHEMA. */
POSTBAG_CHECK int postbag__schema_check(struct db *db);

/* Is there a destination of that name?  OK or ENOTFOUND. */
POSTBAG_CHECK int postbag__schema_find_dest(struct db *db, const char *dest);

/* Make sure that a destination and its cursors exist; a new one starts with
 * the oldest row still stored.  In a transaction of the caller. */
POSTBAG_CHECK int postbag__schema_add_dest(struct db *db, const char *dest);

/* Of schema_inbox.c, for the migration to version 1. */
POSTBAG_CHECK int postbag__schema_create_inbox(struct db *db);

#endif
