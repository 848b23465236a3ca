/* SPDX-License-Identifier: MIT */
/* Commands that decide about commands: inbox requeue, inbox discard. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

static int choose(const struct args *args, struct postbag_inbox_choice *out)
{
    int choices = (args->id != NULL) + (args->arrival != 0) + (args->all != 0);

    if (choices != 1)
        return cli_complain(
            CLI_USAGE, "say which: --id ID, --arrival N or --all");
    *out = (struct postbag_inbox_choice){
        .struct_size = sizeof(*out),
        .arrival = args->arrival,
        .id = args->id,
        .id_len = args->id == NULL ? 0 : strlen(args->id),
        .consumer = args->consumer,
    };
    return CLI_OK;
}

int cli_inbox_requeue(const struct args *args)
{
    struct postbag_inbox_choice which;
    struct postbag_admin *a;
    int64_t count = 0;
    int code = choose(args, &which);

    if (code == CLI_OK)
        code = cli_open(&a, args, 1);
    if (code != CLI_OK)
        return code;
    if (postbag_admin_inbox_requeue(a, &which, &count) == POSTBAG_OK)
        (void)printf("%lld requeued\n", (long long)count);
    else
        code = cli_fail("nothing requeued", postbag_admin_fault(a));
    postbag_admin_close(a);
    return code;
}

int cli_inbox_discard(const struct args *args)
{
    struct postbag_inbox_choice which;
    struct postbag_admin *a;
    int64_t count = 0;
    int code = choose(args, &which);

    if (code == CLI_OK && !args->yes)
        code =
            cli_complain(CLI_USAGE, "this drops commands for good: add --yes");
    if (code == CLI_OK)
        code = cli_open(&a, args, 1);
    if (code != CLI_OK)
        return code;
    if (postbag_admin_inbox_discard(a, &which, &count) == POSTBAG_OK)
        (void)printf("%lld discarded\n", (long long)count);
    else
        code = cli_fail("nothing discarded", postbag_admin_fault(a));
    postbag_admin_close(a);
    return code;
}
