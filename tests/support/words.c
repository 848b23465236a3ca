/* SPDX-License-Identifier: MIT */
/* See words.h. */
#include "words.h"

#include <stdlib.h>
#include <string.h>

#define ENGINE_U32(name) WORD_U32(struct postbag_config, name)
#define ENGINE_STR(name) WORD_TEXT(struct postbag_config, name)
#define ENGINE(kind, name, def, min, max, unit, help) ENGINE_##kind(name),
const struct word_option words_engine[] = {
    POSTBAG_OPTION_MAP(ENGINE){NULL, 0, 0}};

#define PAHO_U32(name) WORD_U32(struct postbag_paho_config, name)
#define PAHO_STR(name) WORD_TEXT(struct postbag_paho_config, name)
#define PAHO(kind, name, def, min, max, unit, help) PAHO_##kind(name),
const struct word_option words_paho[] = {
    POSTBAG_PAHO_OPTION_MAP(PAHO){NULL, 0, 0}};

int words_set(void *into, const struct word_option table[], const char *word)
{
    size_t len = strcspn(word, "=");

    if (word[len] != '=')
        return 0;
    for (const struct word_option *o = table; o->name != NULL; o++) {
        void *field = (char *)into + o->at;

        if (strlen(o->name) != len || strncmp(o->name, word, len) != 0)
            continue;
        if (o->is_text)
            *(const char **)field = word + len + 1;
        else
            *(uint32_t *)field = (uint32_t)strtoul(word + len + 1, NULL, 10);
        return 1;
    }
    return 0;
}
