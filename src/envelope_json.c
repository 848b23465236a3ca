/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  The event as one JSON object, for MQTT 3.1.1, which has no
 * properties.  SQLite's JSON functions build it.  What a consumer takes out of
 * it is the payload that was put: JSON as JSON (without the blanks between its
 * tokens), text as text, all else as bytes.
 */
#include <string.h>
#include <strings.h>

#include "base64.h"
#include "envelope.h"
#include "error.h"
#include "utf8.h"

/* How the payload stands in the object. */
enum data_form { DATA_NONE, DATA_JSON, DATA_TEXT, DATA_BASE64 };

/* Parameters of the statement. */
enum {
    P_ID = 1,
    P_SOURCE,
    P_TYPE,
    P_TIME,
    P_SEQUENCE,
    P_KEY,
    P_KEY_VERSION,
    P_CONTENT_TYPE,
    P_EXPIRY,
    P_HEADERS,
    P_FORM,
    P_DATA,
    P_REPLAY,
    P_TIME_QUALITY
};

/*
 * Members that are null are left out, by patching an empty object with them.
 * Names of attributes have letters and digits only.  Headers are taken one by
 * one: a path finds the first member of a name only, and none whose name has
 * an escape in it.  JSON has no number for what is infinite.
 */
static const char structured_sql[] =
    "SELECT CASE ?11 WHEN 0 THEN event"
    " WHEN 1 THEN json_set(event, '$.data', json(?12))"
    " WHEN 2 THEN json_set(event, '$.data', ?12)"
    " ELSE json_set(event, '$.data_base64', ?12) END"
    " FROM (SELECT json_patch("
    "  json_group_object(key, CASE WHEN type IN ('true', 'false')"
    "   THEN json(type) WHEN text IN ('Inf', '-Inf') THEN text"
    "   ELSE value END)"
    "   FILTER (WHERE key NOT IN ('baggage', 'response_topic',"
    "    'correlation_data', 'correlation_data_hex')),"
    "  json_patch('{}', json_object('specversion', '1.0', 'id', ?1,"
    "   'source', ?2, 'type', ?3,"
    "   'time', ifnull(max(iif(key = 'time', text, NULL)), ?4),"
    "   'timequality', iif(max(key IN ('time', 'timequality')),"
    "    NULL, ?14),"
    "   'sequence', ?5, 'partitionkey', ?6, 'keyversion', ?7,"
    "   'datacontenttype', ?8, 'replay', json(?13),"
    "   'expirytime', ifnull(max(iif(key = 'expirytime', text, NULL)), ?9),"
    "   'responsetopic', max(iif(key = 'response_topic', text, NULL)),"
    "   'correlationdata', max(iif(key = 'correlation_data', text, NULL)),"
    "   'correlationdatahex',"
    "   max(iif(key = 'correlation_data_hex', text, NULL))))) AS event"
    "  FROM (SELECT key, type, value, " ENVELOPE_HEADER_TEXT " AS text"
    "   FROM json_each(ifnull(?10, '{}'))"
    "   WHERE " ENVELOPE_HEADER_LEAVES "))";

int postbag__envelope_json_open(struct envelope *e)
{
    int err = postbag__prepare(e->db, &e->structured, structured_sql);

    return err == POSTBAG_OK
               ? postbag__prepare(e->db, &e->is_json, "SELECT json_valid(?1)")
               : err;
}

/* ---- the payload ---- */

/* "application/json; charset=utf-8", "text/json", "application/x+json" */
static int names_json(const char *content_type)
{
    size_t len = strcspn(content_type, ";");
    const char *end;

    while (len > 0 && content_type[len - 1] == ' ')
        len--;
    if (len < 5)
        return 0;
    end = content_type + len - 5;
    return strncasecmp(end, "/json", 5) == 0 ||
           strncasecmp(end, "+json", 5) == 0;
}

/* 1, 0 or an error. */
static int is_json(struct envelope *e, const struct row *row)
{
    int valid = 0;
    int err;

    postbag__bind_text_n(&e->is_json, 1, row->payload, row->payload_len);
    err = postbag__row(&e->is_json);
    if (err == 1) {
        valid = postbag__col_i64(&e->is_json, 0) != 0;
        postbag__reset(&e->is_json);
    }
    return err < 0 ? err : valid;
}

/* An enum data_form or an error.  Without a content type, JSON is implied
 * (CloudEvents, JSON format, 3.1). */
