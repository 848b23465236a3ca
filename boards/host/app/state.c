/* SPDX-License-Identifier: MIT */
/* See state.h.  This is the file to copy from. */
#include "state.h"

#include <stdio.h>
#include <string.h>

#include "ledger.h"
#include "names.h"
#include "postbag/linux.h"
#include "sql.h"

enum { LOCK_WAIT_MS = 5000, TRIES = 5 };

/* What a reading did to its sensor's row. */
struct change {
    int64_t version; /* how many readings there were */
    double counted;  /* since the counter was reset */
    int is_alarm;
};

/* ---- open and close ---------------------------------------------------- */

/* FULL: a reading is on disk when the transaction returns, and so is its
   message, as one.  The engine checkpoints, so we never do. */
static const char settings[] = "PRAGMA journal_mode = WAL;"
                               "PRAGMA synchronous = FULL;"
                               "PRAGMA wal_autocheckpoint = 0;";

static const char tables[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS sensor("
    " name TEXT PRIMARY KEY, value REAL NOT NULL, version INTEGER NOT NULL,"
    " base REAL NOT NULL, resets INTEGER NOT NULL DEFAULT 0,"
    " alarm_at REAL, alarms INTEGER NOT NULL DEFAULT 0) STRICT;"
    "CREATE TABLE IF NOT EXISTS setting("
    " name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;"
    "INSERT OR IGNORE INTO setting VALUES ('interval_ms', 15);"
    "CREATE TABLE IF NOT EXISTS effect("
    " command TEXT NOT NULL, topic TEXT NOT NULL) STRICT;" LEDGER_TABLE
    "COMMIT;";

static const char update_sql[] =
    "INSERT INTO sensor(name, value, version, base, alarm_at)"
    " VALUES (?1, ?2, 1, ?2, nullif(?3, 0.0))"
    " ON CONFLICT(name) DO UPDATE SET value = excluded.value,"
    "  version = version + 1, base = min(base, excluded.value),"
    "  alarm_at = ifnull(alarm_at, excluded.alarm_at)"
    " RETURNING version, value - base, ifnull(value - base >= alarm_at, 0)";

static const char alarm_sql[] =
    "UPDATE sensor SET alarms = alarms + 1, alarm_at = value - base + ?2"
    " WHERE name = ?1 RETURNING alarms";

static const char interval_sql[] =
    "SELECT value FROM setting WHERE name = 'interval_ms'";

static int open_writer(struct state *s, struct postbag *engine)
{
    const struct postbag_writer_config config = {
        .struct_size = sizeof(config),
        .db = s->db,
        .port = postbag_linux_port(),
        .engine = engine,
    };
    struct postbag_fault why;
    int err = postbag_writer_open(&s->writer, &config, &why);

    if (err != POSTBAG_OK)
        (void)fprintf(stderr, "<3>writer: %s\n", why.text);
    return err;
}

int state_open(struct state *s, const char *path, struct postbag *engine)
{
    int rc = sqlite3_open(path, &s->db);
    int err = sql_error(s->db, rc);

    if (err != POSTBAG_OK)
        return err;
    (void)sqlite3_busy_timeout(s->db, LOCK_WAIT_MS);
    err = sql_exec(s->db, settings);
    if (err == POSTBAG_OK)
        err = sql_exec(s->db, tables);
    if (err == POSTBAG_OK)
        err = sql_prepare(s->db, &s->update, update_sql);
    if (err == POSTBAG_OK)
        err = sql_prepare(s->db, &s->alarm, alarm_sql);
    if (err == POSTBAG_OK)
        err = sql_prepare(s->db, &s->interval, interval_sql);
    return err == POSTBAG_OK ? open_writer(s, engine) : err;
}

void state_close(struct state *s)
{
    postbag_writer_close(s->writer);
    (void)sqlite3_finalize(s->update);
    (void)sqlite3_finalize(s->alarm);
    (void)sqlite3_finalize(s->interval);
    (void)sqlite3_close(s->db);
    memset(s, 0, sizeof(*s));
}

/* ---- one reading ------------------------------------------------------- */

static int update_sensor(struct state *s, const struct sensor *sensor,
    double value, struct change *out)
{
    sqlite3_bind_text(s->update, 1, sensor->name, -1, SQLITE_STATIC);
    sqlite3_bind_double(s->update, 2, value);
    sqlite3_bind_double(s->update, 3, sensor->alarm_every);
    if (sqlite3_step(s->update) == SQLITE_ROW) {
        out->version = sqlite3_column_int64(s->update, 0);
        out->counted = sqlite3_column_double(s->update, 1);
        out->is_alarm = sqlite3_column_int(s->update, 2);
    }
    return sql_finish(s->update);
}

static int count_alarm(
    struct state *s, const struct sensor *sensor, int64_t *count_out)
{
    sqlite3_bind_text(s->alarm, 1, sensor->name, -1, SQLITE_STATIC);
    sqlite3_bind_double(s->alarm, 2, sensor->alarm_every);
    if (sqlite3_step(s->alarm) == SQLITE_ROW)
        *count_out = sqlite3_column_int64(s->alarm, 0);
    return sql_finish(s->alarm);
}

/* m lacks only what is the same for all. */
static int put(struct state *s, struct postbag_message *m, const char *kind)
{
    struct postbag_id id;
    int err;

    m->struct_size = sizeof(*m);
    m->content_type = "application/json";
    m->is_text = 1;
    m->payload_len = strlen(m->payload);
    err = postbag_put(s->writer, m, &id);
    if (err == POSTBAG_OK)
        err = ledger_add(s->db, &id, kind);
    return err;
}

static int put_reading(struct state *s, const struct sensor *sensor,
    double value, int64_t version, const struct postbag_id *id)
{
    char topic[80];
    char payload[120];
    struct postbag_message m = {
        .topic = topic,
        .payload = payload,
        .id = id,
        .key = sensor->name, /* readings of one sensor leave in order */
        .key_version = version,
        .type = "com.example.reading",
    };

    (void)snprintf(topic, sizeof(topic), TOPIC_EVENTS "%s", sensor->name);
    (void)snprintf(payload, sizeof(payload),
        "{\"value\":%.12g,\"unit\":\"%s\"}", value, sensor->unit);
    return put(s, &m, "reading");
}

static int put_alarm(
    struct state *s, const struct sensor *sensor, double counted)
{
    char topic[80];
    char key[80];
    char payload[120];
    struct postbag_message m = {
        .topic = topic,
        .payload = payload,
        .key = key,
        .type = "com.example.alarm",
        .priority = 2, /* overtakes a backlog of readings */
    };
    int err = count_alarm(s, sensor, &m.key_version);

    if (err != POSTBAG_OK)
        return err;
    (void)snprintf(topic, sizeof(topic), TOPIC_ALARMS "%s", sensor->name);
    (void)snprintf(key, sizeof(key), "alarm/%s", sensor->name);
    (void)snprintf(payload, sizeof(payload),
        "{\"counted\":%.12g,\"unit\":\"%s\"}", counted, sensor->unit);
    return put(s, &m, "alarm");
}

/* The state and all messages about it, in the open transaction. */
static int write_all(struct state *s, const struct sensor *sensor, double value,
    const struct postbag_id *id)
{
    struct change change = {0};
    int err = update_sensor(s, sensor, value, &change);

    if (err == POSTBAG_OK)
        err = put_reading(s, sensor, value, change.version, id);
    if (err == POSTBAG_OK && change.is_alarm)
        err = put_alarm(s, sensor, change.counted);
    return err;
}

/* One transaction.  is_unknown: the one before may have committed. */
static int attempt(struct state *s, const struct sensor *sensor, double value,
    const struct postbag_id *id, int is_unknown)
{
    int is_stored = 0;
    int err = postbag_begin(s->writer);

    if (err != POSTBAG_OK)
        return err;
    if (is_unknown)
        err = postbag_find(s->writer, id, &is_stored);
    if (err == POSTBAG_OK && !is_stored)
        err = write_all(s, sensor, value, id);
    if (err == POSTBAG_OK && !is_stored)
        return postbag_commit(s->writer);
    postbag_rollback(s->writer);
    return err;
}

int state_record(struct state *s, const struct sensor *sensor, double value)
{
    struct postbag_id id;
    int is_unknown = 0;
    int err = postbag_id_new(postbag_linux_port(), &id);

    if (err != POSTBAG_OK)
        return err;
    for (int i = 0; i < TRIES; i++) {
        err = attempt(s, sensor, value, &id, is_unknown);
        if (err != POSTBAG_EBUSY && err != POSTBAG_EIO)
            break;
        is_unknown |= err == POSTBAG_EIO;
    }
    if (err != POSTBAG_OK)
        (void)fprintf(
            stderr, "<3>reading: %s\n", postbag_writer_fault(s->writer)->text);
    return err;
}

int state_interval_ms(struct state *s, int *out)
{
    if (sqlite3_step(s->interval) == SQLITE_ROW)
        *out = sqlite3_column_int(s->interval, 0);
    return sql_finish(s->interval);
}
