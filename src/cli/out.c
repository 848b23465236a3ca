/* SPDX-License-Identifier: MIT */
/* Escaping, JSON, and rows. */
#include "out.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- escaping ---- */

/* Length of the UTF-8 character at s, and its number; 0: it is none (also an
 * overlong form or half of a pair). */
static size_t decode(const unsigned char *s, size_t left, unsigned *code)
{
    size_t len = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    unsigned c = len == 1 ? s[0] : s[0] & (0xffu >> (len + 1));

    if (len > left || (s[0] >= 0x80 && s[0] < 0xc2) || s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if ((len == 3 && c < 0x800) || (len == 4 && c < 0x10000) || c > 0x10ffff ||
        (c >= 0xd800 && c < 0xe000))
        return 0;
    *code = c;
    return len;
}

/* of ASCII or of Latin 1 */
static int is_control(unsigned code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

void out_plain(FILE *to, const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;

    while (len > 0) {
        unsigned code = 0;
        size_t n = decode(s, len, &code);

        if (n > 0 && !is_control(code)) {
            (void)fwrite(s, 1, n, to);
        } else {
            (void)fprintf(to, "\\x%02x", s[0]);
            n = 1;
        }
        s += n;
        len -= n;
    }
}

/* JSON has no form for bytes that are no UTF-8: the replacement character. */
static void put_json(FILE *to, const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;

    (void)fputc('"', to);
    while (len > 0) {
        unsigned code = 0xfffd;
        size_t n = decode(s, len, &code);

        if (n == 0 || is_control(code))
            (void)fprintf(to, "\\u%04x", code);
        else if (code == '"' || code == '\\')
            (void)fprintf(to, "\\%c", (int)code);
        else
            (void)fwrite(s, 1, n, to);
        n = n > 0 ? n : 1;
        s += n;
        len -= n;
    }
    (void)fputc('"', to);
}

/* ---- JSON ---- */

static void put_name(struct json *j, const char *name)
{
    if (!j->is_first)
        (void)fputc(',', j->to);
    j->is_first = 0;
    if (name == NULL)
        return;
    put_json(j->to, name, strlen(name));
    (void)fputc(':', j->to);
}

void json_open(struct json *j, const char *name, char bracket)
{
    put_name(j, name);
    (void)fputc(bracket, j->to);
    j->is_first = 1;
}

void json_close(struct json *j, char bracket)
{
    (void)fputc(bracket, j->to);
    j->is_first = 0;
}

void json_text_n(struct json *j, const char *name, const char *text, size_t len)
{
    put_name(j, name);
    if (text == NULL)
        (void)fputs("null", j->to);
    else
        put_json(j->to, text, len);
}

void json_text(struct json *j, const char *name, const char *text)
{
    json_text_n(j, name, text, text == NULL ? 0 : strlen(text));
}

void json_bytes(struct json *j, const char *name,
    void (*print)(FILE *to, const void *bytes, size_t len), const void *bytes,
    size_t len)
{
    put_name(j, name);
    (void)fputc('"', j->to);
    print(j->to, bytes, len);
    (void)fputc('"', j->to);
}

void json_number(struct json *j, const char *name, int64_t n)
{
    if (j->is_unknown) {
        json_text(j, name, NULL);
        return;
    }
    put_name(j, name);
    (void)fprintf(j->to, "%lld", (long long)n);
}

void json_maybe(struct json *j, const char *name, int64_t n, int is_known)
{
    if (is_known)
        json_number(j, name, n);
    else
        json_text(j, name, NULL);
}

void json_bool(struct json *j, const char *name, int is_true)
{
    put_name(j, name);
    (void)fputs(is_true ? "true" : "false", j->to);
}

void json_time(struct json *j, const char *name, int64_t ms)
{
    struct words w;
    const char *text = words_time(&w, ms);

    json_text(j, name, strcmp(text, "-") == 0 ? NULL : text);
}

/* ---- rows ---- */

int out_has_color(const struct args *args)
{
    /* nobody sets the environment here */
    const char *unwanted =
        getenv("NO_COLOR"); /* NOLINT(concurrency-mt-unsafe) */

    return !args->no_color && unwanted == NULL && isatty(STDOUT_FILENO);
}

const char *out_color(int has_color, const char *state)
{
    if (!has_color)
        return "";
    if (strcmp(state, "dead") == 0)
        return "\033[31m";
    if (strcmp(state, "published") == 0 || strcmp(state, "done") == 0)
        return "\033[32m";
    if (strcmp(state, "pending") == 0 || strcmp(state, "sending") == 0 ||
        strcmp(state, "due") == 0)
        return "";
    return "\033[33m";
}

const char *out_color_end(int has_color)
{
    return has_color ? "\033[0m" : "";
}

static void put_heading(const struct column *c, int is_last)
{
    char name[32];
    size_t n = 0;

    for (; n < sizeof(name) - 1 && c->name[n] != '\0'; n++)
        name[n] = (char)toupper((unsigned char)c->name[n]);
    name[n] = '\0';
    if (is_last)
        (void)printf("%s\n", name);
    else if (c->kind == CELL_NUMBER)
        (void)printf("%*s  ", c->width, name);
    else
        (void)printf("%-*s  ", c->width, name);
}

void rows_begin(struct rows *r, const struct args *args,
    const struct column *columns, int count)
{
    *r = (struct rows){
        .format = args->format,
        .has_color = out_has_color(args),
        .columns = columns,
        .count = count,
        .json = {.to = stdout, .is_first = 1},
    };
}

static void begin(struct rows *r)
{
    if (r->is_begun)
        return;
    r->is_begun = 1;
    if (r->format == FORMAT_JSON)
        json_open(&r->json, NULL, '[');
    for (int i = 0; r->format == FORMAT_TABLE && i < r->count; i++)
        put_heading(&r->columns[i], i + 1 == r->count);
}

/* Text, then blanks up to the width; as many columns as bytes is good enough
 * for what is mostly ASCII. */
static void put_padded(const char *text, int width)
{
    size_t len = strlen(text);

    out_plain(stdout, text, len);
    for (; (int)len < width; len++)
        (void)fputc(' ', stdout);
}

static void put_cell(const struct rows *r, const struct column *c,
    const struct cell *v, int width)
{
    struct words w;
    const char *text = v->text == NULL ? "-" : v->text;

    switch (c->kind) {
    case CELL_NUMBER:
        (void)printf("%*lld", width, (long long)v->number);
        break;
    case CELL_TIME:
        put_padded(words_time(&w, v->number), width);
        break;
    case CELL_STATE:
        (void)fputs(out_color(r->has_color, text), stdout);
        put_padded(text, width);
        (void)fputs(out_color_end(r->has_color), stdout);
        break;
    case CELL_TEXT:
    default:
        put_padded(text, width);
    }
}

static void put_line(const struct rows *r, const struct cell *cells)
{
    for (int i = 0; i < r->count; i++) {
        int is_last = i + 1 == r->count;

        put_cell(
            r, &r->columns[i], &cells[i], is_last ? 0 : r->columns[i].width);
        (void)fputs(is_last ? "\n" : "  ", stdout);
    }
}

static void put_object(struct rows *r, const struct cell *cells)
{
    struct json *j = &r->json;

    json_open(j, NULL, '{');
    for (int i = 0; i < r->count; i++) {
        const struct column *c = &r->columns[i];

        if (c->kind == CELL_NUMBER)
            json_number(j, c->name, cells[i].number);
        else if (c->kind == CELL_TIME)
            json_time(j, c->name, cells[i].number);
        else
            json_text(j, c->name, cells[i].text);
    }
    json_close(j, '}');
}

void rows_add(struct rows *r, const struct cell *cells)
{
    begin(r);
    if (r->format == FORMAT_TABLE) {
        put_line(r, cells);
        return;
    }
    if (r->format == FORMAT_JSONL)
        r->json.is_first = 1;
    put_object(r, cells);
    if (r->format == FORMAT_JSONL)
        (void)fputc('\n', stdout);
}

void rows_end(struct rows *r, int is_ok)
{
    if (is_ok)
        begin(r);
    if (r->format != FORMAT_JSON || !r->is_begun)
        return;
    json_close(&r->json, ']');
    (void)fputc('\n', stdout);
}
