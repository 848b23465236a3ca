/* SPDX-License-Identifier: MIT */
/*
 * Options of a test program as words on its command line, key=value: all of
 * postbag_config and postbag_paho_config by their own names, and what the
 * program adds.
 */
#ifndef POSTBAG_TEST_WORDS_H
#define POSTBAG_TEST_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "postbag/paho.h"
#include "postbag/postbag.h"

struct word_option {
    const char *name;
    size_t at; /* offset of its field */
    int is_text;
};

#define WORD_U32(type, field) \
    { \
#field, offsetof(type, field), 0 \
    }
#define WORD_TEXT(type, field) \
    { \
#field, offsetof(type, field), 1 \
    }

/* The struct's options; each table ends with a NULL name. */
extern const struct word_option words_engine[]; /* struct postbag_config */
extern const struct word_option words_paho[];   /* struct postbag_paho_config */

/* Set the field of *into that "key=value" names; texts are borrowed.
   @return 1, or 0 if the table has no such key */
int words_set(void *into, const struct word_option table[], const char *word);

#endif
