/* SPDX-License-Identifier: MIT */
/* Commands that look after the whole of a database: archive, replay, vacuum. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "hex.h"
#include "out.h"
#include "postbag/care.h"
#include "postbag/linux.h"
#include "when.h"

/* ---- archive ----------------------------------------------------------- */

struct archive {
    const char *dest, *name;
    FILE *to;
    int cause; /* errno of what went wrong with it */
};

static int failed(struct archive *x)
{
    x->cause = errno;
    return POSTBAG_EIO;
}

static int archive_row(void *ctx, const struct postbag_row *row)
{
    struct archive *x = ctx;
    struct json j = {.to = x->to, .is_first = 1};
    char id[37];

    postbag_id_format(&row->id, id);
    json_open(&j, NULL, '{');
    json_number(&j, "seq", row->seq);
    json_text(&j, "id", id);
    json_text(&j, "dest", x->dest);
    cli_json_message(&j, row);
    json_time(&j, "published_at", row->published_ms);
    json_number(&j, "attempts", row->attempts);
    json_text(&j, "error", row->error);
    if (row->is_text)
        json_text_n(&j, "payload", row->payload, row->payload_len);
    else
        json_bytes(
            &j, "payload_base64", base64_print, row->payload, row->payload_len);
    json_close(&j, '}');
    (void)fputc('\n', x->to);
    return ferror(x->to) ? failed(x) : 0;
}

/* What is no file (a pipe) cannot be synced; its reader is trusted. */
static int archive_sync(void *ctx)
{
    struct archive *x = ctx;

    if (fflush(x->to) != 0)
        return failed(x);
    if (fsync(fileno(x->to)) != 0 && errno != EINVAL && errno != EROFS)
        return failed(x);
    return 0;
}

static int archive_to(
    struct archive *x, struct postbag_admin *a, const struct args *args)
{
    const struct postbag_archive archive = {
        .struct_size = sizeof(archive),
        .dest = args->dest,
        .ctx = x,
        .row = archive_row,
        .sync = archive_sync,
    };
    int64_t count = 0;
    int64_t gone = 0;
    int err = postbag_admin_archive(a, &archive, &count, &gone);

    if (gone > 0)
        (void)cli_complain(CLI_OK,
            "%lld rows were deleted before they could be archived: keep them"
            " for longer (keep_s, keep_rows)",
            (long long)gone);
    errno = x->cause;
    if (errno != 0)
        return cli_errno(CLI_ERROR, x->name);
    if (err != POSTBAG_OK)
        return cli_fail("not all is archived", postbag_admin_fault(a));
    if (x->to != stdout)
        (void)printf("%lld archived\n", (long long)count);
    return CLI_OK;
}

int cli_archive(const struct args *args)
{
    struct archive x = {.dest = args->dest == NULL ? "main" : args->dest,
        .name = args->to,
        .to = stdout};
    struct postbag_admin *a;
    int code;

    if (args->to == NULL)
        return cli_complain(CLI_USAGE, "say where to: --to FILE or --to -");
    code = cli_open(&a, args, 1);
    if (code != CLI_OK)
        return code;
    if (strcmp(args->to, "-") == 0)
        x.name = "output";
    else
        x.to = fopen(args->to, "abe");
    code =
        x.to == NULL ? cli_errno(CLI_ERROR, args->to) : archive_to(&x, a, args);
    if (x.to != NULL && x.to != stdout && fclose(x.to) != 0 && code == CLI_OK)
        code = cli_errno(CLI_ERROR, args->to);
    postbag_admin_close(a);
    return code;
}

/* ---- replay ------------------------------------------------------------ */

/* A row's number, or a time.  -1: neither. */
static int read_bound(const char *text, int64_t *seq, int64_t *ms)
{
    char *end;

    *ms = 0;
    *seq = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && *seq > 0)
        return 0;
    *seq = 0;
    return when_read(text, ms);
}

static int complain_of_bound(const char *name, const char *text)
{
    return cli_complain(CLI_USAGE,
        "%s must be a row's number or a time (2026-11-30,"
        " 2026-11-30T08:15:00Z or ...+01:00), not \"%s\"",
        name, text);
}

int cli_replay(const struct args *args)
{
    struct postbag_replay which = {
        .struct_size = sizeof(which),
        .dest = args->dest,
        .max_rows = args->limit,
    };
    struct postbag_admin *a;
    int64_t count = 0;
    int64_t next = 0;
    int code;

    if (args->from == NULL)
        return cli_complain(CLI_USAGE, "say from where: --from SEQ or TIME");
    if (read_bound(args->from, &which.from_seq, &which.from_ms) != 0)
        return complain_of_bound("--from", args->from);
    if (args->to != NULL &&
        read_bound(args->to, &which.to_seq, &which.to_ms) != 0)
        return complain_of_bound("--to", args->to);
    /* 0 is no bound: since 1970 is all, up to then is nothing */
    if (args->to != NULL && which.to_seq == 0 && which.to_ms == 0)
        which.to_ms = -1;
    code = cli_open(&a, args, 1);
    if (code != CLI_OK)
        return code;
    if (postbag_admin_replay(a, &which, &count, &next) != POSTBAG_OK)
        code = cli_fail("nothing replayed", postbag_admin_fault(a));
    else if (next == 0)
        (void)printf("%lld queued once more\n", (long long)count);
    else
        (void)printf("%lld queued once more; there are more: --from %lld\n",
            (long long)count, (long long)next);
    postbag_admin_close(a);
    return code;
}

/* ---- vacuum ------------------------------------------------------------ */

int cli_vacuum(const struct args *args)
{
    const struct postbag_admin_config config = cli_config(args, 1);
    struct postbag_fault why = {0};
    struct words was;
    struct words is;
    int64_t before = 0;
    int64_t after = 0;
    int code = cli_find(args);

    if (code != CLI_OK)
        return code;
    if (postbag_admin_vacuum(&config, &before, &after, &why) != POSTBAG_OK)
        return cli_complain(why.code == POSTBAG_EBUSY ? CLI_LOCKED : CLI_ERROR,
            "%s: %s", config.db_path, why.text);
    (void)printf("%lld bytes (%s) before, %lld (%s) after\n", (long long)before,
        words_bytes(&was, before), (long long)after, words_bytes(&is, after));
    return CLI_OK;
}
