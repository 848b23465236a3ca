/* SPDX-License-Identifier: MIT */
/* See envelope.h.  Engine thread. */
#include "envelope.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "error.h"
#include "message.h"
#include "utf8.h"

static const char default_type[] = "postbag.message";

enum { STRING_MAX = 65535 }; /* MQTT 5, 1.5.4 */

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
            "SELECT key, " ENVELOPE_HEADER_TEXT
            ", key IN (" POSTBAG__RESERVED_HEADERS ") FROM json_each(?1)"
            " WHERE " ENVELOPE_HEADER_LEAVES);
    return err == POSTBAG_OK ? postbag__envelope_json_open(e) : err;
}

void postbag__envelope_close(struct envelope *e)
{
    postbag__finalize(&e->each_header);
    postbag__finalize(&e->structured);
    postbag__finalize(&e->is_json);
    postbag__arena_free(&e->text);
}

int postbag__envelope_refuse(struct envelope *e, const char *what)
{
    return postbag__fail(&e->db->fault, POSTBAG_EINVAL, "malformed: %s", what);
}

/* A wrong time is worse than none. */
static void set_time(
    const struct row *row, const struct moment *now, struct attributes *out)
{
    int64_t put_ms = postbag__row_put_ms(row, now);

    postbag__rfc3339(put_ms, out->when);
    out->time = put_ms == 0 ? NULL : out->when;
    out->time_quality = put_ms == 0 ? "unset" : NULL;
}

void postbag__envelope_attributes(const struct envelope *e,
    const struct row *row, const struct moment *now, struct attributes *out)
{
    postbag_id_format(&row->id, out->id);
    set_time(row, now, out);
    (void)snprintf(out->sequence, sizeof(out->sequence), "%s-%020lld",
        e->stream, (long long)row->seq);
    (void)snprintf(out->version, sizeof(out->version), "%lld",
        (long long)row->key_version);
    out->key_version = row->key_version == 0 ? NULL : out->version;
    out->type = row->type == NULL ? default_type : row->type;
    out->replay = row->is_replay ? "true" : NULL;
}

/* ---- MQTT 5: properties ---- */

static int check_string(struct envelope *e, const char *text)
{
    size_t len = strlen(text);

    if (len > STRING_MAX)
        return postbag__envelope_refuse(
            e, "a header is longer than 65535 bytes");
    if (!postbag_is_mqtt_text(text, len))
        return postbag__envelope_refuse(
            e, "a header is not UTF-8, or has a control character");
    return POSTBAG_OK;
}

static int add(struct envelope *e, const char *name, const char *value)
{
    int err;

    if (value == NULL)
        return POSTBAG_OK;
    if (e->count == ENVELOPE_PROPERTIES_MAX)
        return postbag__envelope_refuse(e, "more than 64 user properties");
    err = check_string(e, name);
    if (err == POSTBAG_OK)
        err = check_string(e, value);
    if (err != POSTBAG_OK)
        return err;
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
        return postbag__envelope_refuse(
            e, "correlation_data_hex has an odd length");
    e->correlation = postbag__arena_add(&e->text, hex, len);
    bytes = postbag__arena_at(&e->text, e->correlation);
    if (bytes == NULL)
        return POSTBAG_ENOMEM;
    for (size_t i = 0; i < len; i += 2) {
        int high = hex_value(hex[i]);
        int low = hex_value(hex[i + 1]);

        if (high < 0 || low < 0)
            return postbag__envelope_refuse(
                e, "correlation_data_hex is not hex");
        bytes[i / 2] = (char)(high << 4 | low);
    }
    e->correlation_len = len / 2;
    return e->correlation_len > STRING_MAX
               ? postbag__envelope_refuse(
                     e, "correlation_data_hex has more than 65535 bytes")
               : POSTBAG_OK;
}

