/* SPDX-License-Identifier: MIT */
/* Topic filters and UTF-8, each against a second way to say the same. */
#include <string.h>

#include "fuzz.h"
#include "postbag/transport.h"
#include "topicfilter.h"
#include "utf8.h"

/* ---- UTF-8: decode, and encode again ----------------------------------- */

static size_t encode(uint32_t code, uint8_t out[4])
{
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (uint8_t)(0xc0 | code >> 6);
        out[1] = (uint8_t)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (uint8_t)(0xe0 | code >> 12);
        out[1] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | code >> 18);
    out[1] = (uint8_t)(0x80 | (code >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (code & 0x3f));
    return 4;
}

/* The bytes of the code point at p if it is the shortest form; else 0. */
static size_t decode(const uint8_t *p, size_t left, uint32_t *code)
{
    static const uint32_t bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint8_t again[4];
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

    if (len > left)
        return 0;
    *code = p[0] & bits[len];
    for (size_t i = 1; i < len; i++)
        *code = *code << 6 | (p[i] & 0x3f);
    if (*code == 0 || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000))
        return 0;
    return encode(*code, again) == len && memcmp(again, p, len) == 0 ? len : 0;
}

static int is_utf8(const uint8_t *p, size_t left)
{
    uint32_t code;

    while (left > 0) {
        size_t len = decode(p, left, &code);

        if (len == 0)
            return 0;
        p += len;
        left -= len;
    }
    return 1;
}

static void check_utf8(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    int is_valid = postbag__utf8_is_valid(text, size);

    MUST(is_valid == is_utf8(data, size));
    MUST(is_valid || !postbag_is_mqtt_text(text, size));
}

static void check_printable(const char *text)
{
    for (; *text != '\0'; text++) {
        size_t len = postbag__utf8_printable(text);

        MUST(len <= strlen(text));
        MUST(len == 0 || postbag_is_mqtt_text(text, len));
    }
}

/* ---- filters: level by level, by recursion ------------------------------- */

static int selects(const char *filter, const char *topic)
{
    size_t flen = strcspn(filter, "/");
    size_t tlen = strcspn(topic, "/");
    int is_plus = strncmp(filter, "+", flen) == 0 && flen == 1;

    if (strcmp(filter, "#") == 0)
        return 1;
    if (!is_plus && (flen != tlen || strncmp(filter, topic, flen) != 0))
        return 0;
    if (filter[flen] == '\0' || topic[tlen] == '\0')
        return topic[tlen] == '\0' &&
               (filter[flen] == '\0' || strcmp(filter + flen, "/#") == 0);
    return selects(filter + flen + 1, topic + tlen + 1);
}

/* What is behind $share/group/, or the filter itself; NULL: no group. */
static const char *unshared(const char *filter)
{
    size_t len;

    if (strncmp(filter, "$share/", 7) != 0)
        return filter;
    len = strcspn(filter + 7, "/+#");
    return len == 0 || filter[7 + len] != '/' ? NULL : filter + 8 + len;
}

static int is_filter(const char *filter)
{
    const char *levels = unshared(filter);
    const char *at;

    if (levels == NULL || levels[0] == '\0' || strlen(filter) > 65535)
        return 0;
    for (at = levels; *at != '\0'; at++) {
        int is_alone =
            (at == levels || at[-1] == '/') && (at[1] == '\0' || at[1] == '/');

        if ((*at == '+' && !is_alone) ||
            (*at == '#' && (!is_alone || at[1] != '\0')))
            return 0;
    }
    return 1;
}

static void check_filter(const char *filter, const char *topic)
{
    const char *levels = unshared(filter);
    int is_valid = postbag__filter_is_valid(filter);
    int matches = postbag__filter_matches(filter, topic);
    int hides = topic[0] == '$' && levels != NULL &&
                (levels[0] == '+' || levels[0] == '#');

    MUST(is_valid == is_filter(filter));
    if (is_valid && topic[0] != '\0' && strpbrk(topic, "+#") == NULL)
        MUST(matches == (!hides && selects(levels, topic)));
    else
        MUST(!is_valid || !matches);
    if (strpbrk(filter, ", ") == NULL && strlen(filter) < 1024) {
        MUST(postbag__filters_match(filter, topic) == (is_valid && matches));
        MUST(postbag__filters_are_valid(filter) ==
             (is_valid || filter[0] == '\0'));
    }
    (void)postbag__filters_match(filter, topic);
    (void)postbag__filters_are_valid(filter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct feed f;
    const char *filter;
    const char *topic;

    feed_begin(&f, data, size);
    check_utf8(data, size);
    filter = feed_text(&f);
    topic = feed_text(&f);
    check_printable(filter);
    check_filter(filter, topic);
    feed_end(&f);
    return 0;
}
