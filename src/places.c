/* SPDX-License-Identifier: MIT */
/* Words, separated by commas, that say where an id may stand. */
#include "places.h"

#include <string.h>

static int is(const char *word, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(word, name, len) == 0;
}

static int begins(const char *word, size_t len, const char *name)
{
    return len > strlen(name) && memcmp(word, name, strlen(name)) == 0;
}

/* 1..999; 0 for anything else */
static uint32_t read_segment(const char *digits, size_t len)
{
    uint32_t n = 0;

    if (len > 3)
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return 0;
        n = n * 10 + (uint32_t)(digits[i] - '0');
    }
    return n;
}

/* Behind the rest of one step of a path, which begins at `from`; NULL: it is
 * none.  [number] */
static const char *skip_number(const char *from, const char *end)
{
    const char *at = from;

    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at > from && at < end && *at == ']' ? at + 1 : NULL;
}

/* ."member" */
static const char *skip_quoted(const char *from, const char *end)
{
    const char *at = from;

    while (at < end && *at != '"' && *at != '\\')
        at++;
    return at > from && at < end && *at == '"' ? at + 1 : NULL;
}

/* .member */
static const char *skip_plain(const char *from, const char *end)
{
    const char *at = from;

    while (at < end && strchr(".[\"\\", *at) == NULL)
        at++;
    return at > from ? at : NULL;
}

static const char *skip_step(const char *at, const char *end)
{
    if (*at == '[')
        return skip_number(at + 1, end);
    if (*at != '.' || at + 1 == end)
        return NULL;
    return at[1] == '"' ? skip_quoted(at + 2, end) : skip_plain(at + 1, end);
}

static int is_path(const char *at, size_t len)
{
    const char *end = at + len;

    if (len < 2 || *at++ != '$')
        return 0;
    while (at != NULL && at < end)
        at = skip_step(at, end);
    return at != NULL;
}

static int read_place(struct place *p, const char *word, size_t len)
{
    static const char json[] = "json:";
    static const char topic[] = "topic:";

    memset(p, 0, sizeof(*p));
    if (is(word, len, "cloudevents"))
        p->kind = PLACE_CLOUDEVENTS;
    else if (is(word, len, "id"))
        p->kind = PLACE_PROPERTY;
    else if (is(word, len, "correlation"))
        p->kind = PLACE_CORRELATION;
    else if (begins(word, len, json)) {
        p->kind = PLACE_JSON;
        p->path = word + sizeof(json) - 1;
        p->path_len = len - (sizeof(json) - 1);
        return is_path(p->path, p->path_len);
    } else if (begins(word, len, topic)) {
        p->kind = PLACE_TOPIC;
        p->segment =
            read_segment(word + sizeof(topic) - 1, len - (sizeof(topic) - 1));
        return p->segment > 0;
    } else
        return 0;
    return 1;
}

int postbag__places_read(
    struct places *out, const char *text, struct postbag_fault *why)
{
    out->count = 0;
    for (;;) {
        size_t len = strcspn(text, ",");

        if (out->count == PLACES_MAX)
            return postbag__fail(why, POSTBAG_EINVAL,
                "option identity names more than %d places", PLACES_MAX);
        if (!read_place(&out->list[out->count], text, len))
            return postbag__fail(why, POSTBAG_EINVAL,
                "option identity: '%.*s' is not cloudevents, id, correlation,"
                " json:$... or topic:N",
                (int)len, text);
        out->count++;
        if (text[len] == '\0')
            return POSTBAG_OK;
        text += len + 1;
    }
}

int postbag__nameless_read(
    enum nameless *out, const char *text, struct postbag_fault *why)
{
    if (strcmp(text, "dead") == 0)
        *out = NAMELESS_DEAD;
    else if (strcmp(text, "hash") == 0)
        *out = NAMELESS_HASH;
    else if (strcmp(text, "unprotected") == 0)
        *out = NAMELESS_UNPROTECTED;
    else
        return postbag__fail(why, POSTBAG_EINVAL,
            "option no_identity is %s; it must be dead, hash or unprotected",
            text);
    return POSTBAG_OK;
}

const char *postbag__topic_segment(const char *topic, uint32_t n, size_t *len)
{
    *len = strcspn(topic, "/");
    for (; n > 1; n--) {
        topic += *len;
        if (*topic == '\0') {
            *len = 0;
            break;
        }
        topic++;
        *len = strcspn(topic, "/");
    }
    return topic;
}
