/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Requests that come by other ways than MQTT: rows of the inbox that
 * no worker handles, in the caller's own transaction, on the caller's own
 * connection and thread.
 *
 *     claim --> claimed --> done         (deleted by age, inbox_purge.h)
 *
 * One statement claims and finds out, so that no other writer can come in
 * between, and the UNIQUE constraint of the table is what decides.
 */
#include "postbag/claim.h"

#include <string.h>

#include "abi.h"
#include "error.h"
#include "identity.h"
#include "mem.h"
#include "sha256.h"
#include "utf8.h"
#include "writer.h"

enum { CONSUMER_MAX = 64, NAME_MAX_BYTES = 255 };

/* No row comes back when the id is there with other content. */
static const char claim_sql[] =
    "INSERT INTO main.inbox(consumer, source, id, content_hash, state,"
    " received_ms, boot, mono_ms) VALUES (?1, ?2, ?3, ?4, 'claimed', ?5, ?6,"
    " ?7) ON CONFLICT(consumer, source, id) DO UPDATE SET seen = seen + 1"
    " WHERE content_hash IS excluded.content_hash"
    " RETURNING arrival, seen, state = 'done', received_ms, result";

static const char finish_sql[] =
    "UPDATE main.inbox SET state = 'done', result = ?2, processed_ms = ?3,"
    " boot = ?4, mono_ms = ?5,"
    " attempts = attempts + 1 WHERE arrival = ?1 AND state = 'claimed'";

/* ---- what may be asked ------------------------------------------------- */

static int is_between(const char *text, size_t least, size_t most)
{
    size_t len = text == NULL ? 0 : strnlen(text, most + 1);

    return len >= least && len <= most &&
           (len == 0 || postbag__utf8_is_valid(text, len));
}

static int check_transaction(struct postbag_writer *w)
{
    if (postbag__in_transaction(&w->db))
        return POSTBAG_OK;
    return postbag__fail(&w->db.fault, POSTBAG_ENOTXN,
        "a request is claimed and finished in an open transaction:"
        " postbag_begin or your own BEGIN IMMEDIATE");
}

static int check(const struct postbag_request *r, struct postbag_fault *why)
{
    if (!is_between(r->consumer, 1, CONSUMER_MAX))
        return postbag__fail(
            why, POSTBAG_EINVAL, "request: consumer has 1..64 bytes of UTF-8");
    if (!is_between(r->source, 0, NAME_MAX_BYTES))
        return postbag__fail(why, POSTBAG_EINVAL,
            "request: source has at most 255 bytes of UTF-8");
    if (r->id == NULL || r->id_len < 1)
        return postbag__fail(
            why, POSTBAG_EINVAL, "request: id has 1 byte or more");
    if (r->content == NULL && r->content_len > 0)
        return postbag__fail(
            why, POSTBAG_EINVAL, "request: content is NULL, but has a length");
    return POSTBAG_OK;
}

/* ---- claim ------------------------------------------------------------- */

static void name_request(struct identity *name, const struct postbag_request *r)
{
    memset(name, 0, sizeof(*name));
    postbag__identity_name(name, r->id, r->id_len, 1);
    postbag__sha256(r->content, r->content_len, name->content);
}

/* name is borrowed by the statement. */
static void bind_request(struct postbag_writer *w, struct stmt *s,
    const struct postbag_request *r, const struct identity *name)
{
    const struct postbag_port *port = w->port;

    postbag__bind_text(s, 1, r->consumer);
    postbag__bind_text(s, 2, r->source == NULL ? "" : r->source);
    if (name->id_is_text)
        postbag__bind_text_n(s, 3, (const char *)name->id, name->id_len);
    else
        postbag__bind_blob(s, 3, name->id, name->id_len);
    postbag__bind_blob(s, 4, name->content, SHA256_BYTES);
    postbag__bind_i64(s, 5, port->wall_ms(port->ctx));
    postbag__bind_blob(s, 6, w->boot, sizeof(w->boot));
    postbag__bind_i64(s, 7, port->mono_us(port->ctx) / 1000);
}

/* The row of the statement lives no longer than the statement. */
static int copy_result(
    struct postbag_writer *w, struct stmt *s, struct postbag_claim *c)
{
    size_t len;
    const void *bytes = postbag__col_bytes(s, 4, &len);

