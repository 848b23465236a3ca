/* SPDX-License-Identifier: MIT */
/*
 * postbag_put: rows into the outbox in the caller's own transaction, on the
 * caller's own connection and thread.  Nothing of the connection is changed.
 */
#include "writer.h"

#include <string.h>

#include "abi.h"
#include "error.h"
#include "mem.h"
#include "message.h"
#include "topicfilter.h"

enum { BEGIN_TIMEOUT_MS = 5000, FIND_ROWS = 10000 };

static const char insert_sql[] =
    "INSERT INTO main.outbox(id, topic, payload, key, key_version, type,"
    " content_type, headers, priority, retain, dest, ttl_ms, coalesce,"
    " created_ms, boot, mono_ms) VALUES"
    " (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16)";

/* Is it JSON, and which of its names is reserved? */
static const char check_headers_sql[] =
    "SELECT json_valid(?1), iif(json_valid(?1), (SELECT key FROM json_each(?1)"
    " WHERE key IN (" POSTBAG__RESERVED_HEADERS ") LIMIT 1), NULL)";

/* ---- open and close ---- */

static int prepare_all(struct postbag_writer *w)
{
    int err = w->port->boot_id(w->port->ctx, w->boot);

    if (err != POSTBAG_OK)
        return postbag__fail(&w->db.fault, err, "the port has no boot id");
    err = postbag__rollback_prepare(&w->db);
    if (err == POSTBAG_OK)
        err = postbag__prepare(&w->db, &w->insert, insert_sql);
    if (err == POSTBAG_OK)
        err = postbag__prepare(&w->db, &w->begin, "BEGIN IMMEDIATE");
    if (err == POSTBAG_OK)
        err = postbag__prepare(&w->db, &w->check_headers, check_headers_sql);
    if (err == POSTBAG_OK)
        err = postbag__gauge_open(&w->gauge, &w->db, w->port);
    return err;
}

int postbag__writer_open(struct postbag_writer **out, struct sqlite3 *handle,
    const struct postbag_port *port, struct shared *shared,
    struct postbag_fault *why)
{
    struct postbag_writer *w = postbag__alloc(sizeof(*w));
    int err;

    *out = NULL;
    if (w == NULL)
        return postbag__fail(why, POSTBAG_ENOMEM, "no memory for a writer");
    w->port = port;
    w->shared = shared;
    w->begin_timeout_ms = BEGIN_TIMEOUT_MS;
    err = postbag__db_borrow(&w->db, handle);
    if (err == POSTBAG_OK)
        err = postbag__shm_back(&w->db, port, 0);
    if (err == POSTBAG_OK)
        err = postbag__schema_check(&w->db);
    if (err == POSTBAG_OK)
        err = prepare_all(w);
    if (err != POSTBAG_OK) {
        (void)postbag__pass(why, &w->db.fault);
        postbag_writer_close(w);
        return err;
    }
    *out = w;
    return POSTBAG_OK;
}

static int check_busy_timeout(struct postbag_writer *w)
{
    int64_t ms = 0;
    int err = postbag__db_pragma(&w->db, "busy_timeout", &ms);

    if (err == POSTBAG_OK && ms == 0)
        err = postbag__fail(&w->db.fault, POSTBAG_ESTATE,
            "the connection has no busy timeout, but the file has two"
            " writers: sqlite3_busy_timeout(db, 5000)");
    return err;
}

static int adopt_config(struct postbag_writer_config *to,
    const struct postbag_writer_config *config, struct postbag_fault *why)
{
    int err = config == NULL ? POSTBAG_EINVAL
                             : postbag__adopt(to, sizeof(*to), config);

    if (err != POSTBAG_OK)
        return postbag__fail(
            why, err, "writer: struct_size is not set, or unknown fields are");
    if (to->db == NULL || to->port == NULL)
        return postbag__fail(
            why, POSTBAG_EINVAL, "writer: db and port are required");
    if (to->reply_topics != NULL &&
        !postbag__filters_are_valid(to->reply_topics))
        return postbag__fail(why, POSTBAG_EINVAL,
            "writer: reply_topics is not a list of MQTT topic filters");
    return POSTBAG_OK;
}

