/* SPDX-License-Identifier: MIT */
/* The names that a frame gives itself, in fixed room, and hashes of it. */
#include "identity.h"

#include <string.h>

#include "utf8.h"

/* Evaluated in a CASE, so that JSON functions see valid JSON only. */
static const char json_sql[] =
    "SELECT CASE WHEN json_valid(?1) THEN"
    "  CASE WHEN json_type(?1, '$.id') IN ('text', 'integer')"
    "   AND typeof(json_extract(?1, '$.id')) <> 'real'"
    "  THEN CAST(json_extract(?1, '$.id') AS TEXT) END END,"
    " CASE WHEN json_valid(?1) THEN"
    "  CASE WHEN json_type(?1, '$.source') = 'text'"
    "  THEN json_extract(?1, '$.source') END END";

int postbag__identifier_open(struct identifier *i, struct db *db)
{
    return postbag__prepare(db, &i->json, json_sql);
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

static void hash(const void *bytes, size_t len, uint8_t out[SHA256_BYTES])
{
    struct sha256 h;

    postbag__sha256_begin(&h);
    postbag__sha256_add(&h, bytes, len);
    postbag__sha256_end(&h, out);
}

/* ---- keep a name in its room ------------------------------------------- */

static void set_id(
    struct identity *to, const void *bytes, size_t len, int is_text)
{
    to->found = 1;
    if (len > IDENTITY_MAX) {
        hash(bytes, len, to->id);
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
    hash(text, len, sum);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        to->source[2 * i] = digits[sum[i] >> 4];
        to->source[2 * i + 1] = digits[sum[i] & 15];
    }
    to->source[2 * sizeof(sum)] = '\0';
}

/* ---- where names may stand --------------------------------------------- */

static void look_at_properties(
    const struct postbag_frame *f, struct identity *out)
{
    const char *id = postbag__frame_property(f, "id");
    const char *source = postbag__frame_property(f, "source");

    if (source != NULL)
        set_source(out, source, strlen(source));
    if (length(id) > 0)
        set_id(out, id, strlen(id), 1);
}

/* A parser is not asked about what cannot be an object.  SQLite reads JSON
 * up to the first NUL, so a payload with one is not JSON. */
static int may_be_object(const struct postbag_frame *f)
{
    const char *p = f->payload;
    size_t i = 0;

    while (
        i < f->payload_len && strchr(" \t\r\n", p[i]) != NULL && p[i] != '\0')
        i++;
    return i < f->payload_len && p[i] == '{' &&
           memchr(p, '\0', f->payload_len) == NULL;
}

static int look_at_payload(
    struct identifier *i, const struct postbag_frame *f, struct identity *out)
{
    const char *text;
    size_t len;
    int err;

    if (!may_be_object(f))
        return POSTBAG_OK;
    postbag__bind_text_n(&i->json, 1, f->payload, f->payload_len);
    err = postbag__row(&i->json);
    if (err == 1) {
        text = postbag__col_bytes(&i->json, 0, &len);
        if (len > 0)
            set_id(out, text, len, 1);
        text = postbag__col_bytes(&i->json, 1, &len);
        if (out->found && len > 0)
            set_source(out, text, len);
        err = POSTBAG_OK;
    }
    postbag__reset(&i->json);
    /* forget the pointer to the caller's payload */
    postbag__bind_null(&i->json, 1);
    return err;
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

int postbag__identify(
    struct identifier *i, const struct postbag_frame *f, struct identity *out)
{
    int by_correlation = 0;
    int err = POSTBAG_OK;

    memset(out, 0, sizeof(*out));
    look_at_properties(f, out);
    if (!out->found && f->correlation_len > 0) {
        set_id(out, f->correlation, f->correlation_len, 0);
        by_correlation = 1;
    }
    if (!out->found)
        err = look_at_payload(i, f, out);
    if (!out->found)
        name_by_content(f, out);
    hash_content(f, by_correlation, out->content);
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
