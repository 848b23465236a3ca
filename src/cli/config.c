/* SPDX-License-Identifier: MIT */
/*
 * INI by inih, values by the table in options.h.  inih cuts long lines in
 * silence and does not tell the handler where it is, so the reader counts the
 * lines and refuses what was cut.
 */
#include "config.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "options.h"

struct reading {
    struct config *out;
    const char *path;
    FILE *file;
    int line;
    int has_secret;
    int code; /* of the first error */
    unsigned char seen[OPTION_COUNT];
};

/* Only the first: the rest may follow from it.  Never shows a value. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
refuse(struct reading *r, const char *format, ...)
{
    char text[256];
    va_list args;

    if (r->code != CLI_OK)
        return;
    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, just above */
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    r->code = cli_complain(CLI_USAGE, "%s:%d: %s", r->path, r->line, text);
}

static char *read_line(char *line, int size, void *stream)
{
    struct reading *r = stream;
    int c;

    if (fgets(line, size, r->file) == NULL)
        return NULL;
    r->line++;
    if (strchr(line, '\n') != NULL || feof(r->file))
        return line;
    refuse(r,
        "the line is longer than %d bytes; a long password goes into a file: "
        "password_file",
        size - 2);
    do
        c = fgetc(r->file);
    while (c != '\n' && c != EOF);
    return line;
}

/* ---- values ------------------------------------------------------------ */

static void *field_of(struct config *c, const struct option_row *o)
{
    char *base =
        strcmp(o->section, "mqtt") == 0 ? (char *)&c->mqtt : (char *)&c->engine;

    return base + o->offset;
}

static void set_number(
    struct reading *r, const struct option_row *o, const char *value)
{
    char *end;
    unsigned long long n;

    errno = 0;
    n = strtoull(value, &end, 10);
    if (errno != 0 || value[0] < '0' || value[0] > '9' || *end != '\0' ||
        n < o->min || n > o->max) {
        refuse(r, "%s must be a number, %lu..%lu%s%s", o->name,
            (unsigned long)o->min, (unsigned long)o->max,
            o->unit[0] == '\0' ? "" : " ", o->unit);
        return;
    }
    *(uint32_t *)field_of(r->out, o) = (uint32_t)n;
}

static void set_text(
    struct reading *r, const struct option_row *o, const char *value)
{
    struct config *c = r->out;
    size_t len = strlen(value);

    if (len < o->min || len > o->max) {
        refuse(r, "%s must have %lu..%lu bytes", o->name, (unsigned long)o->min,
            (unsigned long)o->max);
        return;
    }
    if (len >= sizeof(c->texts) - c->used) {
        refuse(r, "%s: too much text altogether", o->name);
        return;
    }
    memcpy(c->texts + c->used, value, len + 1);
    *(const char **)field_of(c, o) = c->texts + c->used;
    c->used += len + 1;
}

/* password_file is a path. */
static int is_secret(const struct option_row *o)
{
    return strstr(o->name, "password") != NULL &&
           strstr(o->name, "_file") == NULL;
}

/* inih wants 1 for success; errors are kept in r. */
static int take(
    void *user, const char *section, const char *name, const char *value)
{
    struct reading *r = user;
    const struct option_row *o = option_find(section, name);

    if (r->code != CLI_OK)
        return 1;
    if (o == NULL) {
        refuse(r, "there is no key \"%s\" in [%s]", name, section);
        return 1;
    }
    if (r->seen[o - option_rows]) {
        refuse(r, "%s is given twice", name);
        return 1;
    }
    r->seen[o - option_rows] = 1;
    r->has_secret |= is_secret(o);
    if (o->is_text)
        set_text(r, o, value);
    else
        set_number(r, o, value);
    return 1;
}

/* ---- the file ---------------------------------------------------------- */

static void check_required(struct reading *r)
{
    static const char *const required[][2] = {
        {"postbag", "db"}, {"mqtt", "uri"}};

    for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++) {
        const struct option_row *o =
            option_find(required[i][0], required[i][1]);

        if (r->code == CLI_OK && !r->seen[o - option_rows])
            r->code = cli_complain(CLI_USAGE, "%s: %s is missing in [%s]",
                r->path, o->name, o->section);
    }
}

static void check_mode(struct reading *r)
{
    struct stat info;

    if (!r->has_secret || r->code != CLI_OK)
        return;
    if (fstat(fileno(r->file), &info) != 0)
        r->code = cli_errno(CLI_ERROR, r->path);
    else if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        r->code = cli_complain(CLI_USAGE,
            "%s: holds a password, but its mode is %03o: chmod 600", r->path,
            (unsigned)info.st_mode & 0777u);
}

/* One that is not there yet is no mistake: the relay waits for it.  A group may
 * have been made to share it. */
static void check_file(struct reading *r, const char *option, const char *path)
{
    struct stat info;

    if (r->code != CLI_OK || path == NULL || stat(path, &info) != 0 ||
        (info.st_mode & S_IRWXO) == 0)
        return;
    r->code = cli_complain(CLI_USAGE,
        "%s: %s: everybody can read or write %s, its mode is %03o: chmod o=",
        r->path, option, path, (unsigned)info.st_mode & 0777u);
}

static void check_files(struct reading *r)
{
    check_file(r, "password_file", r->out->mqtt.password_file);
    check_file(r, "key_file", r->out->mqtt.key_file);
    check_file(r, "psk_file", r->out->mqtt.psk_file);
}

int config_read(struct config *out, const char *path)
{
    struct reading r = {.out = out, .path = path, .file = fopen(path, "re")};
    int bad;

    memset(out, 0, sizeof(*out));
    out->engine.struct_size = sizeof(out->engine);
    out->mqtt.struct_size = sizeof(out->mqtt);
    if (r.file == NULL)
        return cli_errno(errno == ENOENT ? CLI_NOT_FOUND : CLI_ERROR, path);
    bad = ini_parse_stream(read_line, &r, take, &r);
    if (ferror(r.file) && r.code == CLI_OK)
        r.code = cli_errno(CLI_ERROR, path);
    if (bad > 0 && r.code == CLI_OK) {
        r.line = bad;
        refuse(&r, "neither [section] nor key = value");
    }
    check_required(&r);
    check_mode(&r);
    check_files(&r);
    (void)fclose(r.file);
    return r.code;
}

void config_wipe(struct config *c)
{
    explicit_bzero(c->texts, sizeof(c->texts));
}