static int find_form(struct envelope *e, const struct row *row)
{
    int may_be_json =
        row->content_type == NULL || names_json(row->content_type);
    int valid;

    if (row->payload_len == 0)
        return DATA_NONE;
    if (!postbag__utf8_is_valid(row->payload, row->payload_len))
        return DATA_BASE64;
    if (!may_be_json)
        return DATA_TEXT;
    valid = is_json(e, row);
    if (valid != 0)
        return valid < 0 ? valid : DATA_JSON;
    /* what claims to be JSON and is not must come back as it is */
    return row->content_type == NULL ? DATA_TEXT : DATA_BASE64;
}

/* Where it is not JSON that must be said. */
static const char *content_type_of(const struct row *row, int form)
{
    if (row->content_type != NULL)
        return row->content_type;
    if (form == DATA_TEXT)
        return "text/plain";
    return form == DATA_BASE64 ? "application/octet-stream" : NULL;
}

static int bind_base64(struct envelope *e, const struct row *row)
{
    ptrdiff_t at = postbag__arena_add(&e->text, row->payload, row->payload_len);
    char *encoded;

    /* three copies are room for the encoding at any length */
    (void)postbag__arena_add(&e->text, row->payload, row->payload_len);
    (void)postbag__arena_add(&e->text, row->payload, row->payload_len);
    encoded = postbag__arena_at(&e->text, at);
    if (e->text.err != POSTBAG_OK || encoded == NULL)
        return POSTBAG_ENOMEM;
    postbag__base64(encoded, row->payload, row->payload_len);
    postbag__bind_text(&e->structured, P_DATA, encoded);
    return POSTBAG_OK;
}

static int bind_data(struct envelope *e, const struct row *row)
{
    int form = find_form(e, row);

    if (form < 0)
        return form;
    postbag__bind_i64(&e->structured, P_FORM, form);
    postbag__bind_text(
        &e->structured, P_CONTENT_TYPE, content_type_of(row, form));
    if (form == DATA_BASE64)
        return bind_base64(e, row);
    postbag__bind_text_n(
        &e->structured, P_DATA, row->payload, row->payload_len);
    return POSTBAG_OK;
}

/* ---- the attributes ---- */

/* When the message is no longer of use: the only way to say it here.  A row
 * from before the clock was set has no date to count from. */
static const char *expiry_of(
    const struct row *row, const struct moment *now, char out[RFC3339_SIZE])
{
    int64_t put_ms = postbag__row_put_ms(row, now);

    if (row->ttl_ms <= 0 || put_ms == 0 || row->ttl_ms > INT64_MAX - put_ms)
        return NULL;
    postbag__rfc3339(put_ms + row->ttl_ms, out);
    return out;
}

static void bind_attributes(
    struct envelope *e, const struct row *row, const struct attributes *a)
{
    struct stmt *s = &e->structured;

    postbag__bind_text(s, P_ID, a->id);
    postbag__bind_text(s, P_SOURCE, e->source);
    postbag__bind_text(s, P_TYPE, a->type);
    postbag__bind_text(s, P_TIME, a->time);
    postbag__bind_text(s, P_TIME_QUALITY, a->time_quality);
    postbag__bind_text(s, P_SEQUENCE, a->sequence);
    postbag__bind_text(s, P_KEY, row->key);
    postbag__bind_text(s, P_KEY_VERSION, a->key_version);
    postbag__bind_text(s, P_HEADERS, row->headers);
    postbag__bind_text(s, P_REPLAY, a->replay);
}

static int read_structured(struct envelope *e, struct postbag_frame *out)
{
    size_t len = 0;
    const void *json;
    ptrdiff_t at;
    int err = postbag__row(&e->structured);

    if (err != 1)
        return err == POSTBAG_OK ? POSTBAG_EIO : err;
    json = postbag__col_bytes(&e->structured, 0, &len);
    at = postbag__arena_add(&e->text, json, len);
    postbag__reset(&e->structured);
    if (at == ARENA_NONE)
        return POSTBAG_ENOMEM;
    out->payload = postbag__arena_at(&e->text, at);
    out->payload_len = len;
    /* what the properties of MQTT 5 check one by one; half a surrogate pair
       hides in an escape */
    if (!postbag__utf8_is_valid(out->payload, len))
        return postbag__envelope_refuse(
            e, "key, type or headers are not UTF-8");
    return POSTBAG_OK;
}

int postbag__envelope_json(struct envelope *e, const struct row *row,
    const struct moment *now, struct postbag_frame *out)
{
    struct attributes a;
    char expiry[RFC3339_SIZE];
    int err = postbag__envelope_check_headers(e, row->headers);

    if (err != POSTBAG_OK)
        return err;
    postbag__envelope_attributes(e, row, now, &a);
    bind_attributes(e, row, &a);
    postbag__bind_text(&e->structured, P_EXPIRY, expiry_of(row, now, expiry));
    err = bind_data(e, row);
    return err == POSTBAG_OK ? read_structured(e, out) : err;
}
