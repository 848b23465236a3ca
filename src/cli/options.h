/* SPDX-License-Identifier: MIT */
/* The table of what may stand in a configuration file, made of the X-macros
 * of the public headers. */
#ifndef POSTBAG_CLI_OPTIONS_H
#define POSTBAG_CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "postbag/paho.h"

#define OPTION_ONE(kind, name, def, min, max, unit, help) +1
enum {
    OPTION_COUNT = 1 /* db */
    POSTBAG_OPTION_MAP(OPTION_ONE) POSTBAG_PAHO_OPTION_MAP(OPTION_ONE)
};

struct option_row {
    const char *section, *name;
    int is_text;
    size_t offset; /* in the struct of its section */
    uint32_t min, max;
    const char *standard; /* the default */
    const char *unit, *help;
};

extern const struct option_row option_rows[OPTION_COUNT];

/* NULL: there is none. */
const struct option_row *option_find(const char *section, const char *name);

/* The table in Markdown, for the README. */
void options_print(void);

#endif
