/* SPDX-License-Identifier: MIT */
/* The first answer in a handler, on the worker's thread, where it is kept; the
 * later ones where the command comes in again, on the receiver's. */
#include "reply.h"

#include <stdio.h>
#include <string.h>

#include "abi.h"
#include "error.h"
#include "reply_store.h"
#include "topicfilter.h"
#include "utf8.h"

/*
 * ?1 correlation data, ?2 the command's id (both text if printable, else
 * blob), ?3 the command's headers, ?4 the reply's own.  Merging (RFC 7396)
 * drops members that are null and prefers the reply's own.  No row value
 * when ?4 is not JSON.
 */
#define INHERITED(name) \
    "'" name "', iif(json_valid(?3), json_extract(?3, '$." name "'), NULL)"

static const char merge_sql[] =
    "SELECT iif(?4 IS NULL OR json_valid(?4), json_patch(json_patch('{}',"
    " json_object("
    " 'correlation_data', iif(typeof(?1) = 'text', ?1, NULL),"
    " 'correlation_data_hex', iif(typeof(?1) = 'blob', lower(hex(?1)), NULL),"
    " 'causationid', iif(typeof(?2) = 'blob', lower(hex(?2)), ?2),"
    " " INHERITED(
        "correlationid") ","
                         " " INHERITED(
                             "traceparent") ","
                                            " " INHERITED(
                                                "tracestate") ")), ifnull(?4, "
                                                              "'{}')), NULL)";

static int is_printable(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return 0;
    return postbag__utf8_is_valid(text, len);
}

static void bind_bytes(struct stmt *s, int index, const void *bytes, size_t len)
{
    if (len == 0)
        postbag__bind_null(s, index);
    else if (is_printable(bytes, len))
        postbag__bind_text_n(s, index, bytes, len);
    else
        postbag__bind_blob(s, index, bytes, len);
}

/* The reply's headers stand in the first column of the open statement. */
static int merge_headers(struct stmt *merge, const struct postbag_command *cmd,
    const char *own, const char **out)
{
    int err;

    bind_bytes(merge, 1, cmd->correlation, cmd->correlation_len);
    bind_bytes(merge, 2, cmd->id, cmd->id_len);
    postbag__bind_text(merge, 3, cmd->headers);
    postbag__bind_text(merge, 4, own);
    err = postbag__row(merge);
    if (err != 1)
        return err;
    *out = postbag__col_text(merge, 0);
    if (*out == NULL)
        return postbag__fail(
            &merge->db->fault, POSTBAG_EINVAL, "headers must be a JSON object");
    return POSTBAG_OK;
}

static int check(struct postbag_writer *w, const struct postbag_command *cmd,
    const struct postbag_message *m)
{
    if (w->reply_topics == NULL)
        return postbag__fail(&w->db.fault, POSTBAG_EINVAL,
            "a reply is given in a handler, to its writer, or to one that has"
            " reply_topics");
    if (m->topic != NULL)
        return postbag__fail(&w->db.fault, POSTBAG_EINVAL,
            "the topic of a reply is the command's response topic");
    if (cmd->response_topic == NULL)
        return postbag__fail(&w->db.fault, POSTBAG_ENOTFOUND,
            "the command names no response topic");
    if (!postbag__filters_match(w->reply_topics, cmd->response_topic))
        return postbag__fail(&w->db.fault, POSTBAG_EREFUSED,
            "option reply_topics does not allow the response topic");
    return POSTBAG_OK;
}

/* m: as the caller filled it; its topic and headers come from the command. */
static int put(struct postbag_writer *w, const struct postbag_command *cmd,
    const struct postbag_message *m, struct postbag_id *id_out)
{
    struct postbag_message reply = *m;
    struct stmt merge;
    int err = postbag__prepare(&w->db, &merge, merge_sql);

    if (err != POSTBAG_OK)
        return err;
    reply.topic = cmd->response_topic;
    err = merge_headers(&merge, cmd, m->headers, &reply.headers);
    if (err == POSTBAG_OK)
        err = postbag_put(w, &reply, id_out);
    postbag__finalize(&merge);
    return err;
}

int postbag_reply(struct postbag_writer *w, const struct postbag_command *cmd,
    const struct postbag_message *m, struct postbag_id *id_out)
{
    struct postbag_message reply;
    struct postbag_id id;
    int err;

    if (w == NULL || cmd == NULL || m == NULL)
        return POSTBAG_EINVAL;
    if (postbag__adopt(&reply, sizeof(reply), m) != POSTBAG_OK)
        return postbag__fail(&w->db.fault, POSTBAG_EVERSION,
            "reply: struct_size is not that of this library");
    err = check(w, cmd, &reply);
    if (err == POSTBAG_OK)
        err = put(w, cmd, &reply, &id);
    if (err == POSTBAG_OK)
        err = postbag__reply_keep(&w->db, cmd->arrival, &reply, &id);
    if (err == POSTBAG_OK && id_out != NULL)
        *id_out = id;
    return err;
}

int postbag__reply_again(
    struct postbag_writer *w, const struct inbox_arrival *a)
{
    const struct postbag_command cmd = {.struct_size = sizeof(cmd),
        .id = a->id,
        .id_len = a->id_len,
        .response_topic = a->response_topic,
        .correlation = a->correlation,
        .correlation_len = a->correlation_len,
        .headers = a->headers};
    struct kept_reply kept;
    int found;
    int err;

    if (a->response_topic == NULL)
        return POSTBAG_OK;
    err = postbag__reply_find(&w->db, a, &kept, &found);
    if (err != POSTBAG_OK || !found)
        return err;
    err = check(w, &cmd, &kept.message);
    if (err == POSTBAG_OK)
        err = put(w, &cmd, &kept.message, NULL);
    postbag__reply_release(&kept);
    return err;
}

/* The reason stands in the row for who may read it: an error of the handler's
 * SQL may name tables, and the sender is anybody who may send commands. */
int postbag__reply_dead(
    struct postbag_writer *w, int64_t arrival, const char *status)
{
    struct postbag_message m = {.struct_size = sizeof(m)};
    struct postbag_command cmd;
    char headers[64];
    struct stmt row;
    int found;
    int err = postbag__reply_asked(&w->db, arrival, &row, &cmd, &found);

    if (err != POSTBAG_OK || !found)
        return err;
    (void)snprintf(headers, sizeof(headers), "{\"status\":\"%s\"}", status);
    m.headers = headers;
    err = check(w, &cmd, &m);
    if (err == POSTBAG_OK)
        err = put(w, &cmd, &m, NULL);
    postbag__finalize(&row);
    return err;
}