static int set_correlation(struct envelope *e, const char *text)
{
    if (strlen(text) > STRING_MAX)
        return postbag__envelope_refuse(
            e, "correlation_data is longer than 65535 bytes");
    e->correlation_len = strlen(text);
    e->correlation = postbag__arena_add(&e->text, text, e->correlation_len);
    return e->text.err;
}

/* A topic name (MQTT 5, 3.3.2.3.5). */
static int set_response_topic(struct envelope *e, const char *topic)
{
    int err = check_string(e, topic);

    if (err != POSTBAG_OK)
        return err;
    if (topic[0] == '\0' || strpbrk(topic, "+#") != NULL)
        return postbag__envelope_refuse(
            e, "response_topic is empty, or has + or # in it");
    e->response_topic = postbag__arena_add(&e->text, topic, strlen(topic));
    return e->text.err;
}

/* Headers that are MQTT properties of their own; the rest are user ones. */
static int add_header(struct envelope *e, const char *name, const char *value)
{
    if (name == NULL || value == NULL)
        return postbag__fail(
            &e->db->fault, POSTBAG_ENOMEM, "no memory for a header");
    if (strcmp(name, "baggage") == 0)
        return POSTBAG_OK; /* may hold what was not meant for this broker */
    if (strcmp(name, "response_topic") == 0)
        return set_response_topic(e, value);
    if (strcmp(name, "correlation_data_hex") == 0)
        return set_correlation_hex(e, value);
    if (strcmp(name, "correlation_data") == 0)
        return set_correlation(e, value);
    if (strcmp(name, "time") == 0)
        e->has_time = 1;
    if (strcmp(name, "timequality") == 0)
        e->has_quality = 1;
    return add(e, name, value);
}

int postbag__envelope_check_headers(struct envelope *e, const char *headers)
{
    if (headers == NULL || headers[strspn(headers, " \t\r\n")] == '{')
        return POSTBAG_OK;
    return postbag__envelope_refuse(e, "headers are not a JSON object");
}

static int add_headers(struct envelope *e, const char *headers)
{
    int err = postbag__envelope_check_headers(e, headers);

    if (err != POSTBAG_OK || headers == NULL)
        return err;
    postbag__bind_text(&e->each_header, 1, headers);
    while ((err = postbag__row(&e->each_header)) == 1) {
        /* the table takes none, but may be damaged: an id before the id */
        err = postbag__col_i64(&e->each_header, 2) != 0
                  ? postbag__envelope_refuse(
                        e, "a header has the name of one of our attributes")
                  : add_header(e, postbag__col_string(&e->each_header, 0),
                        postbag__col_string(&e->each_header, 1));
        if (err != POSTBAG_OK)
            break;
    }
    postbag__reset(&e->each_header);
    return err;
}

/* After the headers, which may say when the event was. */
static int add_attributes(
    struct envelope *e, const struct row *row, const struct moment *now)
{
    struct attributes a;
    int err;

