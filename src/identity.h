/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  Which command a frame is: who sent it, its id, its content.
 *
 * Looked for in this order:
 *   1. user property `id`, with `source` (default "")
 *   2. MQTT 5 correlation data, with user property `source`
 *   3. members /id (text or 64-bit integer) and /source of a JSON payload
 * A frame without any of them has found 0 and the hash of topic and payload
 * as its id, so that the same frame delivered twice is one row all the same.
 *
 * The content hash covers topic, payload and content type.  Where the id is
 * the correlation data it also covers the response topic: requesters count
 * their requests on their own, so two of them may use one number.
 *
 * One thread at a time.
 */
#ifndef POSTBAG_SRC_IDENTITY_H
#define POSTBAG_SRC_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

#include "db.h"
#include "postbag/transport.h"
#include "sha256.h"

/* Longer ids and sources are replaced by their hash. */
enum { IDENTITY_MAX = 255 };

struct identity {
    char source[IDENTITY_MAX + 1];
    uint8_t id[IDENTITY_MAX];
    size_t id_len;
    int id_is_text; /* else a blob */
    int found;      /* 0: the frame names none */
    uint8_t content[SHA256_BYTES];
};

struct identifier {
    struct stmt json;
};

POSTBAG_CHECK int postbag__identifier_open(struct identifier *i, struct db *db);
void postbag__identifier_close(struct identifier *i);
/* OK or what SQLite ran into (no memory).  Nothing in *out is borrowed. */
POSTBAG_CHECK int postbag__identify(
    struct identifier *i, const struct postbag_frame *f, struct identity *out);
/* The id under which a conflict is kept: the same for the same content. */
void postbag__identity_derive(
    const struct identity *from, struct identity *out);

/* The value of a user property (the first of its name); NULL: none. */
const char *postbag__frame_property(
    const struct postbag_frame *f, const char *name);

#endif
