/* SPDX-License-Identifier: MIT */
/*
 * The tables of version 1 and the frame that brings an older database up.
 * Creation is the migration from nothing to 1.  Our version stands in
 * outbox_meta, because user_version is the application's.
 */
#include "schema.h"

#include <stdio.h>
#include <string.h>

#include "coalesce_store.h"
#include "error.h"
#include "lost_store.h"
#include "message.h"
#include "schema_held.h"
#include "ttl_store.h"

static const char *const outbox_tables[] = {
    "CREATE TABLE outbox_meta("
    " key TEXT PRIMARY KEY NOT NULL, value ANY) STRICT, WITHOUT ROWID",

    "INSERT INTO outbox_meta VALUES"
    " ('schema_version', 1), ('stream', randomblob(16)),"
    " ('machine', NULL), ('file', NULL),"
    " ('max_payload', 65536), ('max_rows', 0), ('max_bytes', 0),"
    " ('overflow', 'reject'), ('min_free_bytes', 262144)",

    "CREATE TABLE outbox_dest("
    " name TEXT PRIMARY KEY NOT NULL,"
    " epoch INTEGER NOT NULL DEFAULT 0,"
    " owner BLOB, boot BLOB, lease_until INTEGER,"
    " first_seq INTEGER NOT NULL DEFAULT 1,"
    " archived INTEGER NOT NULL DEFAULT 0,"
    " profile TEXT"
    ") STRICT, WITHOUT ROWID",

    /* one row a lane; the counters stand beside the cursor so that settling
       a batch dirties one page */
    "CREATE TABLE outbox_cursor("
    " dest TEXT NOT NULL, lane INTEGER NOT NULL,"
    " acked INTEGER NOT NULL DEFAULT 0, sent_hi INTEGER NOT NULL DEFAULT 0,"
    " tried INTEGER NOT NULL DEFAULT 0, deaths INTEGER NOT NULL DEFAULT 0,"
    " settled_rows INTEGER NOT NULL DEFAULT 0,"
    " settled_bytes INTEGER NOT NULL DEFAULT 0,"
    " delivered INTEGER NOT NULL DEFAULT 0,"
    " dropped INTEGER NOT NULL DEFAULT 0, passed INTEGER NOT NULL DEFAULT 0,"
    " held_rows INTEGER NOT NULL DEFAULT 0,"
    " held_bytes INTEGER NOT NULL DEFAULT 0,"
    " dead_rows INTEGER NOT NULL DEFAULT 0,"
    " dead_bytes INTEGER NOT NULL DEFAULT 0,"
    " replayed INTEGER NOT NULL DEFAULT 0,"
    " losses INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY(dest, lane)) STRICT, WITHOUT ROWID",

    "CREATE TABLE outbox("
    " seq INTEGER PRIMARY KEY,"
    " id BLOB NOT NULL DEFAULT (CAST(randomblob(6) || x'40'"
    "  || randomblob(1) || x'80' || randomblob(7) AS BLOB)),"
    " topic TEXT NOT NULL,"
    " payload ANY NOT NULL,"
    " key TEXT, key_version INTEGER, type TEXT, content_type TEXT,"
    " headers TEXT,"
    " priority INTEGER NOT NULL DEFAULT 0,"
    " retain INTEGER NOT NULL DEFAULT 0,"
    " dest TEXT, ttl_ms INTEGER, coalesce TEXT,"
    " created_ms INTEGER NOT NULL DEFAULT"
    "  (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),"
    " boot BLOB, mono_ms INTEGER) STRICT",

    "CREATE INDEX outbox_urgent ON outbox(priority, seq) WHERE priority > 0",

    "CREATE TABLE outbox_sum("
    " seq INTEGER PRIMARY KEY, bytes INTEGER NOT NULL) STRICT",
    "INSERT INTO outbox_sum VALUES (0, 0)",

    "CREATE TABLE outbox_acks("
    " dest TEXT NOT NULL, lane INTEGER NOT NULL, upto INTEGER NOT NULL,"
    " at_ms INTEGER NOT NULL, boot BLOB, mono_ms INTEGER,"
    " PRIMARY KEY(dest, lane, upto)) STRICT, WITHOUT ROWID",

    "CREATE TABLE outbox_late("
    " dest TEXT NOT NULL, lane INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " at_ms INTEGER NOT NULL, attempts INTEGER NOT NULL,"
    " PRIMARY KEY(dest, lane, seq)) STRICT, WITHOUT ROWID",
};

