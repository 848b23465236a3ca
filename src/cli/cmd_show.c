/* SPDX-License-Identifier: MIT */
/* The command show: all of one message.  Its payload only when asked for. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "hex.h"
#include "out.h"

enum form { FORM_NONE, FORM_TEXT, FORM_HEX, FORM_BASE64 };

struct show {
    const struct args *args;
    int form;
};

static int form_of(const char *name)
{
    static const char *const names[] = {
        [FORM_TEXT] = "text", [FORM_HEX] = "hex", [FORM_BASE64] = "base64"};

    if (name == NULL)
        return FORM_NONE;
    for (int i = FORM_TEXT; i <= FORM_BASE64; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

/* ---- JSON -------------------------------------------------------------- */

static void payload_json(
    const struct show *show, struct json *j, const struct postbag_row *row)
{
    if (show->form == FORM_NONE)
        return;
    if (show->form == FORM_TEXT)
        json_text_n(j, "payload",
            row->payload == NULL ? "" : (const char *)row->payload,
            row->payload_len);
    else
        json_bytes(j, "payload",
            show->form == FORM_HEX ? hex_print : base64_print, row->payload,
            row->payload_len);
}

void cli_json_message(struct json *j, const struct postbag_row *row)
{
    json_text(j, "state", postbag_row_state_name(row->state));
    json_text(j, "topic", row->topic);
    json_text(j, "key", row->key);
    json_maybe(j, "key_version", row->key_version, row->key_version != 0);
    json_number(j, "priority", row->priority);
    json_text(j, "type", row->type);
    json_text(j, "content_type", row->content_type);
    json_text(j, "headers", row->headers);
    json_bool(j, "retain", row->retain != 0);
    json_maybe(j, "ttl_ms", row->ttl_ms, row->ttl_ms != 0);
    json_time(j, "created", row->created_ms);
}

static void show_json(const struct show *show, const struct postbag_row *row)
{
    struct json j = {.to = stdout, .is_first = 1};
    char id[37];

    postbag_id_format(&row->id, id);
    json_open(&j, NULL, '{');
    json_number(&j, "seq", row->seq);
    json_text(&j, "id", id);
    cli_json_message(&j, row);
    json_time(&j, "published", row->published_ms);
    json_time(&j, "dead", row->dead_ms);
    json_number(&j, "attempts", row->attempts);
    json_text(&j, "error", row->error);
    json_text(&j, "reason", row->reason);
    json_bool(&j, "is_text", row->is_text != 0);
    json_number(&j, "bytes", (int64_t)row->payload_len);
    payload_json(show, &j, row);
    json_close(&j, '}');
    (void)fputc('\n', stdout);
}

/* ---- for people -------------------------------------------------------- */

static void line(const char *name, const char *text)
{
    if (text == NULL)
        return;
    (void)printf("%-13s ", name);
    out_plain(stdout, text, strlen(text));
    (void)fputc('\n', stdout);
}

static void line_number(const char *name, int64_t n)
{
    (void)printf("%-13s %lld\n", name, (long long)n);
}

static void line_time(const char *name, int64_t ms)
{
    struct words w;

    if (ms != 0)
        line(name, words_time(&w, ms));
}

/* Line ends are the payload's own, all else that controls is escaped. */
static void payload_text(const char *text, size_t len)
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t n = end == NULL ? len : (size_t)(end - text);

        out_plain(stdout, text, n);
        (void)fputc('\n', stdout);
        n += end != NULL;
        text += n;
        len -= n;
    }
}

static void payload_plain(
    const struct show *show, const struct postbag_row *row)
{
    if (show->form == FORM_NONE)
        return;
    (void)fputc('\n', stdout);
    if (show->form == FORM_TEXT) {
        payload_text(row->payload, row->payload_len);
        return;
    }
    if (show->form == FORM_HEX)
        hex_print(stdout, row->payload, row->payload_len);
    else
        base64_print(stdout, row->payload, row->payload_len);
    (void)fputc('\n', stdout);
}

static void show_plain(const struct show *show, const struct postbag_row *row)
{
    const char *state = postbag_row_state_name(row->state);
    int has_color = out_has_color(show->args);
    char id[37];

    postbag_id_format(&row->id, id);
    line_number("seq", row->seq);
    line("id", id);
    (void)printf("%-13s %s%s%s\n", "state", out_color(has_color, state), state,
        out_color_end(has_color));
    line("topic", row->topic);
    line("key", row->key);
    if (row->key_version != 0)
        line_number("key version", row->key_version);
    line_number("priority", row->priority);
    line("type", row->type);
    line("content type", row->content_type);
    line("headers", row->headers);
    if (row->retain)
        line("retain", "yes");
    if (row->ttl_ms != 0)
        line_number("ttl ms", row->ttl_ms);
    line_time("created", row->created_ms);
    line_time("published", row->published_ms);
    line_time("dead since", row->dead_ms);
    line_number("attempts", row->attempts);
    line("error", row->error);
    line("reason", row->reason);
    line_number("bytes", (int64_t)row->payload_len);
    payload_plain(show, row);
}

static int print(void *ctx, const struct postbag_row *row)
{
    const struct show *show = ctx;

    if (show->args->format == FORMAT_TABLE)
        show_plain(show, row);
    else
        show_json(show, row);
    return 0;
}

/* A number or an id; 0 if it is neither. */
static int read_name(const char *text, int64_t *seq, struct postbag_id *id)
{
    char *end;

    *seq = 0;
    if (postbag_id_parse(id, text) == POSTBAG_OK)
        return 1;
    if (text[0] < '1' || text[0] > '9')
        return 0;
    *seq = strtoll(text, &end, 10);
    return *end == '\0';
}

int cli_show(const struct args *args)
{
    struct show show = {.args = args, .form = form_of(args->payload)};
    struct postbag_admin *a;
    struct postbag_id id;
    int64_t seq;
    int code;

    if (show.form < 0)
        return cli_complain(CLI_USAGE,
            "--payload must be text, hex or base64, not \"%s\"", args->payload);
    if (!read_name(args->words[1], &seq, &id))
        return cli_complain(
            CLI_USAGE, "\"%s\" is neither an id nor a number", args->words[1]);
    code = cli_open(&a, args, 0);
    if (code != CLI_OK)
        return code;
    if (postbag_admin_show(a, args->dest, seq, seq == 0 ? &id : NULL, print,
            &show) != POSTBAG_OK)
        code = cli_fail(args->words[1], postbag_admin_fault(a));
    postbag_admin_close(a);
    return code;
}
