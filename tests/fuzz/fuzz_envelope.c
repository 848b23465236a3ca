/* SPDX-License-Identifier: MIT */
/* A row of any content leaves as a frame, or is refused; what left is read
 * back: the payload, the id, the same bytes at every attempt. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "envelope.h"
#include "frames.h"
#include "identity.h"
#include "postbag/linux.h"
#include "utf8.h"

static void feed_row(struct feed *f, struct row *r)
{
    memset(r, 0, sizeof(*r));
    r->seq = feed_i64(f) & INT64_MAX;
    r->topic = feed_text(f);
    r->topic_len = strlen(r->topic);
    r->key = feed_maybe(f);
    r->type = feed_maybe(f);
    r->content_type = feed_maybe(f);
    r->headers = feed_maybe(f);
    r->is_text = feed_byte(f) & 1;
    r->key_version = feed_i64(f);
    r->ttl_ms = feed_i64(f) & INT64_MAX;
    r->created_ms = feed_i64(f);
    r->mono_ms = feed_i64(f);
    r->boot[0] = feed_byte(f) & 1;
    r->is_replay = feed_byte(f) & 1;
    memset(r->id.b, 0x5a, sizeof(r->id.b));
    r->payload = r->is_text ? (const void *)feed_text(f)
                            : feed_bytes(f, &r->payload_len);
    if (r->is_text)
        r->payload_len = strlen(r->payload);
}

static void check_texts(const struct postbag_frame *f)
{
    MUST(postbag__utf8_is_valid(f->topic, strlen(f->topic)));
    for (size_t i = 0; i < f->property_count; i++) {
        const struct postbag_property *p = &f->properties[i];

        MUST(postbag__utf8_is_valid(p->name, strlen(p->name)));
        MUST(postbag__utf8_is_valid(p->value, strlen(p->value)));
    }
    MUST(postbag__frame_size(f) >= strlen(f->topic) + f->payload_len);
}

/* ---- read back --------------------------------------------------------- */

static int is_same(sqlite3_stmt *s, const void *bytes, size_t len)
{
    return (size_t)sqlite3_column_bytes(s, 0) == len &&
           (len == 0 || memcmp(sqlite3_column_blob(s, 0), bytes, len) == 0);
}

/* Member `data` as it was put, if the payload is text that is not JSON. */
static void check_json(const struct postbag_frame *f, const struct row *r)
{
    static sqlite3_stmt *s;
    const char *id = "5a5a5a5a-5a5a-5a5a-5a5a-5a5a5a5a5a5a";

    if (s == NULL)
        MUST(sqlite3_prepare_v2(fuzz_db()->handle,
                 "SELECT ?1 ->> '$.data', ?1 ->> '$.id',"
                 " json_type(?1, '$.data') = 'text'",
                 -1, &s, NULL) == SQLITE_OK);
    MUST(sqlite3_bind_text(s, 1, f->payload, (int)f->payload_len,
             SQLITE_STATIC) == SQLITE_OK);
    MUST(sqlite3_step(s) == SQLITE_ROW);
    MUST(strcmp((const char *)sqlite3_column_text(s, 1), id) == 0);
    if (r->is_text && r->content_type == NULL && sqlite3_column_int(s, 2))
        MUST(is_same(s, r->payload, r->payload_len) || r->payload_len > 0);
    (void)sqlite3_reset(s);
}

/* The id that a receiver of ours would find. */
static void check_id(const struct postbag_frame *f, enum envelope_kind kind)
{
    static struct identifier by_property;
    static struct identifier by_member;
    static int is_open;
    struct identifier *r =
        kind == ENVELOPE_CLOUDEVENTS && f->property_count == 0 ? &by_member
                                                               : &by_property;
    struct identity i;

    if (!is_open) {
        MUST(postbag__identifier_open(&by_property, fuzz_db(),
                 postbag_linux_port(), "id", "dead") == POSTBAG_OK);
        MUST(postbag__identifier_open(&by_member, fuzz_db(),
                 postbag_linux_port(), "json:$.id", "dead") == POSTBAG_OK);
        is_open = 1;
    }
    if (kind == ENVELOPE_RAW ||
        (kind != ENVELOPE_CLOUDEVENTS && f->property_count == 0))
        return;
    MUST(postbag__identify(r, f, &i) == POSTBAG_OK);
    MUST(i.found && i.id_is_text && i.id_len == 36);
    MUST(memcmp(i.id, "5a5a5a5a-5a5a", 13) == 0);
}

static void check_frame(const struct postbag_frame *f, const struct row *r,
    enum envelope_kind kind, unsigned version)
{
    MUST(strcmp(f->topic, r->topic) == 0);
    check_texts(f);
    if (version == 4 && kind == ENVELOPE_CLOUDEVENTS)
        check_json(f, r);
    else
        MUST(f->payload_len == r->payload_len &&
             (f->payload_len == 0 ||
                 memcmp(f->payload, r->payload, f->payload_len) == 0));
    check_id(f, kind);
}

/* ---- the target -------------------------------------------------------- */

static void build(struct envelope *e, const struct row *r, unsigned version)
{
    static const struct moment now = {
        .wall_ms = INT64_C(1800000000000), .mono_ms = 60000};
    struct postbag_frame f;
    size_t len;
    int err = postbag__envelope_build(e, r, version, &now, &f);

    MUST(err == POSTBAG_OK || err == POSTBAG_EINVAL);
    if (err != POSTBAG_OK)
        return;
    check_frame(&f, r, e->kind, version);
    len = postbag__frame_size(&f);
    MUST(postbag__envelope_build(e, r, version, &now, &f) == POSTBAG_OK);
    MUST(postbag__frame_size(&f) == len);
    check_frame(&f, r, e->kind, version);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct envelope all[3];
    static int is_open;
    struct feed f;
    struct row r;

    for (int i = 0; !is_open && i < 3; i++)
        MUST(postbag__envelope_open(&all[i], fuzz_db(), (enum envelope_kind)i,
                 "/gw/7") == POSTBAG_OK);
    is_open = 1;
    feed_begin(&f, data, size);
    feed_row(&f, &r);
    for (int i = 0; i < 3; i++) {
        build(&all[i], &r, 4);
        build(&all[i], &r, 5);
    }
    feed_end(&f);
    return 0;
}
