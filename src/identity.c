/* SPDX-License-Identifier: MIT */
/* The names that a frame gives itself, in fixed room, and hashes of it. */
#include "identity.h"

#include <string.h>
#include <strings.h>

#include "error.h"
#include "utf8.h"

/* SQLite cuts a text at its NUL, so that two ids might become one.  What stands
 * in the JSON is in an array of it: is a \u0000 there that is an escape? */
#define HAS_NO_NUL(path) \
    "instr(replace(json_extract(?1, " path ", " path "), '\\\\', '')," \
    " '\\u0000') = 0"

#define ID_HAS_NO_NUL HAS_NO_NUL("?2")
#define SOURCE_HAS_NO_NUL HAS_NO_NUL("'$.source'")

/* Evaluated in a CASE, so that JSON functions see valid JSON only. */
static const char json_sql[] =
    "SELECT CASE WHEN json_valid(?1) THEN"
    "  CASE WHEN json_type(?1, ?2) IN ('text', 'integer')"
    "   AND typeof(json_extract(?1, ?2)) <> 'real' AND " ID_HAS_NO_NUL
    "  THEN CAST(json_extract(?1, ?2) AS TEXT) END END,"
    " CASE WHEN json_valid(?1) THEN"
    "  CASE WHEN json_type(?1, '$.source') = 'text' AND " SOURCE_HAS_NO_NUL
    "  THEN json_extract(?1, '$.source') END END";

int postbag__identifier_open(struct identifier *i, struct db *db,
    const struct postbag_port *port, const char *places, const char *nameless)
{
    int err = postbag__places_read(&i->places, places, &db->fault);

    i->port = port;
    if (err == POSTBAG_OK)
        err = postbag__nameless_read(&i->nameless, nameless, &db->fault);
    return err == POSTBAG_OK ? postbag__prepare(db, &i->json, json_sql) : err;
}

void postbag__identifier_close(struct identifier *i)
{
    postbag__finalize(&i->json);
}

const char *postbag__frame_property(
    const struct postbag_frame *f, const char *name)
{
    for (size_t i = 0; i < f->property_count; i++)
        if (strcmp(f->properties[i].name, name) == 0)
            return f->properties[i].value;
    return NULL;
}

static size_t length(const char *text)
{
    return text == NULL ? 0 : strlen(text);
}

/* ---- keep a name in its room ------------------------------------------- */

void postbag__identity_name(
    struct identity *to, const void *bytes, size_t len, int is_text)
{
    to->found = 1;
    if (len > IDENTITY_MAX) {
        postbag__sha256(bytes, len, to->id);
        to->id_len = SHA256_BYTES;
        to->id_is_text = 0;
        return;
    }
    memcpy(to->id, bytes, len);
    to->id_len = len;
    to->id_is_text = is_text && postbag__utf8_is_valid(bytes, len);
}

static void set_source(struct identity *to, const char *text, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t sum[SHA256_BYTES];

    if (len <= IDENTITY_MAX && memchr(text, '\0', len) == NULL) {
        memcpy(to->source, text, len);
        to->source[len] = '\0';
        return;
    }
    postbag__sha256(text, len, sum);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        to->source[2 * i] = digits[sum[i] >> 4];
        to->source[2 * i + 1] = digits[sum[i] & 15];
    }
    to->source[2 * sizeof(sum)] = '\0';
}

/* ---- where names may stand --------------------------------------------- */

static void look_at_property(
    const struct postbag_frame *f, struct identity *out)
{
    const char *id = postbag__frame_property(f, "id");

    if (length(id) > 0)
        postbag__identity_name(out, id, strlen(id), 1);
}

static void look_at_topic(
    const struct postbag_frame *f, const struct place *at, struct identity *out)
{
    size_t len;
    const char *id = postbag__topic_segment(f->topic, at->segment, &len);

    if (len > 0)
        postbag__identity_name(out, id, len, 1);
}

/* A parser is not asked about what can have no member.  SQLite reads JSON
 * up to the first NUL, so a payload with one is not JSON. */
static int may_have_member(const struct postbag_frame *f)
{
    const char *p = f->payload;
    size_t i = 0;

    while (
        i < f->payload_len && strchr(" \t\r\n", p[i]) != NULL && p[i] != '\0')
        i++;
    return i < f->payload_len && (p[i] == '{' || p[i] == '[') &&
           memchr(p, '\0', f->payload_len) == NULL;
}

/* An event must have a source; of other payloads it is one more name. */
static void take_member(struct stmt *s, int is_event, struct identity *out)
{
    size_t id_len;
    size_t source_len;
    const char *id = postbag__col_bytes(s, 0, &id_len);
    const char *source = postbag__col_bytes(s, 1, &source_len);

    if (id_len == 0 || (is_event && source_len == 0))
        return;
    postbag__identity_name(out, id, id_len, 1);
    if (source_len > 0)
        set_source(out, source, source_len);
}

