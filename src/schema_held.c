/* SPDX-License-Identifier: MIT */
/*
 * What is held is found by seeks: what is due, what waits behind a key, the
 * oldest dead.  Triggers keep rows and bytes beside the cursor, so that nobody
 * counts by a walk.
 */
#include "schema_held.h"

#include <stddef.h>

/* How much is held and dead, whoever changes it. */
#define NEW_BYTES \
    "(length(CAST(NEW.topic AS BLOB)) + length(CAST(NEW.payload AS BLOB)))"
#define OLD_BYTES \
    "(length(CAST(OLD.topic AS BLOB)) + length(CAST(OLD.payload AS BLOB)))"
#define COUNT_NEW \
    " UPDATE outbox_cursor SET" \
    "  held_rows = held_rows + (NEW.state <> 'dead')," \
    "  held_bytes = held_bytes + (NEW.state <> 'dead') * " NEW_BYTES "," \
    "  dead_rows = dead_rows + (NEW.state = 'dead')," \
    "  dead_bytes = dead_bytes + (NEW.state = 'dead') * " NEW_BYTES \
    " WHERE dest = NEW.dest AND lane = NEW.priority;"
#define DISCOUNT_OLD \
    " UPDATE outbox_cursor SET" \
    "  held_rows = held_rows - (OLD.state <> 'dead')," \
    "  held_bytes = held_bytes - (OLD.state <> 'dead') * " OLD_BYTES "," \
    "  dead_rows = dead_rows - (OLD.state = 'dead')," \
    "  dead_bytes = dead_bytes - (OLD.state = 'dead') * " OLD_BYTES \
    " WHERE dest = OLD.dest AND lane = OLD.priority;"

static const char *const statements[] = {
    "CREATE TABLE outbox_held("
    " dest TEXT NOT NULL, seq INTEGER NOT NULL,"
    " state TEXT NOT NULL"
    "  CHECK (state IN ('retry', 'behind', 'suspect', 'dead')),"
    " attempts INTEGER NOT NULL DEFAULT 0,"
    " due_boot BLOB, due_ms INTEGER,"
    " error TEXT, held_ms INTEGER, dead_ms INTEGER, revived INTEGER,"
    " deaths INTEGER NOT NULL DEFAULT 0,"
    " id BLOB NOT NULL, topic TEXT NOT NULL, payload ANY NOT NULL,"
    " key TEXT, key_version INTEGER, type TEXT, content_type TEXT,"
    " headers TEXT, priority INTEGER NOT NULL, retain INTEGER NOT NULL,"
    " ttl_ms INTEGER, coalesce TEXT, created_ms INTEGER NOT NULL,"
    " boot BLOB, mono_ms INTEGER,"
    " replay INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY(dest, seq)) STRICT",
    "CREATE INDEX outbox_held_due ON outbox_held("
    " dest, priority, due_boot, due_ms, seq)"
    " WHERE state = 'retry'",
    /* with state, so that to count what waits reads nothing else */
    "CREATE INDEX outbox_held_key ON outbox_held(dest, key, priority, seq,"
    " state) WHERE key IS NOT NULL AND state <> 'dead'",
    "CREATE INDEX outbox_held_dead ON outbox_held(dest, seq)"
    " WHERE state = 'dead'",
    "CREATE INDEX outbox_held_ttl ON outbox_held(dest, seq)"
    " WHERE ttl_ms IS NOT NULL AND state <> 'dead'",
    "CREATE INDEX outbox_held_deaths ON outbox_held(dest, deaths)"
    " WHERE deaths > 0",
    "CREATE INDEX outbox_held_revive ON outbox_held(dest, due_ms)"
    " WHERE state = 'dead' AND due_ms IS NOT NULL",

    "CREATE TRIGGER outbox_held_in AFTER INSERT ON outbox_held"
    " BEGIN" COUNT_NEW " END",

    "CREATE TRIGGER outbox_held_out AFTER DELETE ON outbox_held"
    " BEGIN" DISCOUNT_OLD " END",

    "CREATE TRIGGER outbox_held_turn AFTER UPDATE OF state ON outbox_held"
    " WHEN (OLD.state = 'dead') <> (NEW.state = 'dead')"
    " BEGIN" DISCOUNT_OLD COUNT_NEW " END",
};

int postbag__schema_create_held(struct db *db)
{
    return POSTBAG__EXEC_ALL(db, statements);
}
