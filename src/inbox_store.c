/* SPDX-License-Identifier: MIT */
/* Inbox rows in SQL.  Invariant: a row is due until exactly one of done, dead
 * has changed it, each guarded by the state it expects. */
#include "inbox_store.h"

#include <string.h>

#include "backoff.h"
#include "error.h"
#include "order.h"

/* Which rows are unfinished; literally the condition of the indexes
 * inbox_due and inbox_order. */
#define UNFINISHED "state IN ('due', 'deferred')"

#define HEADER(name) \
    " CASE WHEN typeof(headers) = 'text' AND json_valid(headers)" \
    " THEN json_extract(headers, '$." name "') END"
#define TRACE \
    HEADER("traceparent") "," HEADER("tracestate") "," HEADER("correlationid")

/* Of i, the consumer ?1's. */
#define IS_FIRST \
    " AND (key IS NULL OR NOT EXISTS (SELECT 1 FROM main.inbox AS e" \
    "  WHERE e.consumer = ?1 AND e." UNFINISHED \
    "  AND e.state = 'due' AND e.arrival < i.arrival AND e.key = i.key))"

/* What load() reads. */
#define COLUMNS \
    "arrival, attempts, source, id, topic, payload, content_type," \
    " key, response_topic, correlation_data, headers, received_ms," TRACE \
    ", key_version, previous_version, expires_ms, boot, " \
    "mono_ms," POSTBAG__INBOX_DAMAGE

static const char *const sql[INBOX_STATEMENTS] = {
    /* No row comes back when the id is there with other content. */
    [INBOX_INSERT] =
        "INSERT INTO main.inbox(consumer, source, id, content_hash, state,"
        " error, topic, payload, content_type, key, key_version,"
        " response_topic, correlation_data, headers, received_ms, boot,"
        " mono_ms, previous_version, expires_ms) VALUES (?1, ?2, ?3, ?4,"
        " iif(?5 IS NULL, 'due', 'dead'), ?5,"
        " ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)"
        " ON CONFLICT(consumer, source, id) DO UPDATE SET seen = seen + 1"
        " WHERE content_hash IS excluded.content_hash RETURNING seen",
    [INBOX_NEXT] =
        "SELECT " COLUMNS
        " FROM main.inbox AS i WHERE consumer = ?1 AND " UNFINISHED
        " AND state = 'due'"
        " AND (due_ms IS NULL OR due_ms <= ?3 OR due_ms > ?4"
        "  OR due_boot IS NOT ?2)" IS_FIRST " ORDER BY arrival LIMIT 1",
    [INBOX_AGAIN] = "SELECT " COLUMNS " FROM main.inbox AS i"
                    " WHERE consumer = ?1 AND arrival = ?2"
                    " AND state = 'due'" IS_FIRST,
    [INBOX_EARLIEST] = "SELECT min(due_ms) FROM main.inbox WHERE consumer = ?1"
                       " AND " UNFINISHED " AND due_boot = ?2 AND due_ms > ?3"
                       " AND due_ms <= ?4",
    [INBOX_DONE] = "UPDATE main.inbox SET" POSTBAG__INBOX_SHRINK
                   ", processed_ms = ?2, boot = ?4, mono_ms = ?5,"
                   " attempts = attempts + ?3, error = NULL"
                   " WHERE arrival = ?1 AND state = 'due'",
    [INBOX_RETRY] =
        "UPDATE main.inbox SET attempts = max(attempts + ?5, 0), due_boot = ?2,"
        " due_ms = ?3, error = ?4 WHERE arrival = ?1 AND state = 'due'",
    [INBOX_DEAD] = "UPDATE main.inbox SET state = 'dead', processed_ms = ?2,"
                   " attempts = attempts + ?4, due_boot = NULL, due_ms = NULL,"
                   " error = ?3 WHERE arrival = ?1 AND state = 'due'",
};

void postbag__inbox_open(struct inbox_store *s, struct db *db)
{
    memset(s, 0, sizeof(*s));
    s->db = db;
}

void postbag__inbox_close(struct inbox_store *s)
{
    for (size_t i = 0; i < INBOX_STATEMENTS; i++)
        postbag__finalize(&s->stmts[i]);
}

static int use(
    struct inbox_store *s, enum inbox_statement which, struct stmt **out)
{
    *out = &s->stmts[which];
    if ((*out)->handle != NULL)
        return POSTBAG_OK;
    return postbag__prepare(s->db, *out, sql[which]);
}

/* ---- accept ------------------------------------------------------------ */

void postbag__inbox_bind_name(struct stmt *s, const struct inbox_arrival *a)
{
    postbag__bind_text(s, 1, a->consumer);
    postbag__bind_text(s, 2, a->source);
    if (a->id_is_text)
        postbag__bind_text_n(s, 3, a->id, a->id_len);
    else
        postbag__bind_blob(s, 3, a->id, a->id_len);
}