static const char *const outbox_triggers[] = {
    /* so few bytes come after a total that to count them is cheap; and before
       the row is there a seq of -1 looks like none, which outbox_check takes */
    "CREATE TRIGGER outbox_total AFTER INSERT ON outbox"
    " WHEN NEW.seq % 256 = 0 OR length(NEW.payload) > 4096"
    "  OR NEW.seq < 1 BEGIN"
    " SELECT RAISE(ABORT, 'postbag: seq is given by the log')"
    "  WHERE NEW.seq < 1;"
    " INSERT INTO outbox_sum SELECT NEW.seq, " POSTBAG__BYTES_PUT("") ";"
                                                                      " END",

    "CREATE TRIGGER outbox_frozen BEFORE UPDATE ON outbox BEGIN"
    " SELECT RAISE(ABORT, 'postbag: a queued message is not changed');"
    " END",

    "CREATE TRIGGER outbox_newest BEFORE DELETE ON outbox"
    " WHEN OLD.seq = (SELECT max(seq) FROM outbox) BEGIN"
    " SELECT RAISE(ABORT,"
    "  'postbag: the newest row marks the end of the log');"
    " END",
};

/* what the textbook's columns say, per destination and row */
static const char status_view[] =
    "CREATE VIEW outbox_status AS"
    " SELECT o.seq, d.name AS dest, o.id, o.topic, o.key, o.priority,"
    "  o.created_ms,"
    "  " POSTBAG__ROW_STATE " AS state,"
    "  " POSTBAG__ROW_PUBLISHED_AT " AS published_at,"
    "  " POSTBAG__ROW_ATTEMPTS " AS attempts,"
    "  h.due_ms AS next_attempt_at, h.error AS last_error,"
    "  h.dead_ms AS dead_lettered_at,"
    "  CASE WHEN o.seq > c.acked THEN d.owner END AS lock_id,"
    "  CASE WHEN o.seq > c.acked THEN d.lease_until END AS locked_until"
    " FROM outbox o JOIN outbox_dest d"
    " JOIN outbox_cursor c ON c.dest = d.name AND c.lane = o.priority"
    " LEFT JOIN outbox_held h ON h.dest = d.name AND h.seq = o.seq"
    " UNION ALL"
    " SELECT h.seq, h.dest, h.id, h.topic, h.key, h.priority, h.created_ms,"
    "  h.state, NULL, h.attempts, h.due_ms, h.error, h.dead_ms, NULL, NULL"
    " FROM outbox_held h"
    " WHERE NOT EXISTS (SELECT 1 FROM outbox o WHERE o.seq = h.seq)";

/*
 * Guards are triggers, because an outer INSERT OR IGNORE lets a CHECK drop
 * the row in silence while the caller's state change stays; RAISE(ABORT) is
 * heard.  json_each refuses what is not JSON and, unlike json_valid, may stand
 * in a trigger under trusted_schema=OFF.  It ends a text at \u0000, which is
 * therefore looked for in the JSON, after the escaped backslashes are out of
 * the way.  The limit is a literal: a lookup for every put would cost more
 * than the check.
 */
