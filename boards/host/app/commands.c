/* SPDX-License-Identifier: MIT */
/* See commands.h. */
#include "commands.h"

#include "ledger.h"
#include "names.h"
#include "sql.h"

/* ?1 is the payload.  What does not fit changes no row. */

#define INTERVAL_MS \
    "CAST(iif(json_valid(?1), json_extract(?1, '$.interval_ms'), 0) AS " \
    "INTEGER)"

static const char set_interval_sql[] =
    "UPDATE setting SET value = " INTERVAL_MS
    " WHERE name = 'interval_ms' AND " INTERVAL_MS " BETWEEN 5 AND 60000";

static const char reset_counter_sql[] =
    "UPDATE sensor SET base = value, alarm_at = NULL, resets = resets + 1"
    " WHERE name = iif(json_valid(?1), json_extract(?1, '$.counter'), NULL)";

static int change_state(
    sqlite3 *db, const char *sql, const struct postbag_command *cmd, int *rows)
{
    sqlite3_stmt *change;
    int err = sql_prepare(db, &change, sql);

    if (err != POSTBAG_OK)
        return err;
    sqlite3_bind_text(
        change, 1, cmd->payload, (int)cmd->payload_len, SQLITE_STATIC);
    (void)sqlite3_step(change);
    err = sql_finish(change);
    (void)sqlite3_finalize(change);
    *rows = sqlite3_changes(db);
    return err;
}

/* No UNIQUE here, so that an effect that happened twice would show. */
static int note_effect(sqlite3 *db, const struct postbag_command *cmd)
{
    sqlite3_stmt *insert;
    int err = sql_prepare(db, &insert, "INSERT INTO effect VALUES (?1, ?2)");

    if (err != POSTBAG_OK)
        return err;
    sqlite3_bind_text(insert, 1, cmd->id, (int)cmd->id_len, SQLITE_STATIC);
    sqlite3_bind_text(insert, 2, cmd->topic, -1, SQLITE_STATIC);
    (void)sqlite3_step(insert);
    err = sql_finish(insert);
    (void)sqlite3_finalize(insert);
    return err;
}

static int answer(struct postbag_writer *w, const struct postbag_command *cmd)
{
    static const char text[] = "{\"done\":true}";
    const struct postbag_message m = {
        .struct_size = sizeof(m),
        .payload = text,
        .payload_len = sizeof(text) - 1,
        .type = "com.example.done",
        .content_type = "application/json",
        .is_text = 1,
    };
    struct postbag_id id;
    int err = postbag_reply(w, cmd, &m, &id);

    /* the sender wants no answer, or at a place where we do not write */
    if (err == POSTBAG_ENOTFOUND || err == POSTBAG_EREFUSED)
        return POSTBAG_OK;
    if (err == POSTBAG_OK)
        err = ledger_add(postbag_writer_db(w), &id, "reply");
    return err;
}

static enum postbag_outcome apply(struct postbag_writer *w,
    const struct postbag_command *cmd, const char *sql)
{
    sqlite3 *db = postbag_writer_db(w);
    int rows = 0;
    int err = change_state(db, sql, cmd, &rows);

    if (err == POSTBAG_OK && rows == 0)
        return POSTBAG_REJECT; /* never fits: kept among the dead */
    if (err == POSTBAG_OK)
        err = note_effect(db, cmd);
    if (err == POSTBAG_OK)
        err = answer(w, cmd);
    return err == POSTBAG_OK ? POSTBAG_DONE : POSTBAG_RETRY;
}

static enum postbag_outcome set_interval(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    (void)ctx;
    return apply(w, cmd, set_interval_sql);
}

static enum postbag_outcome reset_counter(
    void *ctx, const struct postbag_command *cmd, struct postbag_writer *w)
{
    (void)ctx;
    return apply(w, cmd, reset_counter_sql);
}

int commands_register(struct postbag *engine)
{
    int err = postbag_on(
        engine, "set-interval", TOPIC_SET_INTERVAL, set_interval, NULL);

    if (err == POSTBAG_OK)
        err = postbag_on(
            engine, "reset-counter", TOPIC_RESET_COUNTER, reset_counter, NULL);
    return err;
}