static void bind_arrival(struct stmt *s, const struct inbox_arrival *a)
{
    postbag__inbox_bind_name(s, a);
    postbag__bind_blob(s, 4, a->content_hash, 32);
    postbag__bind_text(s, 5, a->dead);
    postbag__bind_text(s, 6, a->topic);
    if (a->payload == NULL)
        postbag__bind_null(s, 7);
    else if (a->payload_is_text)
        postbag__bind_text_n(s, 7, a->payload, a->payload_len);
    else
        postbag__bind_blob(s, 7, a->payload, a->payload_len);
    postbag__bind_text(s, 8, a->content_type);
    postbag__bind_text(s, 9, a->key);
    if (a->has_key_version)
        postbag__bind_i64(s, 10, a->key_version);
    else
        postbag__bind_null(s, 10);
    postbag__bind_text(s, 11, a->response_topic);
    if (a->correlation_len > 0)
        postbag__bind_blob(s, 12, a->correlation, a->correlation_len);
    else
        postbag__bind_null(s, 12);
    postbag__bind_text(s, 13, a->headers);
    postbag__bind_i64(s, 14, a->now.wall_ms);
    postbag__bind_blob(s, 15, a->now.boot, 16);
    postbag__bind_i64(s, 16, a->now.mono_ms);
    if (a->has_previous_version)
        postbag__bind_i64(s, 17, a->previous_version);
    else
        postbag__bind_null(s, 17);
    if (a->expires_ms > 0)
        postbag__bind_i64(s, 18, a->expires_ms);
    else
        postbag__bind_null(s, 18);
}

int postbag__inbox_accept(struct inbox_store *s, const struct inbox_arrival *a,
    enum inbox_accepted *out)
{
    struct stmt *insert;
    int64_t seen = 0;
    int err = use(s, INBOX_INSERT, &insert);

    if (err != POSTBAG_OK)
        return err;
    bind_arrival(insert, a);
    err = postbag__row(insert);
    if (err == 1) {
        seen = postbag__col_i64(insert, 0);
        err = postbag__run(insert);
    }
    *out = seen == 0 ? INBOX_CONFLICT : seen == 1 ? INBOX_NEW : INBOX_DUPLICATE;
    return err;
}

/* ---- work -------------------------------------------------------------- */

static void load_age(struct stmt *s, struct inbox_row *row)
{
    size_t len;
    const void *boot = postbag__col_bytes(s, 18, &len);

    row->expires_ms = postbag__col_i64(s, 17);
    row->came.wall_ms = postbag__col_i64(s, 11);
    if (len != sizeof(row->came.boot))
        return;
    memcpy(row->came.boot, boot, len);
    row->came.mono_ms = postbag__col_i64(s, 19);
}

static void load_order(struct stmt *s, struct postbag_command *c)
{
    int has_version = c->key != NULL && !postbag__col_is_null(s, 15);
    int has_previous = !postbag__col_is_null(s, 16);

    c->key_version = postbag__col_i64(s, 15);
    c->previous_version = postbag__col_i64(s, 16);
    c->order = postbag__order_of(has_version ? &c->key_version : NULL,
        has_previous ? &c->previous_version : NULL);
}

static void load(struct stmt *s, const char *consumer, struct inbox_row *row)
{
    struct postbag_command *c = &row->command;

    memset(row, 0, sizeof(*row));
    row->arrival = postbag__col_i64(s, 0);
    c->consumer = consumer;
    postbag__inbox_damage_read(s, 20, &row->damage);
    if (row->damage.text[0] != '\0')
        return;
    row->attempts = postbag__col_i64(s, 1);
    c->struct_size = sizeof(*c);
    c->source = postbag__col_text(s, 2);
    c->id = postbag__col_bytes(s, 3, &c->id_len);
    c->topic = postbag__col_text(s, 4);
    c->payload = postbag__col_bytes(s, 5, &c->payload_len);
    c->content_type = postbag__col_text(s, 6);
    c->key = postbag__col_text(s, 7);
    c->response_topic = postbag__col_text(s, 8);
    c->correlation = postbag__col_bytes(s, 9, &c->correlation_len);
    c->headers = postbag__col_text(s, 10);
    c->attempt = (unsigned)row->attempts + 1;
    c->received_ms = postbag__col_i64(s, 11);
    c->arrival = row->arrival;
    load_age(s, row);
    c->traceparent = postbag__col_text(s, 12);
    c->tracestate = postbag__col_text(s, 13);
    c->correlation_id = postbag__col_text(s, 14);
    load_order(s, c);
}

int postbag__inbox_next(struct inbox_store *s, const char *consumer,
    const struct inbox_now *now, struct inbox_row *row, int *found)
{
    struct stmt *next;
    int err = use(s, INBOX_NEXT, &next);

    *found = 0;
    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(next, 1, consumer);
    postbag__bind_blob(next, 2, now->boot, 16);
    postbag__bind_i64(next, 3, now->mono_ms);
    postbag__bind_i64(next, 4, now->furthest_ms);
    err = postbag__row(next);
    if (err != 1)
        return err;
    *found = 1;
    load(next, consumer, row);
    return POSTBAG_OK;
}

void postbag__inbox_release(struct inbox_store *s)
{
    postbag__reset(&s->stmts[INBOX_NEXT]);
    postbag__reset(&s->stmts[INBOX_AGAIN]);
}