static const char check_trigger[] =
    "CREATE TRIGGER outbox_check BEFORE INSERT ON outbox BEGIN"
    " SELECT CASE"
    "  WHEN NEW.seq <> -1"
    "   THEN RAISE(ABORT, 'postbag: seq is given by the log')"
    "  WHEN ifnull(length(CAST(NEW.topic AS BLOB))"
    "              NOT BETWEEN 1 AND 65535, 1)"
    "   THEN RAISE(ABORT, 'postbag: topic must have 1..65535 bytes')"
    "  WHEN NEW.topic GLOB '*[+#]*' OR instr(NEW.topic, char(0))"
    "   THEN RAISE(ABORT, 'postbag: topic must not contain + # or NUL')"
    "  WHEN NEW.topic GLOB " POSTBAG__CONTROL_PATTERN
    "   THEN RAISE(ABORT, 'postbag: topic has a control character')"
    "  WHEN ifnull(NEW.key, '') || ifnull(NEW.type, '')"
    "    || ifnull(NEW.content_type, '') GLOB " POSTBAG__CONTROL_PATTERN
    "   OR instr(ifnull(NEW.key, '') || ifnull(NEW.type, '')"
    "    || ifnull(NEW.content_type, ''), char(0))"
    "   THEN RAISE(ABORT,"
    "    'postbag: key, type or content_type has a control character')"
    "  WHEN typeof(NEW.payload) NOT IN ('text', 'blob')"
    "   THEN RAISE(ABORT, 'postbag: payload must be text or blob')"
    "  WHEN length(CAST(NEW.payload AS BLOB)) > %lu"
    "   THEN RAISE(ABORT, 'postbag: payload is larger than max_payload')"
    "  WHEN typeof(NEW.id) <> 'blob' OR length(NEW.id) <> 16"
    "   THEN RAISE(ABORT, 'postbag: id must be 16 bytes')"
    "  WHEN ifnull(NEW.priority NOT BETWEEN 0 AND 3, 1)"
    "   THEN RAISE(ABORT, 'postbag: priority must be 0..3')"
    "  WHEN NEW.retain IS NULL OR NEW.created_ms IS NULL"
    "   THEN RAISE(ABORT,"
    "    'postbag: retain and created_ms must not be NULL')"
    "  WHEN NEW.ttl_ms <= 0"
    "   THEN RAISE(ABORT, 'postbag: ttl_ms must be positive')"
    "  WHEN NEW.dest IS NOT NULL"
    "   AND NOT EXISTS (SELECT 1 FROM outbox_dest WHERE name = NEW.dest)"
    "   THEN RAISE(ABORT, 'postbag: unknown destination')"
    "  WHEN NEW.headers IS NOT NULL"
    "   AND (ltrim(NEW.headers, char(9, 10, 13, 32)) NOT GLOB '{*'"
    "   OR EXISTS (SELECT 1 FROM json_each(NEW.headers)"
    "              WHERE type IN ('object', 'array')))"
    "   THEN RAISE(ABORT,"
    "    'postbag: headers must be a JSON object of plain values')"
    "  WHEN NEW.headers IS NOT NULL"
    "   AND (instr(replace(NEW.headers, '\\\\', ''), '\\u0000')"
    "   OR EXISTS (SELECT 1 FROM json_each(NEW.headers)"
    "    WHERE key || ifnull(value, '') GLOB " POSTBAG__CONTROL_PATTERN "))"
    "   THEN RAISE(ABORT, 'postbag: a header has a control character')"
    "  WHEN NEW.headers IS NOT NULL"
    "   AND (SELECT count(*) <> count(DISTINCT key)"
    "    FROM json_each(NEW.headers))"
    "   THEN RAISE(ABORT, 'postbag: two headers have the same name')"
    "  WHEN NEW.headers IS NOT NULL"
    "   AND EXISTS (SELECT 1 FROM json_each(NEW.headers)"
    "    WHERE key IN (" POSTBAG__RESERVED_HEADERS "))"
    "   THEN RAISE(ABORT, 'postbag: no header may be named specversion, id,"
    " source, type, sequence, partitionkey, keyversion, replay,"
    " datacontenttype, data or data_base64')"
    "  END;"
    " END";

static int write_check_trigger(struct db *db, uint32_t max_payload)
{
    char sql[sizeof(check_trigger) + 16];
    int err;

    (void)snprintf(sql, sizeof(sql), check_trigger, (unsigned long)max_payload);
    err = postbag__exec(db, "DROP TRIGGER IF EXISTS outbox_check");
    return err == POSTBAG_OK ? postbag__exec(db, sql) : err;
}

