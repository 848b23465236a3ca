/* SPDX-License-Identifier: MIT */
/*
 * Output.  What comes from a database or a broker is never printed raw:
 * control characters would talk to the terminal.  Times are UTC.
 */
#ifndef POSTBAG_CLI_OUT_H
#define POSTBAG_CLI_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "args.h"

/* Text for a terminal: control characters and what is no UTF-8 as \xNN. */
void out_plain(FILE *to, const char *text, size_t len);

/* ---- JSON, as a stream ------------------------------------------------- */

struct json {
    FILE *to;
    int is_first;   /* of its object or array */
    int is_unknown; /* while it is set, all numbers are null */
};

/* name NULL: an element of an array, or the whole. */
void json_open(struct json *j, const char *name, char bracket);
void json_close(struct json *j, char bracket);
/* text NULL: null. */
void json_text(struct json *j, const char *name, const char *text);
void json_text_n(
    struct json *j, const char *name, const char *text, size_t len);
/* Bytes, in one of the forms of hex.h, which have nothing to escape. */
void json_bytes(struct json *j, const char *name,
    void (*print)(FILE *to, const void *bytes, size_t len), const void *bytes,
    size_t len);
void json_number(struct json *j, const char *name, int64_t n);
/* A number, or null if it is not known. */
void json_maybe(struct json *j, const char *name, int64_t n, int is_known);
void json_bool(struct json *j, const char *name, int is_true);
/* RFC 3339, UTC; null for 0. */
void json_time(struct json *j, const char *name, int64_t ms);

/* ---- rows: a table, a JSON array, or a JSON object per line ------------ */

enum cell_kind { CELL_TEXT, CELL_NUMBER, CELL_TIME, CELL_STATE };

struct column {
    const char *name; /* in JSON; capitals in the table */
    int width;        /* of the table */
    enum cell_kind kind;
};

struct cell {
    const char *text; /* TEXT, STATE; NULL: none */
    int64_t number;   /* NUMBER, TIME in ms */
};

struct rows {
    int format;
    int has_color;
    const struct column *columns;
    int count;
    int is_begun; /* something is printed */
    struct json json;
};

void rows_begin(struct rows *r, const struct args *args,
    const struct column *columns, int count);
void rows_add(struct rows *r, const struct cell *cells);
/* is_ok 0: what was found instead of a row, or of more rows, is told elsewhere;
 * without a row nothing is printed. */
void rows_end(struct rows *r, int is_ok);

/* ---- words for people -------------------------------------------------- */

/* Each fills and returns buf. */
struct words {
    char text[48];
};
/* "-": 0, or no time that can be told */
const char *words_time(struct words *buf, int64_t ms);
const char *words_span(struct words *buf, int64_t ms);         /* "3 h 12 m" */
const char *words_bytes(struct words *buf, int64_t n);         /* "1.2 MiB" */
const char *words_rate(struct words *buf, int64_t per_1000_s); /* "2.5/s" */

/* May colours be used on stdout? */
int out_has_color(const struct args *args);
/* Start and end of the colour of a state; "" without colours. */
const char *out_color(int has_color, const char *state);
const char *out_color_end(int has_color);

#endif