    postbag__envelope_attributes(e, row, now, &a);
    err = add(e, "replay", a.replay);
    if (err == POSTBAG_OK && e->kind == ENVELOPE_MINIMAL)
        return add(e, "id", a.id);
    if (err == POSTBAG_OK)
        err = add(e, "specversion", "1.0");
    if (err == POSTBAG_OK)
        err = add(e, "id", a.id);
    if (err == POSTBAG_OK)
        err = add(e, "source", e->source);
    if (err == POSTBAG_OK)
        err = add(e, "type", a.type);
    if (err == POSTBAG_OK)
        err = add(e, "time", e->has_time ? NULL : a.time);
    if (err == POSTBAG_OK && !e->has_time && !e->has_quality)
        err = add(e, "timequality", a.time_quality);
    if (err == POSTBAG_OK)
        err = add(e, "sequence", a.sequence);
    if (err == POSTBAG_OK)
        err = add(e, "partitionkey", row->key);
    if (err == POSTBAG_OK)
        err = add(e, "keyversion", a.key_version);
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

/* At least 1: 0 would be for ever. */
static uint32_t expiry_s(const struct row *row, const struct moment *now)
{
    int64_t left_ms = postbag__row_ttl_left_ms(row, now);
    int64_t left_s = left_ms / 1000 + (left_ms % 1000 != 0);

    if (left_ms == INT64_MAX)
        return 0;
    if (left_s > UINT32_MAX)
        return UINT32_MAX;
    return left_s == 0 ? 1 : (uint32_t)left_s;
}

static int build_properties(struct envelope *e, const struct row *row,
    const struct moment *now, struct postbag_frame *out)
{
    int err = add_headers(e, row->headers);

    if (err == POSTBAG_OK && e->kind != ENVELOPE_RAW)
        err = add_attributes(e, row, now);
    if (err == POSTBAG_OK)
        place(e, out);
    return err;
}

/* ---- both ---- */

/* A receiver would take the payload for the event (MQTT binding, 3). */
static int is_event(const char *content_type)
{
    static const char prefix[] = "application/cloudevents";

    return strncasecmp(content_type, prefix, sizeof(prefix) - 1) == 0;
}

static int check_texts(struct envelope *e, const struct row *row)
{
    const char *type = row->content_type;

    if (strlen(row->topic) != row->topic_len ||
        !postbag_is_mqtt_text(row->topic, row->topic_len))
        return postbag__envelope_refuse(
            e, "topic is not UTF-8, or has a control character");
    /* a broker hangs up on it; the table takes none, but may be damaged */
    if (row->topic_len == 0 || strpbrk(row->topic, "+#") != NULL)
        return postbag__envelope_refuse(e, "topic is empty, or has + or #");
    if (type == NULL)
        return POSTBAG_OK;
    if (strlen(type) > STRING_MAX || !postbag_is_mqtt_text(type, strlen(type)))
        return postbag__envelope_refuse(e,
            "content_type is not UTF-8, has a control character or more than"
            " 65535 bytes");
    if (e->kind == ENVELOPE_CLOUDEVENTS && is_event(type))
        return postbag__envelope_refuse(e,
            "content_type application/cloudevents: the payload is an event"
            " already, which envelope raw would send");
    return POSTBAG_OK;
}

static int build(struct envelope *e, const struct row *row,
    unsigned mqtt_version, const struct moment *now, struct postbag_frame *out)
{
    int err = check_texts(e, row);

    if (err != POSTBAG_OK)
        return err;
    postbag__arena_reset(&e->text);
    e->count = 0;
    e->has_time = 0;
    e->has_quality = 0;
    e->response_topic = ARENA_NONE;
    e->correlation = ARENA_NONE;
    e->correlation_len = 0;
    memset(out, 0, sizeof(*out));
    out->topic = row->topic;
    out->payload = row->payload;
    out->payload_len = row->payload_len;
    out->content_type = row->content_type;
    out->expiry_s = expiry_s(row, now);
    out->retain = row->retain != 0;
    out->is_text =
        row->is_text && postbag__utf8_is_valid(row->payload, row->payload_len);
    if (mqtt_version >= 5)
        return build_properties(e, row, now, out);
    if (e->kind == ENVELOPE_CLOUDEVENTS)
        return postbag__envelope_json(e, row, now, out);
    return POSTBAG_OK;
}

/* The statements here read no table, only the row's own texts: where they are
 * wrong, the row is, and must not hold up the rest. */
static int blame_row(struct envelope *e)
{
    char text[sizeof(e->db->fault.text)];

    (void)snprintf(text, sizeof(text), "%s", e->db->fault.text);
    return postbag__envelope_refuse(e, text);
}

int postbag__envelope_build(struct envelope *e, const struct row *row,
    unsigned mqtt_version, const struct moment *now, struct postbag_frame *out)
{
    int err = build(e, row, mqtt_version, now, out);

    return err == POSTBAG_ESCHEMA || err == POSTBAG_ETOOBIG ? blame_row(e)
                                                            : err;
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
