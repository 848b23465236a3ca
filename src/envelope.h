/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  A queued row becomes the MQTT message that leaves.  CloudEvents
 * 1.0: user properties on MQTT 5 (binary mode), a JSON envelope on 3.1.1
 * (structured mode, the only one the binding allows there).  But for what is
 * left of its TTL, and the time of a row from before the clock was set, the
 * result depends on the row and the configuration alone, so that every attempt
 * carries the same bytes.
 */
#ifndef POSTBAG_SRC_ENVELOPE_H
#define POSTBAG_SRC_ENVELOPE_H

#include "postbag/transport.h"
#include "rfc3339.h"
#include "row.h"

enum envelope_kind { ENVELOPE_CLOUDEVENTS, ENVELOPE_MINIMAL, ENVELOPE_RAW };
enum { ENVELOPE_PROPERTIES_MAX = 64 };

struct envelope {
    struct db *db;
    enum envelope_kind kind;
    const char *source; /* borrowed */
    char stream[33];    /* hex id of this log */
    struct stmt each_header, structured, is_json;
    struct arena text;
    struct {
        ptrdiff_t name, value;
    } pending[ENVELOPE_PROPERTIES_MAX];
    size_t count;
    int has_time, has_quality; /* a header says when the event was; how sure */
    ptrdiff_t response_topic, correlation;
    size_t correlation_len;
    struct postbag_property properties[ENVELOPE_PROPERTIES_MAX];
};

/* EINVAL: unknown name. */
POSTBAG_CHECK int postbag__envelope_kind(
    const char *name, enum envelope_kind *out);
POSTBAG_CHECK int postbag__envelope_open(struct envelope *e, struct db *db,
    enum envelope_kind kind, const char *source);
void postbag__envelope_close(struct envelope *e);

/*
 * Build *out from *row; its pointers live until the next build.
 * @return OK; EINVAL: this row can never be sent, db->fault says why (not
 *         UTF-8, not JSON, too many headers); ENOMEM; an error of SQLite that
 *         the row is not to blame for
 */
POSTBAG_CHECK int postbag__envelope_build(struct envelope *e,
    const struct row *row, unsigned mqtt_version, const struct moment *now,
    struct postbag_frame *out);

/* Bytes that the frame takes on the wire, at most. */
size_t postbag__frame_size(const struct postbag_frame *f);

/* ---- between envelope.c and envelope_json.c ---- */

/* Of the rows of json_each: which headers leave, and as what text. */
#define ENVELOPE_HEADER_LEAVES "type NOT IN ('null', 'object', 'array')"
#define ENVELOPE_HEADER_TEXT \
    "iif(type IN ('true', 'false'), type, CAST(value AS TEXT))"

/* The attributes of an event that are ours; NULL: it has none. */
struct attributes {
    char id[37], when[RFC3339_SIZE], sequence[64], version[24];
    const char *type, *key_version, *replay, *time, *time_quality;
};

void postbag__envelope_attributes(const struct envelope *e,
    const struct row *row, const struct moment *now, struct attributes *out);

/* EINVAL, with the reason in db->fault. */
POSTBAG_CHECK int postbag__envelope_refuse(
    struct envelope *e, const char *what);

/* Of any other JSON, json_each would give names that are none.  EINVAL: a
 * writer that went round the trigger, or a damaged file. */
POSTBAG_CHECK int postbag__envelope_check_headers(
    struct envelope *e, const char *headers);

/* The statements of the JSON envelope; and the envelope as *out's payload. */
POSTBAG_CHECK int postbag__envelope_json_open(struct envelope *e);
POSTBAG_CHECK int postbag__envelope_json(struct envelope *e,
    const struct row *row, const struct moment *now, struct postbag_frame *out);

#endif
