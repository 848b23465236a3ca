/* SPDX-License-Identifier: MIT */
/* See envelope.h.  Engine thread. */
#include "envelope.h"

#include <stdio.h>
#include <string.h>

#include "base64.h"
#include "error.h"
#include "rfc3339.h"
#include "utf8.h"

static const char default_type[] = "postbag.message";

/* Attributes whose value is NULL are left out by the outer patch. */
static const char structured_sql[] =
    "SELECT CASE ?9 WHEN 0 THEN json_set(e, '$.data_base64', ?8)"
    " ELSE iif(json_valid(?8), json_set(e, '$.data', json(?8)),"
    "  json_set(e, '$.data', ?8)) END"
    " FROM (SELECT json_patch(json_remove(ifnull(?10, '{}'), '$.baggage'),"
    " json_patch('{}',"
    "  json_object('specversion', '1.0', 'id', ?1, 'source', ?2, 'type', ?3,"
    "  'time', ?4, 'sequence', ?5, 'partitionkey', ?6,"
    "  'keyversion', ?11, 'datacontenttype', ?7))) AS e)";

int postbag__envelope_kind(const char *name, enum envelope_kind *out)
{
    static const char *const names[] = {
        [ENVELOPE_CLOUDEVENTS] = "cloudevents",
        [ENVELOPE_MINIMAL] = "minimal",
        [ENVELOPE_RAW] = "raw",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *out = (enum envelope_kind)i;
        return POSTBAG_OK;
    }
    return POSTBAG_EINVAL;
}

static int read_stream(struct envelope *e)
{
    struct stmt s;
    const char *hex;
    int err = postbag__prepare(e->db, &s,
        "SELECT lower(hex(value)) FROM outbox_meta WHERE key = 'stream'");

    if (err != POSTBAG_OK)
        return err;
    err = postbag__row(&s);
    hex = err == 1 ? postbag__col_text(&s, 0) : NULL;
    if (hex != NULL)
        (void)snprintf(e->stream, sizeof(e->stream), "%s", hex);
    else if (err >= 0)
        err = postbag__fail(
            &e->db->fault, POSTBAG_ECORRUPT, "outbox_meta has no stream id");
    postbag__finalize(&s);
    return err == 1 ? POSTBAG_OK : err;
}

int postbag__envelope_open(struct envelope *e, struct db *db,
    enum envelope_kind kind, const char *source)
{
    int err;

    memset(e, 0, sizeof(*e));
    e->db = db;
    e->kind = kind;
    e->source = source;
    err = read_stream(e);
    if (err == POSTBAG_OK)
        err = postbag__prepare(db, &e->each_header,
            "SELECT key, CAST(value AS TEXT) FROM json_each(?1)"
            " WHERE type NOT IN ('null', 'object', 'array')");
    if (err == POSTBAG_OK)
        err = postbag__prepare(db, &e->structured, structured_sql);
    return err;
}

void postbag__envelope_close(struct envelope *e)
{
    postbag__finalize(&e->each_header);
    postbag__finalize(&e->structured);
    postbag__arena_free(&e->text);
}

/* ---- MQTT 5: properties ---- */

static int refuse(struct envelope *e, const char *what)
{
    return postbag__fail(&e->db->fault, POSTBAG_EINVAL, "malformed: %s", what);
}

static int add(struct envelope *e, const char *name, const char *value)
{
    if (value == NULL)
        return POSTBAG_OK;
    if (e->count == ENVELOPE_PROPERTIES_MAX)
        return refuse(e, "more than 64 user properties");
    if (!postbag__utf8_is_mqtt_string(name, strlen(name)) ||
        !postbag__utf8_is_mqtt_string(value, strlen(value)))
        return refuse(e, "a header is not UTF-8, or has a control character");
    if (strlen(value) > 65535)
        return refuse(e, "a header is longer than 65535 bytes");
    e->pending[e->count].name =
        postbag__arena_add(&e->text, name, strlen(name));
    e->pending[e->count].value =
        postbag__arena_add(&e->text, value, strlen(value));
    e->count++;
    return e->text.err;
}

static int hex_value(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c == '\0' ? NULL : strchr(digits, c);

    return at == NULL ? -1 : (int)(at - digits);
}