    if (postbag__col_is_null(s, 4))
        return POSTBAG_OK;
    w->result = postbag__alloc(len + 1);
    if (w->result == NULL)
        return postbag__fail(
            &w->db.fault, POSTBAG_ENOMEM, "no memory for a result");
    if (len > 0)
        memcpy(w->result, bytes, len);
    c->result = w->result;
    c->result_len = len;
    return POSTBAG_OK;
}

static int read_claim(
    struct postbag_writer *w, struct stmt *s, struct postbag_claim *c)
{
    int is_new = postbag__col_i64(s, 1) == 1;
    int is_done = postbag__col_i64(s, 2) != 0;

    c->arrival = postbag__col_i64(s, 0);
    c->claimed_ms = postbag__col_i64(s, 3);
    c->is = is_new    ? POSTBAG_CLAIM_NEW
            : is_done ? POSTBAG_CLAIM_DONE
                      : POSTBAG_CLAIM_IN_PROGRESS;
    return is_done ? copy_result(w, s, c) : POSTBAG_OK;
}

static int claim(struct postbag_writer *w, const struct postbag_request *r,
    struct postbag_claim *c)
{
    struct identity name;
    struct stmt s;
    int err = postbag__prepare(&w->db, &s, claim_sql);

    if (err != POSTBAG_OK)
        return err;
    name_request(&name, r);
    bind_request(w, &s, r, &name);
    c->is = POSTBAG_CLAIM_CONFLICT;
    err = postbag__row(&s);
    if (err == 1) {
        err = read_claim(w, &s, c);
        if (err == POSTBAG_OK)
            err = postbag__run(&s);
    }
    postbag__finalize(&s);
    return err;
}

int postbag_inbox_claim(struct postbag_writer *w,
    const struct postbag_request *r, struct postbag_claim *out)
{
    struct postbag_request mine;
    struct postbag_claim found;
    size_t size;
    int err;

    if (w == NULL || r == NULL || out == NULL)
        return POSTBAG_EINVAL;
    err = postbag__adopt(&mine, sizeof(mine), r);
    if (err == POSTBAG_OK)
        err = postbag__adopt(&found, sizeof(found), out);
    if (err != POSTBAG_OK)
        return postbag__fail(&w->db.fault, err,
            "claim: a struct_size is not set, or unknown fields are");
    size = out->struct_size;
    memset(&found, 0, sizeof(found));
    found.struct_size = size;
    postbag__free(w->result);
    w->result = NULL;
    err = check(&mine, &w->db.fault);
    if (err == POSTBAG_OK)
        err = check_transaction(w);
    if (err == POSTBAG_OK)
        err = claim(w, &mine, &found);
    if (err == POSTBAG_OK)
        memcpy(out, &found, size < sizeof(found) ? size : sizeof(found));
    return err;
}

/* ---- finish ------------------------------------------------------------ */

static int finish(struct postbag_writer *w, int64_t arrival, const void *result,
    size_t result_len)
{
    const struct postbag_port *port = w->port;
    struct stmt s;
    int err = postbag__prepare(&w->db, &s, finish_sql);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, arrival);
    if (result != NULL)
        postbag__bind_blob(&s, 2, result, result_len);
    postbag__bind_i64(&s, 3, port->wall_ms(port->ctx));
    postbag__bind_blob(&s, 4, w->boot, sizeof(w->boot));
    postbag__bind_i64(&s, 5, port->mono_us(port->ctx) / 1000);
    err = postbag__run(&s);
    if (err == POSTBAG_OK && postbag__changes(&w->db) == 0)
        err = postbag__fail(&w->db.fault, POSTBAG_ENOTFOUND,
            "no request of that number is in progress");
    postbag__finalize(&s);
    return err;
}

int postbag_inbox_finish(struct postbag_writer *w, int64_t arrival,
    const void *result, size_t result_len)
{
    int err;

    if (w == NULL || (result == NULL && result_len > 0))
        return POSTBAG_EINVAL;
    if (result_len > POSTBAG_RESULT_MAX)
        return postbag__fail(&w->db.fault, POSTBAG_ETOOBIG,
            "a result has at most %d bytes", POSTBAG_RESULT_MAX);
    err = check_transaction(w);
    return err == POSTBAG_OK ? finish(w, arrival, result, result_len) : err;
}