struct inbox_now postbag__inbox_now(
    const struct postbag_port *port, const uint8_t *boot)
{
    struct inbox_now n = {.boot = boot};

    n.mono_ms = port->mono_us(port->ctx) / 1000;
    n.wall_ms = port->wall_ms(port->ctx);
    n.furthest_ms =
        postbag__moment_furthest(n.mono_ms, POSTBAG__INBOX_DELAY_MS);
    return n;
}

uint32_t postbag__inbox_backoff_ms(const struct postbag_port *port,
    int64_t failures, uint32_t base_ms, uint32_t cap_ms)
{
    uint32_t random;

    if (port->random(port->ctx, &random, sizeof(random)) != POSTBAG_OK)
        random = UINT32_MAX;
    return postbag__backoff_ms((uint32_t)failures, base_ms, cap_ms, random);
}

int postbag__inbox_is_expired(
    const struct inbox_row *row, const struct inbox_now *now)
{
    struct moment at = {.wall_ms = now->wall_ms, .mono_ms = now->mono_ms};

    memcpy(at.boot, now->boot, sizeof(at.boot));
    return row->expires_ms > 0 &&
           postbag__moment_age_ms(&row->came, &at) >= row->expires_ms;
}

int postbag__inbox_try(struct inbox_store *s, struct inbox_row *row,
    const struct inbox_now *now, int64_t delay_ms, const char *error)
{
    int err = postbag__inbox_retry(s, row->arrival, now, delay_ms, 1, error);

    if (err == POSTBAG_OK) {
        postbag__inbox_release(s);
        row->is_tried = 1;
    }
    return err;
}

int postbag__inbox_again(
    struct inbox_store *s, struct inbox_row *row, int *found)
{
    int is_tried = row->is_tried;
    struct stmt *again;
    int err = use(s, INBOX_AGAIN, &again);

    *found = 0;
    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(again, 1, row->command.consumer);
    postbag__bind_i64(again, 2, row->arrival);
    err = postbag__row(again);
    if (err != 1)
        return err;
    load(again, row->command.consumer, row);
    /* damaged meanwhile: it is given up when it is the next one */
    *found = row->damage.text[0] == '\0';
    row->attempts -= is_tried;
    row->command.attempt = (unsigned)row->attempts + 1;
    row->is_tried = is_tried;
    return POSTBAG_OK;
}

int postbag__inbox_earliest(struct inbox_store *s, const char *consumer,
    const struct inbox_now *now, int64_t *mono_ms_out)
{
    struct stmt *earliest;
    int err = use(s, INBOX_EARLIEST, &earliest);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(earliest, 1, consumer);
    postbag__bind_blob(earliest, 2, now->boot, 16);
    postbag__bind_i64(earliest, 3, now->mono_ms);
    postbag__bind_i64(earliest, 4,
        postbag__moment_furthest(now->mono_ms, POSTBAG__INBOX_DELAY_MS));
    err = postbag__row(earliest);
    if (err != 1)
        return err;
    err = postbag__col_is_null(earliest, 0) ? POSTBAG_ENOTFOUND : POSTBAG_OK;
    *mono_ms_out = postbag__col_i64(earliest, 0);
    postbag__reset(earliest);
    return err;
}

/* ---- outcomes ---------------------------------------------------------- */

static int change_one(struct inbox_store *s, struct stmt *change)
{
    int err = postbag__run(change);

    if (err == POSTBAG_OK && postbag__changes(s->db) == 0)
        err = postbag__fail(
            &s->db->fault, POSTBAG_ENOTFOUND, "the command is not due");
    return err;
}

int postbag__inbox_done(struct inbox_store *s, int64_t arrival,
    const struct inbox_now *now, int charge)
{
    struct stmt *done;
    int err = use(s, INBOX_DONE, &done);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(done, 1, arrival);
    postbag__bind_i64(done, 2, now->wall_ms);
    postbag__bind_i64(done, 3, charge);
    postbag__bind_blob(done, 4, now->boot, 16);
    postbag__bind_i64(done, 5, now->mono_ms);
    return change_one(s, done);
}

int postbag__inbox_retry(struct inbox_store *s, int64_t arrival,
    const struct inbox_now *now, int64_t delay_ms, int charge,
    const char *error)
{
    struct stmt *retry;
    int err = use(s, INBOX_RETRY, &retry);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(retry, 1, arrival);
    postbag__bind_blob(retry, 2, now->boot, 16);
    postbag__bind_i64(retry, 3, now->mono_ms + delay_ms);
    postbag__bind_text(retry, 4, error);
    postbag__bind_i64(retry, 5, charge);
    return change_one(s, retry);
}

int postbag__inbox_dead(struct inbox_store *s, int64_t arrival,
    const struct inbox_now *now, int charge, const char *error)
{
    struct stmt *dead;
    int err = use(s, INBOX_DEAD, &dead);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(dead, 1, arrival);
    postbag__bind_i64(dead, 2, now->wall_ms);
    postbag__bind_text(dead, 3, error);
    postbag__bind_i64(dead, 4, charge);
    return change_one(s, dead);
}
