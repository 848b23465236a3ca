/* SPDX-License-Identifier: MIT */
/* Floor 2.  The tables of the inbox, version 1. */
#include "schema.h"

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
    "CREATE TABLE inbox_key("
    " consumer TEXT NOT NULL, key TEXT NOT NULL,"
    " last_version INTEGER NOT NULL, arrival INTEGER NOT NULL,"
    " PRIMARY KEY(consumer, key)) STRICT, WITHOUT ROWID",
    /* a key is remembered for as long as the command that it had last */
    "CREATE TRIGGER inbox_forget_key AFTER DELETE ON inbox"
    " WHEN old.key IS NOT NULL BEGIN"
    " DELETE FROM inbox_key WHERE consumer = old.consumer"
    "  AND key = old.key AND arrival = old.arrival; END",
};

int postbag__schema_create_inbox(struct db *db)
{
    return POSTBAG__EXEC_ALL(db, inbox_tables);
}
