/* SPDX-License-Identifier: MIT */
/* Floor 0.  Options identity and no_identity, read: where a command's id may
 * stand, and what becomes of one that has none.  Pure. */
#ifndef POSTBAG_SRC_PLACES_H
#define POSTBAG_SRC_PLACES_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum place_kind {
    PLACE_CLOUDEVENTS,
    PLACE_PROPERTY,
    PLACE_CORRELATION,
    PLACE_JSON,
    PLACE_TOPIC
};

struct place {
    enum place_kind kind;
    const char *path; /* PLACE_JSON: in the text that was read */
    size_t path_len;
    uint32_t segment; /* PLACE_TOPIC: 1 is the first */
};

enum { PLACES_MAX = 8 };

struct places {
    struct place list[PLACES_MAX];
    size_t count;
};

enum nameless { NAMELESS_DEAD, NAMELESS_HASH, NAMELESS_UNPROTECTED };

/* text is borrowed by *out.  OK, EINVAL (*why names the word).  A path is $
 * and then at least one of .member, ."member" and [number]: SQLite itself would
 * find a slip in it only in a command that has the members before. */
POSTBAG_CHECK int postbag__places_read(
    struct places *out, const char *text, struct postbag_fault *why);
POSTBAG_CHECK int postbag__nameless_read(
    enum nameless *out, const char *text, struct postbag_fault *why);
/* The n-th part of a topic, from 1; *len is 0 where there is none. */
const char *postbag__topic_segment(const char *topic, uint32_t n, size_t *len);

#endif
