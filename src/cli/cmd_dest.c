/* SPDX-License-Identifier: MIT */
/* Commands on destinations: dest ls, dest add, dest remove. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "out.h"

enum { NAME_SIZE = 65 };

/* ---- ls ---------------------------------------------------------------- */

static const struct column columns[] = {
    {"dest", 16, CELL_TEXT},
    {"pending", 9, CELL_NUMBER},
    {"pending_bytes", 13, CELL_NUMBER},
    {"oldest", 24, CELL_TIME},
    {"held", 6, CELL_NUMBER},
    {"dead", 6, CELL_NUMBER},
    {"dropped", 8, CELL_NUMBER},
    {"profile", 0, CELL_TEXT},
};
enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

/* One after the other: an admin is not used from its callbacks. */
struct next {
    int done, seen; /* rows printed; names walked over this time */
    char name[NAME_SIZE];
};

static int pick(void *ctx, const char *name)
{
    struct next *n = ctx;

    if (n->seen++ < n->done)
        return 0;
    (void)snprintf(n->name, sizeof(n->name), "%s", name);
    return 1;
}

/* 1: found; 0: there is none; negative: an error */
static int find_next(struct postbag_admin *a, struct next *n)
{
    n->seen = 0;
    return postbag_admin_destinations(a, pick, n);
}

static int add_row(struct postbag_admin *a, struct rows *rows, const char *name)
{
    struct postbag_status s = {.struct_size = sizeof(s)};
    int err = postbag_admin_status(a, name, &s);
    const struct cell cells[COLUMNS] = {
        {.text = name},
        {.number = s.pending},
        {.number = s.pending_bytes},
        {.number = s.oldest_ms},
        {.number = s.held},
        {.number = s.dead},
        {.number = s.dropped},
        {.text = s.profile[0] == '\0' ? NULL : s.profile},
    };

    if (err == POSTBAG_OK)
        rows_add(rows, cells);
    return err;
}

int cli_dest_ls(const struct args *args)
{
    struct next next = {.done = 0};
    struct postbag_admin *a;
    struct rows rows;
    int err;
    int code = cli_open(&a, args, 0);

    if (code != CLI_OK)
        return code;
    rows_begin(&rows, args, columns, COLUMNS);
    for (; (err = find_next(a, &next)) == 1; next.done++) {
        err = add_row(a, &rows, next.name);
        if (err != POSTBAG_OK)
            break;
    }
    rows_end(&rows, err == POSTBAG_OK);
    if (err != POSTBAG_OK)
        code = cli_fail(args->words[0], postbag_admin_fault(a));
    postbag_admin_close(a);
    return code;
}

/* ---- add and remove ---------------------------------------------------- */

int cli_dest_add(const struct args *args)
{
    int oldest = args->from != NULL && strcmp(args->from, "oldest") == 0;
    struct postbag_admin *a;
    int code;

    if (args->from != NULL && !oldest && strcmp(args->from, "now") != 0)
        return cli_complain(
            CLI_USAGE, "--from must be now or oldest, not \"%s\"", args->from);
    code = cli_open(&a, args, 1);
    if (code != CLI_OK)
        return code;
    if (postbag_admin_dest_add(a, args->words[1],
            oldest ? POSTBAG_FROM_OLDEST : POSTBAG_FROM_NOW) != POSTBAG_OK)
        code = cli_fail("not added", postbag_admin_fault(a));
    postbag_admin_close(a);
    return code;
}

/* What it says is from before the removal. */
static int remove_dest(struct postbag_admin *a, const char *name)
{
    struct postbag_status s = {.struct_size = sizeof(s)};
    int err = postbag_admin_status(a, name, &s);

    if (err == POSTBAG_OK)
        err = postbag_admin_dest_remove(a, name);
    if (err != POSTBAG_OK)
        return cli_fail("not removed", postbag_admin_fault(a));
    (void)printf("removed, with %lld pending, %lld held and %lld dead\n",
        (long long)s.pending, (long long)s.held, (long long)s.dead);
    return CLI_OK;
}

int cli_dest_remove(const struct args *args)
{
    struct postbag_admin *a;
    int code;

    if (!args->yes)
        return cli_complain(
            CLI_USAGE, "this drops all that waits for it: add --yes");
    code = cli_open(&a, args, 1);
    if (code != CLI_OK)
        return code;
    code = remove_dest(a, args->words[1]);
    postbag_admin_close(a);
    return code;
}
