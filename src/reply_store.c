/* SPDX-License-Identifier: MIT */
/* A message as one value and one JSON object, and back. */
#include "reply_store.h"

#include <string.h>

#include "postbag/claim.h"

/* json_patch drops what is NULL. */
static const char keep_sql[] =
    "UPDATE main.inbox SET result = ?2, reply = iif(?2 IS NULL, NULL,"
    " json_patch('{}', json_object('id', ?3, 'type', ?4, 'content_type', ?5,"
    " 'headers', ?6, 'key', ?7, 'key_version', ?8, 'dest', ?9, 'coalesce',"
    " ?10, 'ttl_ms', ?11, 'priority', ?12, 'retain', ?13)))"
    " WHERE arrival = ?1";

/* The order of columns is that of read_message. */
static const char find_sql[] =
    "SELECT result, json_extract(reply, '$.id'),"
    " json_extract(reply, '$.type'),"
    " json_extract(reply, '$.content_type'),"
    " json_extract(reply, '$.headers'), json_extract(reply, '$.key'),"
    " json_extract(reply, '$.key_version'),"
    " json_extract(reply, '$.dest'), json_extract(reply, '$.coalesce'),"
    " json_extract(reply, '$.ttl_ms'), json_extract(reply, '$.priority'),"
    " json_extract(reply, '$.retain')"
    " FROM main.inbox WHERE consumer = ?1 AND source = ?2 AND id = ?3"
    " AND state = 'done' AND result IS NOT NULL AND typeof(reply) = 'text'"
    " AND json_valid(reply)";

static const char asked_sql[] =
    "SELECT id, response_topic, correlation_data, headers FROM main.inbox"
    " WHERE arrival = ?1 AND response_topic NOT NULL";

/* ---- keep -------------------------------------------------------------- */

static void bind_positive(struct stmt *s, int index, int64_t value)
{
    if (value != 0)
        postbag__bind_i64(s, index, value);
}

static void bind_payload(struct stmt *s, const struct postbag_message *m)
{
    if (m->payload_len > POSTBAG_RESULT_MAX)
        return; /* NULL */
    if (m->is_text)
        postbag__bind_text_n(s, 2, m->payload, m->payload_len);
    else
        postbag__bind_blob(s, 2, m->payload, m->payload_len);
}

int postbag__reply_keep(struct db *db, int64_t arrival,
    const struct postbag_message *m, const struct postbag_id *id)
{
    char id_text[37];
    struct stmt s;
    int err = postbag__prepare(db, &s, keep_sql);

    if (err != POSTBAG_OK)
        return err;
    postbag_id_format(id, id_text);
    postbag__bind_i64(&s, 1, arrival);
    bind_payload(&s, m);
    postbag__bind_text(&s, 3, id_text);
    postbag__bind_text(&s, 4, m->type);
    postbag__bind_text(&s, 5, m->content_type);
    postbag__bind_text(&s, 6, m->headers);
    postbag__bind_text(&s, 7, m->key);
    bind_positive(&s, 8, m->key_version);
    postbag__bind_text(&s, 9, m->dest);
    postbag__bind_text(&s, 10, m->coalesce);
    bind_positive(&s, 11, m->ttl_ms);
    bind_positive(&s, 12, m->priority);
    bind_positive(&s, 13, m->retain != 0);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

/* ---- ask ---------------------------------------------------------------- */

int postbag__reply_asked(struct db *db, int64_t arrival, struct stmt *row,
    struct postbag_command *out, int *found_out)
{
    int err = postbag__prepare(db, row, asked_sql);

    *found_out = 0;
    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(row, 1, arrival);
    err = postbag__row(row);
    if (err != 1) {
        postbag__finalize(row);
        return err;
    }
    *found_out = 1;
    memset(out, 0, sizeof(*out));
    out->struct_size = sizeof(*out);
    out->arrival = arrival;
    out->id = postbag__col_bytes(row, 0, &out->id_len);
    out->response_topic = postbag__col_text(row, 1);
    out->correlation = postbag__col_bytes(row, 2, &out->correlation_len);
    out->headers = postbag__col_text(row, 3);
    return POSTBAG_OK;
}

/* ---- find -------------------------------------------------------------- */

static void read_message(struct stmt *s, struct kept_reply *out)
{
    struct postbag_message *m = &out->message;
    const char *id = postbag__col_text(s, 1);

    memset(m, 0, sizeof(*m));
    m->struct_size = sizeof(*m);
    m->payload = postbag__col_bytes(s, 0, &m->payload_len);
    m->is_text = postbag__col_is_text(s, 0) != 0;
    if (id != NULL && postbag_id_parse(&out->id, id) == POSTBAG_OK)
        m->id = &out->id;
    m->type = postbag__col_text(s, 2);
    m->content_type = postbag__col_text(s, 3);
    m->headers = postbag__col_text(s, 4);
    m->key = postbag__col_text(s, 5);
    m->key_version = postbag__col_i64(s, 6);
    m->dest = postbag__col_text(s, 7);
    m->coalesce = postbag__col_text(s, 8);
    m->ttl_ms = postbag__col_i64(s, 9);
    m->priority = (unsigned)postbag__col_i64(s, 10);
    m->retain = (unsigned)postbag__col_i64(s, 11);
}

int postbag__reply_find(struct db *db, const struct inbox_arrival *a,
    struct kept_reply *out, int *found_out)
{
    int err = postbag__prepare(db, &out->row, find_sql);

    *found_out = 0;
    if (err != POSTBAG_OK)
        return err;
    postbag__inbox_bind_name(&out->row, a);
    err = postbag__row(&out->row);
    if (err != 1) {
        postbag__reply_release(out);
        return err;
    }
    *found_out = 1;
    read_message(&out->row, out);
    return POSTBAG_OK;
}

void postbag__reply_release(struct kept_reply *r)
{
    postbag__finalize(&r->row);
}
