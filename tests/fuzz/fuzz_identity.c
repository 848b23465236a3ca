/* SPDX-License-Identifier: MIT */
/* Which command a frame is: any frame, any places that may be configured. */
#include <string.h>

#include "frames.h"
#include "identity.h"
#include "postbag/linux.h"
#include "utf8.h"

static void check_identity(const struct identity *i, int is_by_chance)
{
    MUST(i->id_len > 0 && i->id_len <= IDENTITY_MAX);
    MUST(memchr(i->source, '\0', sizeof(i->source)) != NULL);
    MUST(!i->id_is_text ||
         postbag__utf8_is_valid((const char *)i->id, i->id_len));
    MUST(i->found || i->id_len == SHA256_BYTES);
    MUST(!is_by_chance || i->found);
}

/* The same frame is the same command; one with another payload is not the same
 * content. */
static void check_again(
    struct identifier *r, struct postbag_frame *f, const struct identity *first)
{
    struct identity again;

    f->dup = 1;
    f->expiry_s++;
    MUST(postbag__identify(r, f, &again) == POSTBAG_OK);
    MUST(memcmp(&again, first, sizeof(again)) == 0);
    if (f->payload_len > 0) {
        f->payload_len--;
        MUST(postbag__identify(r, f, &again) == POSTBAG_OK);
        MUST(memcmp(again.content, first->content, SHA256_BYTES) != 0);
    }
    postbag__identity_derive(first, &again);
    MUST(again.id_len == SHA256_BYTES && !again.id_is_text);
}

static void identify(struct identifier *r, struct feed *f, int is_by_chance)
{
    struct postbag_property properties[FUZZ_PROPERTIES];
    struct postbag_frame frame;
    struct identity first;

    feed_frame(f, &frame, properties);
    MUST(postbag__identify(r, &frame, &first) == POSTBAG_OK);
    check_identity(
        &first, is_by_chance && !first.id_is_text && first.id_len == 16);
    if (!is_by_chance)
        check_again(r, &frame, &first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const usual[] = {"cloudevents,id,correlation,json:$.id",
        "json:$[0].a,topic:2", "topic:1", "correlation", "json:$.\"a b\".c"};
    static const char *const nameless[] = {"dead", "hash", "unprotected"};
    struct identifier r = {0};
    struct feed f;
    uint32_t which;
    uint32_t rule;
    int err;

    feed_begin(&f, data, size);
    which = feed_below(&f, 6);
    rule = feed_below(&f, 3);
    err = postbag__identifier_open(&r, fuzz_db(), postbag_linux_port(),
        which < 5 ? usual[which] : feed_text(&f), nameless[rule]);
    MUST(err == POSTBAG_OK || (err == POSTBAG_EINVAL && which == 5));
    if (err == POSTBAG_OK)
        identify(&r, &f, rule == 2);
    postbag__identifier_close(&r);
    feed_end(&f);
    return 0;
}
