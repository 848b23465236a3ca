/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  Commands that cannot be.  SQLite does not look when it reads: what
 * the table, which is STRICT, would have refused was never stored, so a row
 * that has it is damaged.  No handler sees it; it is dead, and what is wrong
 * with it is gone, since SQLite stores no row of which one column is wrong.
 */
#ifndef POSTBAG_SRC_INBOX_DAMAGE_H
#define POSTBAG_SRC_INBOX_DAMAGE_H

#include <stdint.h>

#include "db.h"

/* The error of such a row begins so; it is not requeued. */
#define POSTBAG__INBOX_DAMAGED "damaged in the database:"

/* Each column that decides something, when it is right, and what stands there
 * else.  Not due_boot, due_ms and error: whatever becomes of a row sets them,
 * and until then what is wrong with them means "now". */
#define POSTBAG__INBOX_TYPED(X) \
    X("source", "typeof(source) = 'text'", "'damaged ' || arrival") \
    X("content_hash", "typeof(content_hash) IN ('blob', 'null')", "NULL") \
    X("seen", "typeof(seen) = 'integer'", "1") \
    X("topic", "typeof(topic) = 'text'", "NULL") \
    X("payload", "typeof(payload) IN ('text', 'blob')", "NULL") \
    X("content_type", "typeof(content_type) IN ('text', 'null')", "NULL") \
    X("key", "typeof(key) IN ('text', 'null')", "NULL") \
    X("key_version", "typeof(key_version) IN ('integer', 'null')", "NULL") \
    X("response_topic", "typeof(response_topic) IN ('text', 'null')", "NULL") \
    X("correlation_data", "typeof(correlation_data) IN ('blob', 'null')", \
        "NULL") \
    X("headers", "typeof(headers) IN ('text', 'null')", "NULL") \
    X("expires_ms", "typeof(expires_ms) IN ('integer', 'null')", "NULL") \
    X("attempts", \
        "typeof(attempts) = 'integer' AND attempts BETWEEN 0 AND 2147483646", \
        "0") \
    X("received_ms", "typeof(received_ms) = 'integer'", "0") \
    X("boot", "typeof(boot) IN ('blob', 'null')", "NULL") \
    X("mono_ms", "typeof(mono_ms) IN ('integer', 'null')", "NULL") \
    X("reply", "typeof(reply) IN ('text', 'null')", "NULL") \
    X("previous_version", "typeof(previous_version) IN ('integer', 'null')", \
        "NULL")

#define POSTBAG__INBOX_WRONG(column, is_right, instead) \
    " WHEN NOT (" is_right ") THEN '" column "'"
/* Of a row that is due or deferred: which column is wrong; NULL: none. */
#define POSTBAG__INBOX_DAMAGE \
    " CASE WHEN typeof(id) NOT IN ('text', 'blob') OR length(id) = 0" \
    " THEN 'id' WHEN typeof(processed_ms) NOT IN ('integer', 'null')" \
    " THEN 'processed_ms'" POSTBAG__INBOX_TYPED(POSTBAG__INBOX_WRONG) " END"

struct inbox_damage {
    char text[64]; /* "" where there is none */
};

/* Column `col` of the statement is POSTBAG__INBOX_DAMAGE. */
void postbag__inbox_damage_read(
    struct stmt *s, int col, struct inbox_damage *out);

/* Make it dead, in a transaction of the caller.  ENOTFOUND: it is neither due
 * nor deferred. */
POSTBAG_CHECK int postbag__inbox_damage_bury(struct db *db, int64_t arrival,
    const struct inbox_damage *why, int64_t wall_ms);

#endif