int postbag_writer_open(struct postbag_writer **out,
    const struct postbag_writer_config *config, struct postbag_fault *why)
{
    struct postbag_writer_config mine = {0};
    struct postbag_writer *w;
    int err;

    if (out == NULL)
        return postbag__fail(why, POSTBAG_EINVAL, "writer: out is NULL");
    *out = NULL;
    err = adopt_config(&mine, config, why);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__writer_open(
        &w, mine.db, mine.port, postbag__engine_shared(mine.engine), why);
    if (w == NULL)
        return err;
    if (mine.begin_timeout_ms != 0)
        w->begin_timeout_ms = mine.begin_timeout_ms;
    w->reply_topics = mine.reply_topics;
    if (!mine.allow_no_busy_timeout)
        err = check_busy_timeout(w);
    if (err != POSTBAG_OK) {
        (void)postbag__pass(why, &w->db.fault);
        postbag_writer_close(w);
        return err;
    }
    *out = w;
    return POSTBAG_OK;
}

void postbag_writer_close(struct postbag_writer *w)
{
    if (w == NULL)
        return;
    if (w->holds_gate)
        postbag__gate_leave(w->shared);
    postbag__finalize(&w->insert);
    postbag__finalize(&w->begin);
    postbag__finalize(&w->check_headers);
    postbag__gauge_close(&w->gauge);
    postbag__free(w->result);
    postbag__arena_free(&w->pulled);
    postbag__db_close(&w->db);
    postbag__free(w);
}

struct sqlite3 *postbag_writer_db(struct postbag_writer *w)
{
    return w->db.handle;
}

const struct postbag_fault *postbag_writer_fault(const struct postbag_writer *w)
{
    return &w->db.fault;
}

/* ---- transactions ---- */

static void leave_gate(struct postbag_writer *w)
{
    if (w->holds_gate)
        postbag__gate_leave(w->shared);
    w->holds_gate = 0;
}

int postbag_begin(struct postbag_writer *w)
{
    int err;

    if (postbag__in_transaction(&w->db))
        return postbag__fail(&w->db.fault, POSTBAG_ESTATE,
            "a transaction is open on this connection already");
    leave_gate(w); /* of a transaction that ended without us */
    err = postbag__gate_enter(w->shared, w->begin_timeout_ms);
    if (err != POSTBAG_OK)
        return postbag__fail(&w->db.fault, err, "no turn at the gate in %lu ms",
            (unsigned long)w->begin_timeout_ms);
    w->holds_gate = 1;
    w->newest = 0;
    err = postbag__run(&w->begin);
    if (err != POSTBAG_OK)
        leave_gate(w);
    return err;
}

void postbag__writer_committed(struct postbag_writer *w, int is_full)
{
    if (w->newest == 0 || w->shared == NULL)
        return;
    if (is_full)
        postbag__note_durable(w->shared, w->newest);
    w->shared->port->wake(w->shared->port->ctx, w->shared->wake);
    w->newest = 0;
}

/* Was the commit that just returned on disk?  The level is the
 * application's and may change at any time, so it is read each time. */
static int commits_full(struct postbag_writer *w)
{
    int64_t level = 0;

    if (w->newest == 0 || w->shared == NULL)
        return 0;
    return postbag__db_pragma(&w->db, "main.synchronous", &level) ==
               POSTBAG_OK &&
           level >= DB_FULL;
}

int postbag_commit(struct postbag_writer *w)
{
    int is_full;
    int err;

    if (!postbag__in_transaction(&w->db)) {
        leave_gate(w);
        return postbag__fail(&w->db.fault, POSTBAG_ENOTXN,
            "no transaction is open on this connection");
    }
    is_full = commits_full(w);
    err = postbag__commit(&w->db);
    leave_gate(w);
    if (err == POSTBAG_OK)
        postbag__writer_committed(w, is_full);
    return err;
}

void postbag_rollback(struct postbag_writer *w)
{
    postbag__rollback(&w->db);
    w->newest = 0;
    leave_gate(w);
}

/* ---- put ---- */

static void bind_text_or_null(struct stmt *s, int index, const char *text)
{
    if (text != NULL)
        postbag__bind_text(s, index, text);
}

static void bind_positive(struct stmt *s, int index, int64_t value)
{
    if (value != 0)
        postbag__bind_i64(s, index, value);
}

static void bind_message(struct postbag_writer *w,
    const struct postbag_message *m, const struct postbag_id *id)
{
    const struct postbag_port *port = w->port;
    struct stmt *s = &w->insert;

    postbag__bind_blob(s, 1, id->b, sizeof(id->b));
    postbag__bind_text(s, 2, m->topic);
    if (m->is_text)
        postbag__bind_text_n(s, 3, m->payload, m->payload_len);
    else
        postbag__bind_blob(s, 3, m->payload, m->payload_len);
    bind_text_or_null(s, 4, m->key);
    bind_positive(s, 5, m->key_version);
    bind_text_or_null(s, 6, m->type);
    bind_text_or_null(s, 7, m->content_type);
    bind_text_or_null(s, 8, m->headers);
    postbag__bind_i64(s, 9, m->priority);
    postbag__bind_i64(s, 10, m->retain != 0);
    bind_text_or_null(s, 11, m->dest);
    bind_positive(s, 12, m->ttl_ms);
    bind_text_or_null(s, 13, m->coalesce);
    postbag__bind_i64(s, 14, port->wall_ms(port->ctx));
    postbag__bind_blob(s, 15, w->boot, sizeof(w->boot));
    postbag__bind_i64(s, 16, port->mono_us(port->ctx) / 1000);
}

