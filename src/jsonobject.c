/* SPDX-License-Identifier: MIT */
/* Names and values in the order given (RFC 8259); a name that comes twice
 * stands twice.  Any thread, each with an object of its own. */
#include "jsonobject.h"

#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "utf8.h"

enum { FIRST_SIZE = 256 };

static int make_room(struct jsonobject *j, size_t len)
{
    size_t size = j->size == 0 ? FIRST_SIZE : j->size;
    char *text;

    if (j->failed)
        return 0;
    while (size - j->len < len)
        size *= 2;
    if (size == j->size)
        return 1;
    text = postbag__resize(j->text, size);
    if (text == NULL) {
        j->failed = 1;
        return 0;
    }
    j->text = text;
    j->size = size;
    return 1;
}

static void put(struct jsonobject *j, const char *bytes, size_t len)
{
    if (!make_room(j, len))
        return;
    memcpy(j->text + j->len, bytes, len);
    j->len += len;
}

/* One character below U+0080.  Returns the bytes taken: 1. */
static size_t put_ascii(struct jsonobject *j, char c)
{
    char escape[8];

    if (c == '"' || c == '\\') {
        put(j, "\\", 1);
        put(j, &c, 1);
    } else if ((unsigned char)c < 0x20 || c == 0x7f) {
        (void)snprintf(
            escape, sizeof(escape), "\\u%04x", (unsigned)(unsigned char)c);
        put(j, escape, 6);
    } else {
        put(j, &c, 1);
    }
    return 1;
}

/* One character above, or a byte that belongs to none.  Returns the bytes
 * taken. */
static size_t put_wide(struct jsonobject *j, const char *text)
{
    size_t left = strnlen(text, 4);

    for (size_t len = 2; len <= left; len++) {
        if (postbag__utf8_is_valid(text, len)) {
            put(j, text, len);
            return len;
        }
    }
    put(j, "\xef\xbf\xbd", 3);
    return 1;
}

static void put_string(struct jsonobject *j, const char *text)
{
    put(j, "\"", 1);
    while (*text != '\0')
        text += (unsigned char)*text < 0x80 ? put_ascii(j, *text)
                                            : put_wide(j, text);
    put(j, "\"", 1);
}

void postbag__jsonobject_add(
    struct jsonobject *j, const char *name, const char *value)
{
    put(j, j->len == 0 ? "{" : ",", 1);
    put_string(j, name);
    put(j, ":", 1);
    put_string(j, value);
}

char *postbag__jsonobject_end(struct jsonobject *j)
{
    char *text;

    put(j, j->len == 0 ? "{}" : "}", j->len == 0 ? 3 : 2);
    if (j->failed)
        postbag__free(j->text);
    text = j->failed ? NULL : j->text;
    memset(j, 0, sizeof(*j));
    return text;
}
