/* SPDX-License-Identifier: MIT */
/* A database for fuzz targets that need one, opened once; and a frame. */
#ifndef POSTBAG_TESTS_FUZZ_FRAMES_H
#define POSTBAG_TESTS_FUZZ_FRAMES_H

#include "db.h"
#include "fuzz.h"
#include "postbag/transport.h"
#include "schema.h"

static inline struct db *fuzz_db(void)
{
    static struct db db;
    static int is_open;

    if (!is_open) {
        MUST(postbag__db_open(&db, fuzz_path("gw.db"), DB_CREATE, DB_NORMAL,
                 0) == POSTBAG_OK);
        MUST(postbag__schema_ensure(&db, 0) == POSTBAG_OK);
        is_open = 1;
    }
    return &db;
}

enum { FUZZ_PROPERTIES = 6 };

/* A frame as a transport hands it up. */
static inline void feed_frame(struct feed *f, struct postbag_frame *out,
    struct postbag_property properties[FUZZ_PROPERTIES])
{
    *out = (struct postbag_frame){0};
    out->topic = feed_text(f);
    out->content_type = feed_maybe(f);
    out->response_topic = feed_maybe(f);
    out->properties = properties;
    out->property_count = feed_below(f, FUZZ_PROPERTIES + 1);
    for (size_t i = 0; i < out->property_count; i++) {
        static const char *const usual[] = {"id", "source", "traceparent"};
        uint32_t which = feed_below(f, 4);

        properties[i].name = which < 3 ? usual[which] : feed_text(f);
        properties[i].value = feed_text(f);
    }
    out->correlation = feed_bytes(f, &out->correlation_len);
    out->expiry_s = feed_below(f, 65536);
    out->payload = feed_bytes(f, &out->payload_len);
}

#endif