static int set_correlation_hex(struct envelope *e, const char *hex)
{
    size_t len = strlen(hex);
    char *bytes;

    if (len % 2 != 0)
        return refuse(e, "correlation_data_hex has an odd length");
    e->correlation = postbag__arena_add(&e->text, hex, len);
    bytes = postbag__arena_at(&e->text, e->correlation);
    if (bytes == NULL)
        return POSTBAG_ENOMEM;
    for (size_t i = 0; i < len; i += 2) {
        int high = hex_value(hex[i]);
        int low = hex_value(hex[i + 1]);

        if (high < 0 || low < 0)
            return refuse(e, "correlation_data_hex is not hex");
        bytes[i / 2] = (char)(high << 4 | low);
    }
    e->correlation_len = len / 2;
    return POSTBAG_OK;
}

/* Headers that are MQTT properties of their own; the rest are user ones. */
static int add_header(struct envelope *e, const char *name, const char *value)
{
    if (strcmp(name, "baggage") == 0)
        return POSTBAG_OK; /* may hold what was not meant for this broker */
    if (strcmp(name, "response_topic") == 0) {
        if (!postbag__utf8_is_mqtt_string(value, strlen(value)))
            return refuse(
                e, "response_topic is not UTF-8, or has a control character");
        e->response_topic = postbag__arena_add(&e->text, value, strlen(value));
        return e->text.err;
    }
    if (strcmp(name, "correlation_data_hex") == 0)
        return set_correlation_hex(e, value);
    if (strcmp(name, "correlation_data") == 0) {
        e->correlation_len = strlen(value);
        e->correlation =
            postbag__arena_add(&e->text, value, e->correlation_len);
        return e->text.err;
    }
    return add(e, name, value);
}

static int add_headers(struct envelope *e, const char *headers)
{
    int err;

    if (headers == NULL)
        return POSTBAG_OK;
    postbag__bind_text(&e->each_header, 1, headers);
    while ((err = postbag__row(&e->each_header)) == 1) {
        err = add_header(e, postbag__col_text(&e->each_header, 0),
            postbag__col_text(&e->each_header, 1));
        if (err != POSTBAG_OK)
            break;
    }
    postbag__reset(&e->each_header);
    return err;
}

static int add_attributes(struct envelope *e, const struct row *row)
{
    char id[37];
    char when[RFC3339_SIZE];
    char sequence[64];
    char version[24];
    int err;

    postbag_id_format(&row->id, id);
    if (e->kind == ENVELOPE_MINIMAL)
        return add(e, "id", id);
    postbag__rfc3339(row->created_ms, when);
    (void)snprintf(sequence, sizeof(sequence), "%s-%020lld", e->stream,
        (long long)row->seq);
    (void)snprintf(
        version, sizeof(version), "%lld", (long long)row->key_version);
    err = add(e, "specversion", "1.0");
    if (err == POSTBAG_OK)
        err = add(e, "id", id);
    if (err == POSTBAG_OK)
        err = add(e, "source", e->source);
    if (err == POSTBAG_OK)
        err = add(e, "type", row->type == NULL ? default_type : row->type);
    if (err == POSTBAG_OK)
        err = add(e, "time", when);
    if (err == POSTBAG_OK)
        err = add(e, "sequence", sequence);
    if (err == POSTBAG_OK)
        err = add(e, "partitionkey", row->key);
    if (err == POSTBAG_OK && row->key_version != 0)
        err = add(e, "keyversion", version);
    return err;
}

/* Now that the text block no longer moves, offsets become pointers. */
static void place(struct envelope *e, struct postbag_frame *out)
{
    for (size_t i = 0; i < e->count; i++) {
        e->properties[i].name = postbag__arena_at(&e->text, e->pending[i].name);
        e->properties[i].value =
            postbag__arena_at(&e->text, e->pending[i].value);
    }
    out->properties = e->properties;
    out->property_count = e->count;
    out->response_topic = postbag__arena_at(&e->text, e->response_topic);
    out->correlation = postbag__arena_at(&e->text, e->correlation);
    out->correlation_len = e->correlation_len;
}

static int build_properties(
    struct envelope *e, const struct row *row, struct postbag_frame *out)
{
    int err = POSTBAG_OK;

    if (e->kind != ENVELOPE_RAW)
        err = add_attributes(e, row);
    if (err == POSTBAG_OK)
        err = add_headers(e, row->headers);
    if (err == POSTBAG_OK)
        place(e, out);
    return err;
}

/* ---- MQTT 3.1.1: a JSON envelope ---- */

static int is_utf8_payload(const struct row *row)
{
    return postbag__utf8_is_valid(row->payload, row->payload_len);
}

