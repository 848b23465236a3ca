/* SPDX-License-Identifier: MIT */
/*
 * What is held is found by seeks: what is due, what waits behind a key, the
 * oldest dead.  Triggers keep rows and bytes beside the cursor, so that nobody
 * counts by a walk, and let one row of a key be tried at a time.
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

/*
 * Of a key only the oldest that is not dead is tried, whoever holds a row or
 * calls it back, and in whatever order: one that was acknowledged, but in RAM
 * alone, is sent again after a crash and may be refused then, while a later one
 * is held.  Of those that were there one at most is tried: if NEW is now the
 * oldest, the next one steps back, else NEW does.
 */
#define LIVE_OF_KEY \
    "(SELECT min(seq) FROM outbox_held WHERE dest = NEW.dest" \
    "  AND key = NEW.key AND key IS NOT NULL AND priority = NEW.priority" \
    "  AND state <> 'dead'"
#define LINE_UP \
    " UPDATE outbox_held SET state = 'behind', due_boot = NULL, due_ms = NULL" \
    " WHERE dest = NEW.dest AND +state = 'retry'" \
    "  AND seq IN (NEW.seq, " LIVE_OF_KEY " AND seq > NEW.seq))" \
    "  AND seq <> " LIVE_OF_KEY ");"

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

    "CREATE TRIGGER outbox_held_line AFTER INSERT ON outbox_held"
    " WHEN NEW.state = 'retry' AND NEW.key IS NOT NULL"
    " BEGIN" LINE_UP " END",

    "CREATE TRIGGER outbox_held_back AFTER UPDATE OF state ON outbox_held"
    " WHEN OLD.state = 'dead' AND NEW.state = 'retry' AND NEW.key IS NOT NULL"
    " BEGIN" LINE_UP " END",
};

int postbag__schema_create_held(struct db *db)
{
    return POSTBAG__EXEC_ALL(db, statements);
}
