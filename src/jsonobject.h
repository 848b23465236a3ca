/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  Writes a JSON object of text values into memory that grows.
 *
 *     struct jsonobject j = {0};
 *     postbag__jsonobject_add(&j, "name", "value");
 *     text = postbag__jsonobject_end(&j);    NULL: no memory; else yours
 *
 * The first failure sticks, so only the end needs a look.
 */
#ifndef POSTBAG_SRC_JSONOBJECT_H
#define POSTBAG_SRC_JSONOBJECT_H

#include <stddef.h>

struct jsonobject {
    char *text;
    size_t len;
    size_t size;
    int failed;
};

/* Bytes that are not UTF-8 become U+FFFD. */
void postbag__jsonobject_add(
    struct jsonobject *j, const char *name, const char *value);
/* Release with postbag__free. */
char *postbag__jsonobject_end(struct jsonobject *j);

#endif
