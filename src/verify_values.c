/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  A line for each column and what it never holds, whoever wrote it;
 * of messages, what trigger outbox_check refuses.  What is of a wrong type, or
 * NULL where it may not be, SQLite's check of the file finds.  A table is read
 * once, and of a row the first wrong column is told.
 */
#include <stdio.h>
#include <string.h>

#include "lost_store.h"
#include "schema.h"
#include "verify.h"

struct never {
    const char *column;
    const char *when;
};

#define NOT_16(column) "length(" column ") <> 16"
/* A moment of a boot is both, or neither. */
#define NO_MOMENT(boot, ms) \
    NOT_16(boot) " OR (" boot " IS NULL) <> (" ms " IS NULL)"
#define NO_NUMBER(column, least) \
    "typeof(" column ") NOT IN ('integer', 'null') OR " column " < " least
#define NO_BYTES(column) "typeof(" column ") NOT IN ('text', 'blob')"
#define HAS_CONTROL(column) \
    column " GLOB " POSTBAG__CONTROL_PATTERN " OR instr(" column ", char(0))"

static const struct never dest[] = {
    {"name", "name GLOB '*[^-A-Za-z0-9_.]*'"
             " OR length(name) NOT BETWEEN 1 AND 64"},
    {"epoch", "epoch < 0"},
    {"owner", NOT_16("owner")},
    {"boot",
        NO_MOMENT("boot", "lease_until") " OR owner NOT NULL AND boot IS NULL"},
    {"lease_until", "lease_until < 0"},
    {"first_seq", "first_seq NOT BETWEEN 1 AND 1 + " VERIFY_PUT},
    {"archived", "archived NOT BETWEEN 0 AND " VERIFY_PUT},
};

static const struct never cursor[] = {
    /* reserved ahead are two windows, of at most 1000 messages each */
    {"sent_hi", "sent_hi > 2000 + " VERIFY_PUT},
    {"tried", "tried NOT BETWEEN 0 AND " VERIFY_PUT},
    {"deaths", "deaths < 0"},
};

/* In the log and held. */
static const struct never message[] = {
    {"seq", "seq < 1"},
    {"id", NOT_16("id")},
    {"topic", "length(CAST(topic AS BLOB)) NOT BETWEEN 1 AND 65535"
              " OR topic GLOB '*[+#]*' OR " HAS_CONTROL("topic")},
    {"payload", NO_BYTES("payload")},
    {"key", HAS_CONTROL("key")},
    {"type", HAS_CONTROL("type")},
    {"content_type", HAS_CONTROL("content_type")},
    {"priority", "priority NOT BETWEEN 0 AND 3"},
    {"ttl_ms", "ttl_ms < 1"},
};

/* What is no JSON ends the query with an error, which is told, too. */
static const struct never headers[] = {
    {"headers", "json_type(headers) <> 'object'"},
};

static const struct never total[] = {
    {"seq", "seq NOT BETWEEN 0 AND " VERIFY_PUT},
    {"bytes", "bytes < 0"},
};

static const struct never held[] = {
    {"attempts", "attempts < 0"},
    {"due_boot", NO_MOMENT("due_boot", "due_ms")},
    {"due_ms", "due_ms < 0"},
    {"error", "length(CAST(error AS BLOB)) > 200"},
    {"revived", "revived <> 1"},
    {"deaths", "deaths < 0"},
    {"replay", "replay NOT IN (0, 1)"},
};

static const struct never acks[] = {
    {"upto", "upto < 1"},
    {"boot", NO_MOMENT("boot", "mono_ms")},
    {"mono_ms", "mono_ms < 0"},
};

static const struct never late[] = {
    {"seq", "seq < 1"},
    {"attempts", "attempts < 1"},
};

static const struct never lost[] = {
    {"reason", "reason NOT IN (" POSTBAG__LOST_REASONS ")"},
};

static const struct never seen[] = {
    {"n", "n NOT BETWEEN 0 AND 63"},
    {"seq", "seq NOT BETWEEN 1 AND " VERIFY_PUT},
    {"boot", NOT_16("boot")},
    {"mono_ms", "mono_ms < 0"},
};

/* Rows become columns. */
#define META \
    "(SELECT max(value) FILTER (WHERE key = 'stream') AS stream," \
    " max(value) FILTER (WHERE key = 'machine') AS machine," \
    " max(value) FILTER (WHERE key = 'file') AS file," \
    " max(value) FILTER (WHERE key = 'max_payload') AS max_payload," \
    " max(value) FILTER (WHERE key = 'max_rows') AS max_rows," \
    " max(value) FILTER (WHERE key = 'max_bytes') AS max_bytes," \
    " max(value) FILTER (WHERE key = 'min_free_bytes') AS min_free_bytes," \
    " max(value) FILTER (WHERE key = 'overflow') AS overflow" \
    " FROM outbox_meta)"

static const struct never meta[] = {
    {"stream", "typeof(stream) NOT IN ('blob', 'null') OR " NOT_16("stream")},
    {"machine",
        "typeof(machine) NOT IN ('blob', 'null') OR " NOT_16("machine")},
    {"file", "typeof(file) NOT IN ('integer', 'null')"},
    {"max_payload", NO_NUMBER("max_payload", "1")},
    {"max_rows", NO_NUMBER("max_rows", "0")},
    {"max_bytes", NO_NUMBER("max_bytes", "0")},
    {"min_free_bytes", NO_NUMBER("min_free_bytes", "0")},
    {"overflow", "overflow NOT IN ('reject', 'drop_oldest')"},
};

