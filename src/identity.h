/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  Which command a frame is: who sent it, its id, its content.
 *
 * Looked for at the places of option identity, in its order:
 *   cloudevents  user properties `id` and `source`, both; or, where the content
 *                type is application/cloudevents+json, these members of the
 *                payload
 *   id           user property `id`
 *   correlation  MQTT 5 correlation data
 *   json:PATH    text or 64-bit integer in a JSON payload
 *   topic:N      the N-th part of the topic
 * Its source is the payload's member `source` where the id stands there too,
 * else user property `source`, else "".  A place with an empty text has none.
 * What a trace or `correlationid` says is never looked at.
 *
 * Without a name (option no_identity): found is 0 and the id is the hash of
 * topic and payload, so that the same frame delivered twice is one row all the
 * same (dead); the same, but found (hash); or 16 random bytes (unprotected).
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
#include "places.h"
#include "postbag/port.h"
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
    struct places places;
    enum nameless nameless;
    const struct postbag_port *port;
};

/* The options' texts and the port are borrowed until close.  OK, EINVAL, or
 * what SQLite ran into. */
POSTBAG_CHECK int postbag__identifier_open(struct identifier *i, struct db *db,
    const struct postbag_port *port, const char *places, const char *nameless);
void postbag__identifier_close(struct identifier *i);
/* OK or what SQLite or the port ran into.  Nothing in *out is borrowed. */
POSTBAG_CHECK int postbag__identify(
    struct identifier *i, const struct postbag_frame *f, struct identity *out);
/* Keep an id in *to, as it is or as its hash.  is_text: as text, if it is UTF-8
 * without NUL; else as blob. */
void postbag__identity_name(
    struct identity *to, const void *bytes, size_t len, int is_text);
/* The id under which a conflict is kept: the same for the same content. */
void postbag__identity_derive(
    const struct identity *from, struct identity *out);

/* The value of a user property (the first of its name); NULL: none. */
const char *postbag__frame_property(
    const struct postbag_frame *f, const char *name);

#endif