static int bind_data(struct envelope *e, const struct row *row)
{
    ptrdiff_t at;
    char *encoded;

    postbag__bind_i64(&e->structured, 9, is_utf8_payload(row));
    if (is_utf8_payload(row)) {
        postbag__bind_text_n(&e->structured, 8, row->payload, row->payload_len);
        return POSTBAG_OK;
    }
    /* three copies are room for the encoding at any length */
    at = postbag__arena_add(&e->text, row->payload, row->payload_len);
    (void)postbag__arena_add(&e->text, row->payload, row->payload_len);
    (void)postbag__arena_add(&e->text, row->payload, row->payload_len);
    encoded = postbag__arena_at(&e->text, at);
    if (e->text.err != POSTBAG_OK || encoded == NULL)
        return POSTBAG_ENOMEM;
    postbag__base64(encoded, row->payload, row->payload_len);
    postbag__bind_text(&e->structured, 8, encoded);
    return POSTBAG_OK;
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
    return POSTBAG_OK;
}

/* What the properties of MQTT 5 check one by one: JSON is UTF-8. */
static int check_attributes(struct envelope *e, const struct row *row)
{
    const char *const all[] = {row->key, row->type, row->headers};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i] != NULL && !postbag__utf8_is_valid(all[i], strlen(all[i])))
            return refuse(e, "key, type or headers are not UTF-8");
    return POSTBAG_OK;
}

static int build_structured(
    struct envelope *e, const struct row *row, struct postbag_frame *out)
{
    struct stmt *s = &e->structured;
    char id[37];
    char when[RFC3339_SIZE];
    char sequence[64];
    char version[24];
    int err = check_attributes(e, row);

    if (err != POSTBAG_OK)
        return err;
    postbag_id_format(&row->id, id);
    postbag__rfc3339(row->created_ms, when);
    (void)snprintf(sequence, sizeof(sequence), "%s-%020lld", e->stream,
        (long long)row->seq);
    postbag__bind_text(s, 1, id);
    postbag__bind_text(s, 2, e->source);
    postbag__bind_text(s, 3, row->type == NULL ? default_type : row->type);
    postbag__bind_text(s, 4, when);
    postbag__bind_text(s, 5, sequence);
    postbag__bind_text(s, 6, row->key);
    postbag__bind_text(s, 7, row->content_type);
    postbag__bind_text(s, 10, row->headers);
    (void)snprintf(
        version, sizeof(version), "%lld", (long long)row->key_version);
    postbag__bind_text(s, 11, row->key_version == 0 ? NULL : version);
    err = bind_data(e, row);
    return err == POSTBAG_OK ? read_structured(e, out) : err;
}

/* ---- both ---- */

static int check_texts(struct envelope *e, const struct row *row)
{
    if (strlen(row->topic) != row->topic_len ||
        !postbag__utf8_is_mqtt_string(row->topic, row->topic_len))
        return refuse(e, "topic is not UTF-8, or has a control character");
    if (row->content_type != NULL &&
        !postbag__utf8_is_mqtt_string(
            row->content_type, strlen(row->content_type)))
        return refuse(
            e, "content_type is not UTF-8, or has a control character");
    return POSTBAG_OK;
}

int postbag__envelope_build(struct envelope *e, const struct row *row,
    unsigned mqtt_version, struct postbag_frame *out)
{
    int err = check_texts(e, row);

    if (err != POSTBAG_OK)
        return err;
    postbag__arena_reset(&e->text);
    e->count = 0;
    e->response_topic = ARENA_NONE;
    e->correlation = ARENA_NONE;
    e->correlation_len = 0;
    memset(out, 0, sizeof(*out));
    out->topic = row->topic;
    out->payload = row->payload;
    out->payload_len = row->payload_len;
    out->content_type = row->content_type;
    out->retain = row->retain != 0;
    out->is_text = row->is_text && is_utf8_payload(row);
    if (mqtt_version >= 5)
        return build_properties(e, row, out);
    if (e->kind == ENVELOPE_CLOUDEVENTS)
        return build_structured(e, row, out);
    return POSTBAG_OK;
}

static size_t text_size(const char *text)
{
    return text == NULL ? 0 : strlen(text) + 3;
}

size_t postbag__frame_size(const struct postbag_frame *f)
{
    /* fixed header 5, packet id 2, property length 4, small properties 7 */
    size_t size = 18 + 2 + strlen(f->topic) + f->payload_len;

    size += text_size(f->content_type) + text_size(f->response_topic);
    size += f->correlation_len + 3;
    for (size_t i = 0; i < f->property_count; i++)
        size += text_size(f->properties[i].name) +
                text_size(f->properties[i].value);
    return size;
}
