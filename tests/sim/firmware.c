/* SPDX-License-Identifier: MIT */
/*
 * What firmware does: a change of its own state (a row of "story") and
 * messages in one transaction, by the writer or by plain SQL, with savepoints;
 * and the effects of commands.  The book keeps what it was told.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "invariants.h"
#include "postbag/pull.h"
#include "world.h"

static int run(struct process *p, const char *sql)
{
    return sqlite3_exec(p->db, sql, NULL, NULL, NULL);
}

static int tell_story(sqlite3 *db, int txn, int command)
{
    char sql[80];

    (void)snprintf(
        sql, sizeof(sql), "INSERT INTO story VALUES(%d, %d)", txn, command);
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* It has none yet, or this is one too many. */
static int write_effect(sqlite3 *db, int command)
{
    char sql[160];

    (void)snprintf(sql, sizeof(sql),
        "INSERT INTO effects VALUES('c%d', 1)"
        " ON CONFLICT(command) DO UPDATE SET times = times + 1",
        command);
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* ---- the end of a transaction ---- */

static void over(struct process *p, enum outcome outcome, int is_durable)
{
    struct firmware *f = &p->firmware;

    say(p->world, "p%d t%d %s", p->index, f->txn,
        outcome == COMMITTED ? "committed"
        : outcome == GONE    ? "rolled back"
                             : "unknown");
    book_end(p->world, f->txn, outcome, is_durable);
    f->txn = f->savepoint = f->pulled = -1;
}

static void roll_back(struct process *p)
{
    postbag_rollback(p->writer);
    over(p, GONE, 0);
}

/* SQLite may have ended the transaction by itself. */
static int is_lost(struct process *p)
{
    if (p->firmware.txn < 0 || !sqlite3_get_autocommit(p->db))
        return 0;
    roll_back(p);
    return 1;
}

/* With its process what was not committed is gone.  The ids of what it does not
 * know the outcome of it has in a file of its own. */
void firmware_forget(struct process *p)
{
    if (p->firmware.txn >= 0)
        roll_back(p);
}

static int commit(struct process *p)
{
    if (!p->firmware.is_plain)
        return postbag_commit(p->writer);
    switch (run(p, "COMMIT") & 0xff) {
    case SQLITE_OK:
        port_changed(p->world, NULL);
        return POSTBAG_OK;
    case SQLITE_BUSY:
        return POSTBAG_EBUSY;
    default:
        return POSTBAG_EIO;
    }
}

static void end_with_commit(struct process *p)
{
    struct world *w = p->world;
    struct firmware *f = &p->firmware;
    int pulled = f->pulled;
    int txn = f->txn;
    int err = commit(p);

    if (p->is_dying || err == POSTBAG_EIO) {
        over(p, UNKNOWN, 0);
        postbag_rollback(p->writer);
        if (pulled < 0 && w->book.txns[txn].count > 0)
            f->retry = txn;
    } else if (err == POSTBAG_OK) {
        over(p, COMMITTED, w->p.is_full_writer);
        if (pulled >= 0)
            happened(w, PULLED);
        port_changed(w, p);
    } else {
        roll_back(p);
    }
}

/* ---- the beginning ---- */

static int begin(struct process *p, int is_plain, int command)
{
    struct firmware *f = &p->firmware;
    int err = is_plain ? run(p, "BEGIN IMMEDIATE") : postbag_begin(p->writer);

    if (err != 0) {
        if (err == SQLITE_BUSY || err == POSTBAG_EBUSY)
            happened(p->world, BUSY);
        return 0;
    }
    f->is_plain = is_plain;
    f->txn = book_begin(p->world, command);
    if (f->txn < 0) {
        postbag_rollback(p->writer);
        return 0;
    }
    if (tell_story(p->db, f->txn, command) != SQLITE_OK)
        roll_back(p);
    return f->txn >= 0;
}

/* ---- messages ---- */

static void draw_message(struct world *w, struct message *m)
{
    m->key = w->p.keys == 0 ? 0 : (int)luck_below(&w->luck, w->p.keys + 1);
    if (luck_hits(&w->luck, w->p.urgent))
        m->lane = 1 + (int)luck_below(&w->luck, 3);
    if (luck_hits(&w->luck, w->p.coalesces))
        m->coalesce = 1 + (int)luck_below(&w->luck, 3);
    if (w->p.ttl_ms != 0 && luck_hits(&w->luck, 200))
        m->ttl_ms = 1 + luck_below(&w->luck, w->p.ttl_ms);
    m->is_poison = strikes(w, POISON);
}

struct texts {
    char topic[24], key[8], coalesce[8], payload[128];
};

static void spell(struct world *w, const struct message *m, struct texts *out)
{
    (void)snprintf(
        out->topic, sizeof(out->topic), "up/m%d", (int)(m - w->book.messages));
    (void)snprintf(out->key, sizeof(out->key), "k%d", m->key);
    (void)snprintf(out->coalesce, sizeof(out->coalesce), "v%d", m->coalesce);
    memset(out->payload, 'x', sizeof(out->payload));
}

static int put_by_call(
    struct postbag_writer *writer, struct world *w, struct message *m)
{
    struct texts t;
    struct postbag_id id;
    struct postbag_message out = {.struct_size = sizeof(out),
        .topic = t.topic,
        .payload = t.payload,
        .payload_len = (size_t)m->put_us % sizeof(t.payload),
        .id = &id,
        .key = m->key == 0 ? NULL : t.key,
        .coalesce = m->coalesce == 0 ? NULL : t.coalesce,
        .priority = (unsigned)m->lane,
        .ttl_ms = m->ttl_ms};

    memcpy(id.b, m->id, 16);
    spell(w, m, &t);
    m->is_stamped = 1;
    return postbag_put(writer, &out, NULL);
}

static int put_by_sql(struct process *p, struct message *m)
{
    struct texts t;
    char *sql;
    int rc;

    spell(p->world, m, &t);
    sql = sqlite3_mprintf(
        "INSERT INTO outbox(id, topic, payload, key, coalesce, priority, "
        "ttl_ms)"
        " VALUES(?1, %Q, 'by sql', %Q, %Q, %d, nullif(%lld, 0))",
        t.topic, m->key == 0 ? NULL : t.key,
        m->coalesce == 0 ? NULL : t.coalesce, m->lane, (long long)m->ttl_ms);
    sqlite3_stmt *s = NULL;
    rc = sqlite3_prepare_v2(p->db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK) {
        (void)sqlite3_bind_blob(s, 1, m->id, 16, SQLITE_STATIC);
        (void)sqlite3_step(s);
        rc = sqlite3_finalize(s);
    }
    sqlite3_free(sql);
    return rc;
}

static void put(struct process *p)
{
    struct world *w = p->world;
    struct postbag_id id;
    struct message *m;
    int err;

    if (p->is_dying || w->book.message_count >= w->p.most_messages)
        return;
    (void)p->port.uuid(p, id.b);
    m = book_put(w, p->firmware.txn, id.b);
    if (m == NULL)
        return;
    draw_message(w, m);
    if (w->p.has_plain_writers && luck_hits(&w->luck, 300)) {
        err = put_by_sql(p, m);
        happened(w, PUT_BY_SQL);
    } else {
        err = put_by_call(p->writer, w, m);
    }
    say(w, "p%d t%d puts m%d key %d lane %d: %d", p->index, p->firmware.txn,
        (int)(m - w->book.messages), m->key, m->lane, err);
    if (err != 0) {
        happened(w, PUT_REFUSED);
        book_take_back(w, m);
    }
}

/* ---- savepoints ---- */

static void savepoint(struct process *p)
{
    struct world *w = p->world;
    struct firmware *f = &p->firmware;

    if (f->savepoint < 0) {
        if (run(p, "SAVEPOINT s") == SQLITE_OK)
            f->savepoint = w->book.message_count;
        return;
    }
    if (run(p, "ROLLBACK TO s") != SQLITE_OK)
        return;
    for (int i = f->savepoint; i < w->book.message_count; i++)
        if (w->book.messages[i].txn == f->txn)
            w->book.messages[i].is_back = 1;
    (void)run(p, "RELEASE s");
    f->savepoint = -1;
    happened(w, SAVEPOINT_BACK);
    say(w, "p%d t%d back to its savepoint", p->index, f->txn);
}

/* ---- a COMMIT whose outcome is unknown ---- */

static struct message *first_of(struct world *w, int txn)
{
    struct txn *t = &w->book.txns[txn];

    for (int i = t->first; i < w->book.message_count; i++)
        if (w->book.messages[i].txn == txn && !w->book.messages[i].is_back)
            return &w->book.messages[i];
    return NULL;
}

/* The same messages once more, in a new transaction. */
static void put_again(struct process *p, int old)
{
    struct world *w = p->world;
    int count = w->book.message_count;

    for (int i = w->book.txns[old].first; i < count; i++) {
        struct message *m = &w->book.messages[i];

        if (m->txn != old || m->is_back)
            continue;
        m->txn = p->firmware.txn;
        m->put_us = w->now_us;
        m->boot = w->boot;
        if (put_by_call(p->writer, w, m) != POSTBAG_OK)
            m->is_back = 1;
    }
    if (!is_lost(p))
        end_with_commit(p);
}

static void settle_unknown(struct process *p)
{
    struct world *w = p->world;
    struct firmware *f = &p->firmware;
    struct message *m = first_of(w, f->retry);
    struct postbag_id id;
    int old = f->retry;
    int is_stored = 0;

    if (m == NULL || (m->seq != 0 && m->seq < w->seen.oldest)) {
        f->retry = -1;
        return;
    }
    if (!begin(p, 0, -1))
        return;
    memcpy(id.b, m->id, 16);
    if (postbag_find(p->writer, &id, &is_stored) != POSTBAG_OK) {
        roll_back(p);
        return;
    }
    f->retry = -1;
    happened(w, FOUND);
    check_found(w, old, is_stored);
    if (is_stored)
        roll_back(p);
    else
        put_again(p, old);
}

/* ---- effects of commands ---- */

static void reply(struct world *w, struct process *p, int txn,
    const struct postbag_command *cmd, struct postbag_writer *writer)
{
    struct postbag_id id;
    struct postbag_message out = {
        .struct_size = sizeof(out), .payload = "ok", .payload_len = 2};
    struct message *m;

    if (!luck_hits(&w->luck, 500))
        return;
    (void)p->port.uuid(p, id.b);
    m = book_put(w, txn, id.b);
    if (m == NULL)
        return;
    out.id = &id;
    m->is_stamped = 1;
    m->is_reply = 1;
    if (postbag_reply(writer, cmd, &out, NULL) == POSTBAG_OK)
        happened(w, REPLIED);
    else
        book_take_back(w, m);
}

static int number_of(const struct postbag_command *cmd)
{
    char text[16] = "";

    memcpy(text, cmd->id, cmd->id_len < 15 ? cmd->id_len : 15);
    return number_of_command(text);
}

int firmware_handles(struct process *p, const struct postbag_command *cmd,
    struct postbag_writer *writer)
{
    struct world *w = p->world;
    int command = number_of(cmd);
    int txn = book_begin(w, command);
    int is_rejected = strikes(w, HANDLER_REJECTS);
    sqlite3 *db = postbag_writer_db(writer);
    int rc = tell_story(db, txn, command);

    S7_command_in_order(w, command, cmd->arrival);

    if (rc == SQLITE_OK)
        rc = write_effect(db, command);
    say(w, "p%d handles c%d as t%d", p->index, command, txn);
    if (rc != SQLITE_OK || is_rejected || strikes(w, HANDLER_RETRIES)) {
        happened(w, is_rejected ? HANDLER_REJECTS : HANDLER_RETRIES);
        book_end(w, txn, GONE, 0);
        w->book.commands[command].is_rejected |= is_rejected;
        return is_rejected ? POSTBAG_REJECT : POSTBAG_RETRY;
    }
    reply(w, p, txn, cmd, writer);
    book_end(w, txn, UNKNOWN, 0);
    return POSTBAG_DONE;
}

static void pull(struct process *p)
{
    struct world *w = p->world;
    struct postbag_command cmd = {.struct_size = sizeof(cmd)};
    int command;

    if (!begin(p, 0, -1))
        return;
    if (postbag_inbox_next(p->writer, "pull", &cmd) != POSTBAG_OK) {
        roll_back(p);
        return;
    }
    command = number_of(&cmd);
    p->firmware.pulled = command;
    S7_command_in_order(w, command, cmd.arrival);
    if (write_effect(p->db, command) != SQLITE_OK) {
        roll_back(p);
        return;
    }
    reply(w, p, p->firmware.txn, &cmd, p->writer);
    if (postbag_inbox_done(p->writer, cmd.arrival) != POSTBAG_OK)
        roll_back(p);
    else if (!is_lost(p))
        end_with_commit(p);
}

/* ---- what next? ---- */

static void act(struct process *p)
{
    struct world *w = p->world;
    struct firmware *f = &p->firmware;
    uint32_t what = luck_below(&w->luck, 100);

    if (f->txn < 0) {
        if (f->retry >= 0)
            settle_unknown(p);
        else if (what < 25 || w->is_healed)
            pull(p);
        else
            (void)begin(
                p, w->p.has_plain_writers && luck_hits(&w->luck, 300), -1);
    } else if (is_lost(p)) {
        return;
    } else if (w->is_healed || what < 30) {
        end_with_commit(p);
    } else if (what < 38) {
        roll_back(p);
    } else if (what < 50) {
        savepoint(p);
    } else {
        for (uint32_t n = 1 + luck_below(&w->luck, w->p.batch);
             n > 0 && !is_lost(p); n--)
            put(p);
    }
}

void firmware_step(struct process *p)
{
    struct process *before = process_enter(p);

    act(p);
    if (!p->is_dying)
        (void)is_lost(p);
    process_leave(p->world, before);
    (void)process_bury(p);
}
