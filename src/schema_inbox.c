/* SPDX-License-Identifier: MIT */
/* Floor 2.  The tables of the inbox, version 1. */
#include "schema.h"

/* Open is what is due, deferred or claimed.  Two names: SQLite builds a table
 * for a longer list, at each call. */
#define IS_OPEN(row) "(" row ".state NOT IN ('done', 'dead'))"
#define OPEN_BYTES(row) \
    "iif(" IS_OPEN(row) ", ifnull(length(CAST(" row ".payload AS BLOB)), 0)" \
                        " + ifnull(length(CAST(" row \
                        ".headers AS BLOB)), 0), 0)"
#define IS_DONE(row) "(" row ".state = 'done')"
#define COUNT(sign, row) \
    " UPDATE inbox_sum SET" \
    "  open_rows = open_rows " sign \
    IS_OPEN(row) ", open_bytes = open_bytes " sign \
    OPEN_BYTES(row) ", done_rows = done_rows " sign \
    IS_DONE(row) ";"
/* Once neither is there the command that a key had last, nor one that waits. */
#define FORGET_KEY \
    " DELETE FROM inbox_key WHERE consumer = old.consumer AND key = old.key" \
    "  AND NOT EXISTS (SELECT 1 FROM inbox i" \
    "   WHERE i.arrival = inbox_key.arrival)" \
    "  AND NOT EXISTS (SELECT 1 FROM inbox i WHERE i.consumer = old.consumer" \
    "   AND i.key = old.key AND i.state = 'deferred');"
/* Commands are held to the limits by who stores them, a frame at a time
 * (receiver.c); claims here, whoever writes them. */
#define REFUSE_CLAIM \
    " SELECT RAISE(ABORT, 'postbag: inbox is full: as many commands and" \
    " claims as inbox_max_rows allows are not done') FROM inbox_sum" \
    "  WHERE NEW.state = 'claimed' AND max_rows > 0 AND open_rows > max_rows;"

static const char *const inbox_tables[] = {
    "CREATE TABLE inbox("
    " arrival INTEGER PRIMARY KEY,"
    " consumer TEXT NOT NULL, source TEXT NOT NULL DEFAULT '',"
    " id ANY NOT NULL, content_hash BLOB, seen INTEGER NOT NULL DEFAULT 1,"
    " state TEXT NOT NULL DEFAULT 'due'"
    "  CHECK (state IN ('due', 'deferred', 'done', 'dead', 'claimed')),"
    " topic TEXT, payload ANY, content_type TEXT, key TEXT,"
    " key_version INTEGER, response_topic TEXT, correlation_data BLOB,"
    " headers TEXT, expires_ms INTEGER,"
    " attempts INTEGER NOT NULL DEFAULT 0, due_boot BLOB, due_ms INTEGER,"
    " error TEXT, result ANY, received_ms INTEGER NOT NULL,"
    " boot BLOB, mono_ms INTEGER, processed_ms INTEGER, reply TEXT,"
    " previous_version INTEGER,"
    " UNIQUE(consumer, source, id)) STRICT",
    "CREATE INDEX inbox_due ON inbox(consumer, arrival)"
    " WHERE state IN ('due', 'deferred')",
    /* is there an older one of the key? */
    "CREATE INDEX inbox_order ON inbox(consumer, key, arrival)"
    " WHERE state IN ('due', 'deferred') AND key IS NOT NULL",
    "CREATE INDEX inbox_dead ON inbox(arrival) WHERE state = 'dead'",
    "CREATE INDEX inbox_deferred ON inbox(consumer, key, key_version)"
    " WHERE state = 'deferred'",
    "CREATE INDEX inbox_discarded ON inbox(consumer, key, key_version)"
    " WHERE state = 'done' AND error = 'discarded'",
    "CREATE TABLE inbox_key("
    " consumer TEXT NOT NULL, key TEXT NOT NULL,"
    " last_version INTEGER NOT NULL, arrival INTEGER NOT NULL,"
    " PRIMARY KEY(consumer, key)) STRICT, WITHOUT ROWID",
    "CREATE TRIGGER inbox_forget_key AFTER DELETE ON inbox"
    " WHEN old.key IS NOT NULL BEGIN" FORGET_KEY " END",
    "CREATE TRIGGER inbox_forget_waiting AFTER UPDATE OF state ON inbox"
    " WHEN old.state = 'deferred' BEGIN" FORGET_KEY " END",

    /* what would take a walk to count; and the limits, one look for both */
    "CREATE TABLE inbox_sum("
    " only INTEGER PRIMARY KEY CHECK (only = 1),"
    " open_rows INTEGER NOT NULL DEFAULT 0,"
    " open_bytes INTEGER NOT NULL DEFAULT 0,"
    " done_rows INTEGER NOT NULL DEFAULT 0,"
    " forgotten INTEGER NOT NULL DEFAULT 0,"
    " max_rows INTEGER NOT NULL DEFAULT 100000,"
    " max_bytes INTEGER NOT NULL DEFAULT 67108864) STRICT",
    "INSERT INTO inbox_sum(only) VALUES (1)",
    "CREATE TRIGGER inbox_count_new AFTER INSERT ON inbox"
    " WHEN NEW.state <> 'dead' BEGIN" COUNT("+", "NEW") REFUSE_CLAIM " END",
    "CREATE TRIGGER inbox_count_change"
    " AFTER UPDATE OF state, payload, headers ON inbox"
    " BEGIN" COUNT("-", "OLD") COUNT("+", "NEW") " END",
    "CREATE TRIGGER inbox_count_gone AFTER DELETE ON inbox"
    " WHEN OLD.state <> 'dead' BEGIN" COUNT("-", "OLD") " END",
};

int postbag__schema_create_inbox(struct db *db)
{
    return POSTBAG__EXEC_ALL(db, inbox_tables);
}