static int look_at_payload(struct identifier *i, const struct postbag_frame *f,
    const struct place *at, struct identity *out)
{
    int is_event = at->kind == PLACE_CLOUDEVENTS;
    int err;

    if (!may_have_member(f))
        return POSTBAG_OK;
    postbag__bind_text_n(&i->json, 1, f->payload, f->payload_len);
    if (is_event)
        postbag__bind_text(&i->json, 2, "$.id");
    else
        postbag__bind_text_n(&i->json, 2, at->path, at->path_len);
    err = postbag__row(&i->json);
    if (err == 1) {
        take_member(&i->json, is_event, out);
        err = POSTBAG_OK;
    }
    postbag__reset(&i->json);
    /* forget the pointer to the caller's payload */
    postbag__bind_null(&i->json, 1);
    return err;
}

/* CloudEvents, MQTT binding: attributes are properties (binary mode), or
 * members of the payload (structured mode). */
static int look_at_event(struct identifier *i, const struct postbag_frame *f,
    const struct place *at, struct identity *out)
{
    static const char structured[] = "application/cloudevents+json";

    if (f->content_type != NULL &&
        strncasecmp(f->content_type, structured, sizeof(structured) - 1) == 0)
        return look_at_payload(i, f, at, out);
    if (out->source[0] != '\0')
        look_at_property(f, out);
    return POSTBAG_OK;
}

static int look_at(struct identifier *i, const struct postbag_frame *f,
    const struct place *at, struct identity *out)
{
    switch (at->kind) {
    case PLACE_CLOUDEVENTS:
        return look_at_event(i, f, at, out);
    case PLACE_JSON:
        return look_at_payload(i, f, at, out);
    case PLACE_PROPERTY:
        look_at_property(f, out);
        break;
    case PLACE_CORRELATION:
        if (f->correlation_len > 0)
            postbag__identity_name(out, f->correlation, f->correlation_len, 0);
        break;
    case PLACE_TOPIC:
        look_at_topic(f, at, out);
        break;
    }
    return POSTBAG_OK;
}

/* ---- hashes ------------------------------------------------------------ */

static void add_text(struct sha256 *h, const char *text)
{
    postbag__sha256_field(h, text, length(text));
}

static void hash_content(const struct postbag_frame *f, int by_correlation,
    uint8_t out[SHA256_BYTES])
{
    struct sha256 h;

    postbag__sha256_begin(&h);
    add_text(&h, f->topic);
    postbag__sha256_field(&h, f->payload, f->payload_len);
    add_text(&h, f->content_type);
    if (by_correlation)
        add_text(&h, f->response_topic);
    postbag__sha256_end(&h, out);
}

static void name_by_content(const struct postbag_frame *f, struct identity *out)
{
    struct sha256 h;

    postbag__sha256_begin(&h);
    add_text(&h, f->topic);
    postbag__sha256_field(&h, f->payload, f->payload_len);
    postbag__sha256_end(&h, out->id);
    out->id_len = SHA256_BYTES;
}

/* Nobody has this name: each delivery is a command of its own. */
static int name_by_chance(struct identifier *i, struct identity *out)
{
    enum { CHANCE_BYTES = 16 };
    const struct postbag_port *port = i->port;
    int err = port->random(port->ctx, out->id, CHANCE_BYTES);

    if (err != POSTBAG_OK)
        return postbag__fail(
            &i->json.db->fault, err, "no random bytes to name a command by");
    out->id_len = CHANCE_BYTES;
    out->found = 1;
    return POSTBAG_OK;
}

static int name_nameless(
    struct identifier *i, const struct postbag_frame *f, struct identity *out)
{
    if (i->nameless == NAMELESS_UNPROTECTED)
        return name_by_chance(i, out);
    name_by_content(f, out);
    out->found = i->nameless == NAMELESS_HASH;
    return POSTBAG_OK;
}

int postbag__identify(
    struct identifier *i, const struct postbag_frame *f, struct identity *out)
{
    const char *source = postbag__frame_property(f, "source");
    int is_correlation = 0;
    int err = POSTBAG_OK;

    memset(out, 0, sizeof(*out));
    if (source != NULL)
        set_source(out, source, strlen(source));
    for (size_t n = 0; n < i->places.count && err == POSTBAG_OK && !out->found;
         n++) {
        err = look_at(i, f, &i->places.list[n], out);
        is_correlation = i->places.list[n].kind == PLACE_CORRELATION;
    }
    hash_content(f, out->found && is_correlation, out->content);
    if (err == POSTBAG_OK && !out->found)
        err = name_nameless(i, f, out);
    return err;
}

void postbag__identity_derive(const struct identity *from, struct identity *out)
{
    struct sha256 h;

    *out = *from;
    postbag__sha256_begin(&h);
    postbag__sha256_field(&h, from->id, from->id_len);
    postbag__sha256_field(&h, from->content, sizeof(from->content));
    postbag__sha256_end(&h, out->id);
    out->id_len = SHA256_BYTES;
    out->id_is_text = 0;
}
