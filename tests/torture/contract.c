/* SPDX-License-Identifier: MIT */
/* See contract.h.  A comment and the declaration that follows it at once belong
 * together. */
#include "contract.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postbag/postbag.h"

enum { FUNCTIONS = 128, ERRORS = 32, DEPTH = 3 };

struct promise {
    char name[64];
    char comment[4000]; /* "" if it has none */
    int is_admins;
};

static struct promise promises[FUNCTIONS];
static size_t count;

static const struct {
    const char *name;
    int code;
} errors[] = {
#define ERROR_ROW(name, value, text) {#name, value},
    POSTBAG_ERROR_MAP(ERROR_ROW)};

static void demand(int holds, const char *what, const char *of)
{
    if (holds)
        return;
    (void)fprintf(stderr, "contract: %s: %s\n", what, of);
    abort();
}

static char *read_header(const char *name)
{
    char path[512];
    char *text = calloc(1, 1 << 16);
    FILE *file;

    (void)snprintf(path, sizeof(path), POSTBAG_INCLUDE_DIR "/%s.h", name);
    file = fopen(path, "r");
    demand(file != NULL && text != NULL, "cannot read", path);
    demand(fread(text, 1, (1 << 16) - 1, file) > 0, "is empty", path);
    (void)fclose(file);
    return text;
}

/* The identifier that ends before the first parenthesis. */
static void take_name(struct promise *p, const char *declaration)
{
    const char *end = strchr(declaration, '(');
    const char *begin = end;

    demand(end != NULL, "no parameters", declaration);
    while (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')
        begin--;
    (void)snprintf(p->name, sizeof(p->name), "%.*s", (int)(end - begin), begin);
}

static void take_comment(
    struct promise *p, const char *text, const char *declaration)
{
    const char *end = declaration;
    const char *begin;

    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    if (end - text < 4 || end[-1] != '/' || end[-2] != '*')
        return;
    for (begin = end - 2; begin > text && strncmp(begin, "/*", 2) != 0;)
        begin--;
    demand((size_t)(end - begin) < sizeof(p->comment), "long comment", p->name);
    (void)snprintf(
        p->comment, sizeof(p->comment), "%.*s", (int)(end - begin), begin);
}

static void take_header(const char *header)
{
    static const char mark[] = "\nPOSTBAG_API ";
    int is_admins = strcmp(header, "admin") == 0 || strcmp(header, "care") == 0;
    char *text = read_header(header);

    for (const char *at = strstr(text, mark); at != NULL;
         at = strstr(at + 1, mark)) {
        struct promise *p = &promises[count++];

        demand(count <= FUNCTIONS, "too many functions", header);
        p->is_admins = is_admins;
        take_name(p, at + 1);
        take_comment(p, text, at);
    }
    free(text);
}

static void take_all(void)
{
    static const char *const headers[] = {"admin", "care", "claim", "error",
        "linux", "options", "paho", "port", "postbag", "prepare", "pressure",
        "profile", "pull", "slow", "transport", "versions"};

    if (count != 0)
        return;
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        take_header(headers[i]);
}

size_t contract_count(void)
{
    take_all();
    return count;
}

const char *contract_name(size_t i)
{
    take_all();
    return promises[i].name;
}

int contract_find(const char *function)
{
    take_all();
    for (size_t i = 0; i < count; i++)
        if (strcmp(promises[i].name, function) == 0)
            return (int)i;
    return -1;
}

static int is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static int has_word(const char *text, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = strstr(text, word); at != NULL;
         at = strstr(at + 1, word))
        if (!is_word(at[len]) && (at == text || !is_word(at[-1])))
            return 1;
    return 0;
}

static const char *error_name(int err)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == err)
            return errors[i].name;
    return "?";
}

static int names_any(const char *comment)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (has_word(comment, errors[i].name))
            return 1;
    return 0;
}

static int is_of_all_admins(int err)
{
    return err == POSTBAG_EBUSY || err == POSTBAG_EIO ||
           err == POSTBAG_ENOSPC || err == POSTBAG_ENOMEM ||
           err == POSTBAG_ECORRUPT;
}

static int names(const struct promise *p, int err, int depth);

/* After @return: "as postbag_x and postbag_y". */
static int others_name(const struct promise *p, int err, int depth)
{
    const char *said = strstr(p->comment, "@return");

    for (size_t i = 0; i < count && said != NULL && depth > 0; i++)
        if (&promises[i] != p && has_word(said, promises[i].name) &&
            names(&promises[i], err, depth - 1))
            return 1;
    return 0;
}

static int names(const struct promise *p, int err, int depth)
{
    return has_word(p->comment, error_name(err)) ||
           (p->is_admins && is_of_all_admins(err)) ||
           others_name(p, err, depth);
}

int contract_allows(const char *function, int err)
{
    int i = contract_find(function);

    demand(i >= 0, "no such function", function);
    return !names_any(promises[i].comment) || names(&promises[i], err, DEPTH);
}