/* The trigger refuses them too, but cannot name the field or the header. */
static int check_headers(struct postbag_writer *w, const char *headers)
{
    const char *reserved;
    int err;

    if (headers == NULL)
        return POSTBAG_OK;
    postbag__bind_text(&w->check_headers, 1, headers);
    err = postbag__row(&w->check_headers);
    if (err < 0)
        return err;
    reserved = postbag__col_text(&w->check_headers, 1);
    err = POSTBAG_OK;
    if (postbag__col_i64(&w->check_headers, 0) == 0)
        err = postbag__fail(
            &w->db.fault, POSTBAG_EINVAL, "headers is not well-formed JSON");
    else if (reserved != NULL)
        err = postbag__fail(&w->db.fault, POSTBAG_EINVAL,
            "no header may be named %s: a column holds it, or Postbag sets it",
            reserved);
    postbag__reset(&w->check_headers);
    return err;
}

static int take_id(struct postbag_writer *w, const struct postbag_message *m,
    struct postbag_id *out)
{
    if (m->id == NULL)
        return postbag_id_new(w->port, out);
    *out = *m->id;
    return POSTBAG_OK;
}

int postbag_put(struct postbag_writer *w, const struct postbag_message *m,
    struct postbag_id *id_out)
{
    struct postbag_message mine;
    struct postbag_id id;
    int err =
        m == NULL ? POSTBAG_EINVAL : postbag__adopt(&mine, sizeof(mine), m);

    if (err != POSTBAG_OK)
        return postbag__fail(&w->db.fault, err,
            "message: struct_size is not set, or unknown fields are");
    err = postbag__message_check(&mine, &w->db.fault);
    if (err != POSTBAG_OK)
        return err;
    if (!postbag__in_transaction(&w->db))
        return postbag__fail(&w->db.fault, POSTBAG_ENOTXN,
            "put needs an open transaction: postbag_begin or your own"
            " BEGIN IMMEDIATE");
    err = check_headers(w, mine.headers);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__room_check(&w->gauge.room, w->port->mono_us(w->port->ctx));
    if (err != POSTBAG_OK)
        return err;
    err = take_id(w, &mine, &id);
    if (err != POSTBAG_OK)
        return postbag__fail(&w->db.fault, err, "no random bytes for an id");
    bind_message(w, &mine, &id);
    err = postbag__run(&w->insert);
    if (err != POSTBAG_OK)
        return err;
    w->newest = postbag__last_rowid(&w->db);
    if (id_out != NULL)
        *id_out = id;
    return POSTBAG_OK;
}

int postbag_find(
    struct postbag_writer *w, const struct postbag_id *id, int *stored_out)
{
    struct stmt s;
    int err = postbag__prepare(&w->db, &s,
        "SELECT EXISTS (SELECT 1 FROM main.outbox WHERE seq >"
        "  (SELECT max(seq) FROM main.outbox) - ?2 AND id = ?1)"
        " OR EXISTS (SELECT 1 FROM main.outbox_held WHERE id = ?1)");

    *stored_out = 0;
    if (err != POSTBAG_OK)
        return err;
    postbag__bind_blob(&s, 1, id->b, sizeof(id->b));
    postbag__bind_i64(&s, 2, FIND_ROWS);
    err = postbag__row(&s);
    if (err == 1)
        *stored_out = postbag__col_i64(&s, 0) != 0;
    postbag__finalize(&s);
    return err == 1 ? POSTBAG_OK : err;
}

int postbag_pressure(struct postbag_writer *w, struct postbag_pressure *out)
{
    struct postbag_pressure mine;
    size_t size;
    int err =
        out == NULL ? POSTBAG_EINVAL : postbag__adopt(&mine, sizeof(mine), out);

    if (err != POSTBAG_OK)
        return postbag__fail(
            &w->db.fault, err, "pressure: struct_size is not of this library");
    err = postbag__gauge_read(&w->gauge, &mine);
    if (err != POSTBAG_OK)
        return err;
    size = out->struct_size;
    mine.struct_size = size;
    memcpy(out, &mine, size < sizeof(mine) ? size : sizeof(mine));
    return POSTBAG_OK;
}
