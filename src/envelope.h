/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  A queued row becomes the MQTT message that leaves.  CloudEvents
 * 1.0: user properties on MQTT 5 (binary mode), a JSON envelope on 3.1.1
 * (structured mode, the only one the binding allows there).  The result
 * depends on the row and the configuration alone, so that every attempt
 * carries the same bytes.
 */
#ifndef POSTBAG_SRC_ENVELOPE_H
#define POSTBAG_SRC_ENVELOPE_H

#include "postbag/transport.h"
#include "row.h"

enum envelope_kind { ENVELOPE_CLOUDEVENTS, ENVELOPE_MINIMAL, ENVELOPE_RAW };
enum { ENVELOPE_PROPERTIES_MAX = 64 };

struct envelope {
    struct db *db;
    enum envelope_kind kind;
    const char *source; /* borrowed */
    char stream[33];    /* hex id of this log */
    struct stmt each_header, structured;
    struct arena text;
    struct {
        ptrdiff_t name, value;
    } pending[ENVELOPE_PROPERTIES_MAX];
    size_t count;
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
 *         UTF-8, too many headers); ENOMEM; an error of SQLite
 */
POSTBAG_CHECK int postbag__envelope_build(struct envelope *e,
    const struct row *row, unsigned mqtt_version, struct postbag_frame *out);

/* Bytes that the frame takes on the wire, at most. */
size_t postbag__frame_size(const struct postbag_frame *f);

#endif