static const struct never inbox[] = {
    {"arrival", "arrival < 1"},
    {"id", NO_BYTES("id")},
    {"content_hash", "ifnull(length(content_hash), 0) <> 32"},
    {"seen", "seen < 1"},
    {"payload",
        "payload NOT NULL AND (state = 'done' OR " NO_BYTES("payload") ")"},
    {"content_type", "content_type NOT NULL AND state = 'done'"},
    {"response_topic", "response_topic NOT NULL AND state = 'done'"},
    {"correlation_data", "correlation_data NOT NULL AND state = 'done'"},
    {"headers", "headers NOT NULL AND state = 'done'"},
    {"expires_ms", "expires_ms < 1"},
    {"result",
        "result NOT NULL AND (state <> 'done' OR " NO_BYTES("result") ")"},
    {"reply", "reply NOT NULL AND (result IS NULL OR NOT json_valid(reply))"},
    {"attempts", "attempts < 0"},
    {"due_boot", NO_MOMENT("due_boot", "due_ms")},
    {"due_ms", "due_ms < 0"},
    {"boot", NO_MOMENT("boot", "mono_ms")},
    {"mono_ms", "mono_ms < 0"},
};

static const struct never inbox_sum[] = {
    {"forgotten", "forgotten < 0"},
    {"max_rows", "max_rows < 0"},
    {"max_bytes", "max_bytes < 0"},
};

/* ---- the tables ---- */

struct table {
    const char *check;
    const char *dest; /* in SQL: whose row it is */
    const char *row;  /* in SQL: how the row is named */
    const char *from;
    const struct never *nevers;
    size_t count;
};

#define LIST(nevers) nevers, sizeof(nevers) / sizeof((nevers)[0])

static const struct table tables[] = {
    {"dest", "name", "''", "outbox_dest", LIST(dest)},
    {"cursor", "dest", "'lane ' || lane || ': '", "outbox_cursor",
        LIST(cursor)},
    {"log", "dest", "'row ' || seq || ': '", "outbox", LIST(message)},
    {"log", "dest", "'row ' || seq || ': '", "outbox", LIST(headers)},
    {"total", "NULL", "'row ' || seq || ': '", "outbox_sum", LIST(total)},
    {"held", "dest", "'row ' || seq || ': '", "outbox_held", LIST(held)},
    {"held", "dest", "'row ' || seq || ': '", "outbox_held", LIST(message)},
    {"held", "dest", "'row ' || seq || ': '", "outbox_held", LIST(headers)},
    {"acks", "dest", "'row ' || upto || ': '", "outbox_acks", LIST(acks)},
    {"late", "dest", "'row ' || seq || ': '", "outbox_late", LIST(late)},
    {"lost", "dest", "'rows to ' || hi || ': '", "outbox_lost", LIST(lost)},
    {"seen", "dest", "'mark ' || n || ': '", "outbox_seen", LIST(seen)},
    {"meta", "NULL", "''", META, LIST(meta)},
    {"inbox", "NULL", "'command ' || arrival || ': '", "inbox", LIST(inbox)},
    {"inbox", "NULL", "'command ' || arrival || ': '", "inbox", LIST(headers)},
    {"inbox", "NULL", "'total: '", "inbox_sum", LIST(inbox_sum)},
};

/* Large enough for every table; what is cut does not run. */
enum { SQL_SIZE = 4096 };

static void append(char sql[SQL_SIZE], const char *text)
{
    size_t used = strlen(sql);

    (void)snprintf(sql + used, SQL_SIZE - used, "%s", text);
}

static void append_never(char sql[SQL_SIZE], const struct never *n)
{
    append(sql, " WHEN ");
    append(sql, n->when);
    append(sql, " THEN '");
    append(sql, n->column);
    append(sql, " cannot be ' || substr(quote(");
    append(sql, n->column);
    append(sql, "), 1, 60)");
}

static void write_query(char sql[SQL_SIZE], const struct table *t)
{
    sql[0] = '\0';
    append(sql, "SELECT ");
    append(sql, t->dest);
    append(sql, ", ifnull(");
    append(sql, t->row);
    append(sql, ", '') || why FROM (SELECT *, CASE");
    for (size_t i = 0; i < t->count; i++)
        append_never(sql, &t->nevers[i]);
    append(sql, " END AS why FROM ");
    append(sql, t->from);
    append(sql, ") WHERE why NOT NULL");
}

void postbag__verify_no_message(char sql[VERIFY_NO_MESSAGE])
{
    size_t used =
        (size_t)snprintf(sql, VERIFY_NO_MESSAGE, "(%s)", headers[0].when);

    for (size_t i = 0; i < sizeof(message) / sizeof(message[0]); i++)
        used += (size_t)snprintf(
            sql + used, VERIFY_NO_MESSAGE - used, " OR (%s)", message[i].when);
}

int postbag__verify_values(struct db *db, const struct postbag_verify *v)
{
    char sql[SQL_SIZE];
    int err = 0;

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        const struct verify_rule rule = {tables[i].check, sql};

        write_query(sql, &tables[i]);
        err = postbag__verify_run(db, v, &rule);
        if (err != 0)
            break;
    }
    return err;
}