static int create_v1(struct db *db)
{
    int err = POSTBAG__EXEC_ALL(db, outbox_tables);

    if (err == POSTBAG_OK)
        err = postbag__schema_create_held(db);
    if (err == POSTBAG_OK)
        err = POSTBAG__EXEC_ALL(db, outbox_triggers);
    if (err == POSTBAG_OK)
        err = postbag__lost_create(db);
    if (err == POSTBAG_OK)
        err = postbag__coalesce_create(db);
    if (err == POSTBAG_OK)
        err = postbag__ttl_create(db);
    if (err == POSTBAG_OK)
        err = write_check_trigger(db, POSTBAG__MAX_PAYLOAD_DEFAULT);
    if (err == POSTBAG_OK)
        err = postbag__schema_create_inbox(db);
    if (err == POSTBAG_OK)
        err = postbag__exec(db, status_view);
    return err == POSTBAG_OK ? postbag__schema_add_dest(db, "main") : err;
}

/* migrations[n] brings version n to n + 1 */
static int (*const migrations[POSTBAG_SCHEMA_VERSION])(struct db *db) = {
    create_v1,
};

/* 0: no outbox here. */
static int read_version(struct db *db, int64_t *version)
{
    int64_t n;
    int err = postbag__query_i64(db,
        "SELECT count(*) FROM main.sqlite_schema"
        " WHERE type = 'table' AND name = 'outbox_meta'",
        &n);

    *version = 0;
    if (err != POSTBAG_OK || n == 0)
        return err;
    err = postbag__query_i64(db,
        "SELECT ifnull((SELECT value FROM main.outbox_meta"
        "  WHERE key = 'schema_version' AND typeof(value) = 'integer'), 0)",
        version);
    if (err == POSTBAG_OK && *version < 1)
        err = postbag__fail(
            &db->fault, POSTBAG_ECORRUPT, "outbox_meta has no schema_version");
    return err;
}

/* A table of the application that has one of our names. */
static int check_names_free(struct db *db)
{
    int64_t n;
    int err = postbag__query_i64(db,
        "SELECT count(*) FROM main.sqlite_schema WHERE name IN ('outbox',"
        " 'outbox_dest', 'outbox_cursor', 'outbox_held', 'outbox_acks',"
        " 'outbox_late', 'outbox_lost', 'outbox_seen', 'outbox_sum',"
        " 'outbox_status', 'inbox',"
        " 'inbox_key', 'inbox_sum')",
        &n);

    if (err == POSTBAG_OK && n > 0)
        err = postbag__fail(&db->fault, POSTBAG_ESCHEMA,
            "the database has a table named as one of Postbag's"
            " (outbox*, inbox*) that Postbag did not make");
    return err;
}

static int refuse_version(struct db *db, int64_t version)
{
    if (version == POSTBAG_SCHEMA_VERSION)
        return POSTBAG_OK;
    return postbag__fail(&db->fault, POSTBAG_ESCHEMA,
        "the outbox has schema version %lld; this library knows up to %d",
        (long long)version, POSTBAG_SCHEMA_VERSION);
}

static int migrate(struct db *db)
{
    int64_t version;
    int err = read_version(db, &version);

    if (err == POSTBAG_OK && version == 0)
        err = check_names_free(db);
    for (; err == POSTBAG_OK && version < POSTBAG_SCHEMA_VERSION; version++)
        err = migrations[version](db);
    return err == POSTBAG_OK ? refuse_version(db, version) : err;
}

static int set_max_payload(struct db *db, uint32_t max_payload)
{
    int64_t now;
    struct stmt s;
    int err = postbag__query_i64(
        db, "SELECT value FROM outbox_meta WHERE key = 'max_payload'", &now);

    if (err != POSTBAG_OK || now == (int64_t)max_payload)
        return err;
    err = postbag__prepare(
        db, &s, "UPDATE outbox_meta SET value = ?1 WHERE key = 'max_payload'");
    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, max_payload);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err == POSTBAG_OK ? write_check_trigger(db, max_payload) : err;
}

