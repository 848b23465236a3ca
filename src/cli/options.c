/* SPDX-License-Identifier: MIT */
/* One row per option, from the same macros that make the structs. */
#include "options.h"

#include <stdio.h>
#include <string.h>

#define IS_TEXT_U32 0
#define IS_TEXT_STR 1
#define STANDARD_U32(def) #def
#define STANDARD_STR(def) def
#define ROW(section, type, kind, name, def, min, max, unit, help) \
    {section, #name, IS_TEXT_##kind, offsetof(struct type, name), min, max, \
        STANDARD_##kind(def), unit, help},
#define ENGINE_ROW(kind, name, def, min, max, unit, help) \
    ROW("postbag", postbag_config, kind, name, def, min, max, unit, help)
#define PAHO_ROW(kind, name, def, min, max, unit, help) \
    ROW("mqtt", postbag_paho_config, kind, name, def, min, max, unit, help)

const struct option_row option_rows[OPTION_COUNT] = {
    {"postbag", "db", 1, offsetof(struct postbag_config, db_path), 1, 4095, "",
        "", "the application's database; required"},
    POSTBAG_OPTION_MAP(ENGINE_ROW) POSTBAG_PAHO_OPTION_MAP(PAHO_ROW)};

const struct option_row *option_find(const char *section, const char *name)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strcmp(section, option_rows[i].section) == 0 &&
            strcmp(name, option_rows[i].name) == 0)
            return &option_rows[i];
    return NULL;
}

static void print_row(const struct option_row *o)
{
    const char *quote = o->is_text ? "" : "`";

    (void)printf("| `%s` | ", o->name);
    if (o->standard[0] != '\0')
        (void)printf("`%s`", o->standard);
    (void)printf(" | %s%lu..%lu%s%s%s | %s |\n", quote, (unsigned long)o->min,
        (unsigned long)o->max, quote, o->is_text ? " bytes" : " ",
        o->is_text ? "" : o->unit, o->help);
}

void options_print(void)
{
    const char *section = "";

    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *o = &option_rows[i];

        if (strcmp(section, o->section) != 0) {
            (void)printf("%s`[%s]`\n\n"
                         "| key | default | range | meaning |\n"
                         "| --- | --- | --- | --- |\n",
                section[0] == '\0' ? "" : "\n", o->section);
            section = o->section;
        }
        print_row(o);
    }
}
