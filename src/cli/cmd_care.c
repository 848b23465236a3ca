/* SPDX-License-Identifier: MIT */
/* Commands that look after the whole of a database: replay, vacuum. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "out.h"
#include "postbag/linux.h"

/* ---- replay ------------------------------------------------------------ */

/* A row's number, or a time: 2026-11-30, 2026-11-30T08:15:00Z.  -1: neither. */
static int read_bound(const char *text, int64_t *seq, int64_t *ms)
{
    static const char *const forms[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"};
    char *end;

    *ms = 0;
    *seq = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && *seq > 0)
        return 0;
    *seq = 0;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct tm tm = {0};

        end = strptime(text, forms[i], &tm);
        if (end == NULL || *end != '\0')
            continue;
        *ms = (int64_t)timegm(&tm) * 1000;
        return *ms > 0 ? 0 : -1;
    }
    return -1;
}

static int complain_of_bound(const char *name, const char *text)
{
    return cli_complain(CLI_USAGE,
        "%s must be a row's number or a time (2026-11-30 or"
        " 2026-11-30T08:15:00Z), not \"%s\"",
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