int postbag__schema_ensure(struct db *db, uint32_t max_payload)
{
    int64_t limit = 0;
    int64_t version = 0;
    int64_t page_size;
    int err = read_version(db, &version);

    /* the usual open writes nothing */
    if (err == POSTBAG_OK && version == POSTBAG_SCHEMA_VERSION)
        err = postbag__query_i64(db,
            "SELECT value FROM outbox_meta WHERE key = 'max_payload'", &limit);
    if (err != POSTBAG_OK ||
        (version == POSTBAG_SCHEMA_VERSION &&
            (max_payload == 0 || limit == (int64_t)max_payload)))
        return err;
    err = postbag__begin(db, DB_FULL);
    if (err != POSTBAG_OK)
        return err;
    err = migrate(db);
    if (err == POSTBAG_OK && max_payload != 0)
        err = set_max_payload(db, max_payload);
    if (err != POSTBAG_OK) {
        postbag__rollback(db);
        return err;
    }
    err = postbag__commit(db);
    if (err != POSTBAG_OK || version != 0)
        return err;
    /* all of it is still in the WAL alone */
    err = postbag__query_i64(db, "PRAGMA main.page_size", &page_size);
    return err == POSTBAG_OK ? postbag__db_grow_ahead(db, page_size) : err;
}

/* There is no outbox, or a part of one. */
static int miss_outbox(struct db *db)
{
    int64_t n;
    int err = postbag__query_i64(db,
        "SELECT count(*) FROM main.sqlite_schema"
        " WHERE type = 'table'"
        "  AND name IN ('outbox_dest', 'outbox_cursor', 'outbox_held')",
        &n);

    if (err != POSTBAG_OK)
        return err;
    if (n == 3)
        return postbag__fail(
            &db->fault, POSTBAG_ECORRUPT, "table outbox_meta is missing");
    return postbag__fail(&db->fault, POSTBAG_ESCHEMA,
        "no outbox in the connection's main database"
        " (it must be the file of the application's own tables,"
        " not an attached one); postbag init makes it");
}

int postbag__schema_check(struct db *db)
{
    int64_t version;
    int err = read_version(db, &version);

    if (err == POSTBAG_OK && version == 0)
        err = miss_outbox(db);
    return err == POSTBAG_OK ? refuse_version(db, version) : err;
}

int postbag__schema_find_dest(struct db *db, const char *dest)
{
    struct stmt s;
    int err =
        postbag__prepare(db, &s, "SELECT 1 FROM outbox_dest WHERE name = ?1");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    err = postbag__row(&s);
    postbag__finalize(&s);
    if (err == POSTBAG_OK)
        return postbag__fail(&db->fault, POSTBAG_ENOTFOUND,
            "there is no destination of that name");
    return err == 1 ? POSTBAG_OK : err;
}

static int run_with_dest(struct db *db, const char *sql, const char *dest)
{
    struct stmt s;
    int err = postbag__prepare(db, &s, sql);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

int postbag__schema_add_dest(struct db *db, const char *dest)
{
    int err = run_with_dest(db,
        "INSERT INTO outbox_dest(name, first_seq)"
        " VALUES (?1, ifnull((SELECT min(seq) FROM outbox), 1))"
        " ON CONFLICT(name) DO NOTHING",
        dest);

    if (err != POSTBAG_OK || postbag__changes(db) == 0)
        return err;
    /* what was purged before counts as settled, in the bulk lane; an urgent
       row may have gone before an older one, so what is stored is counted */
    return run_with_dest(db,
        "INSERT INTO outbox_cursor(dest, lane, acked, sent_hi, settled_rows,"
        "  settled_bytes, passed)"
        " WITH stored AS (SELECT ifnull(max(seq), 0) - count(*) AS gone,"
        "  (SELECT bytes FROM outbox_sum ORDER BY seq DESC LIMIT 1)"
        "  - ifnull(sum(length(CAST(topic AS BLOB))"
        "     + length(CAST(payload AS BLOB))) FILTER (WHERE seq <= "
        "      (SELECT max(seq) FROM outbox_sum)), 0) AS gone_bytes"
        "  FROM outbox)"
        " SELECT d.name, l.lane, d.first_seq - 1, d.first_seq - 1,"
        "  iif(l.lane = 0, gone, 0), iif(l.lane = 0, gone_bytes, 0),"
        "  iif(l.lane = 0, gone, 0) FROM stored"
        " JOIN outbox_dest d JOIN (SELECT column1 AS lane FROM"
        "  (VALUES (0), (1), (2), (3))) l WHERE d.name = ?1",
        dest);
}
