/* SPDX-License-Identifier: MIT */
/* Commands that list: ls, dead ls, inbox ls. */
#include <string.h>

#include "cli.h"
#include "hex.h"
#include "out.h"

enum { ROWS = 50 };

/* ---- messages ---------------------------------------------------------- */

static const struct column row_columns[] = {
    {"seq", 8, CELL_NUMBER},
    {"id", 36, CELL_TEXT},
    {"state", 9, CELL_STATE},
    {"priority", 8, CELL_NUMBER},
    {"created", 24, CELL_TIME},
    {"attempts", 8, CELL_NUMBER},
    {"bytes", 8, CELL_NUMBER},
    {"key", 12, CELL_TEXT},
    {"topic", 24, CELL_TEXT},
    {"error", 0, CELL_TEXT},
};
enum { ROW_COLUMNS = sizeof(row_columns) / sizeof(row_columns[0]) };

static int add_row(void *ctx, const struct postbag_row *row)
{
    char id[37];
    const struct cell cells[ROW_COLUMNS] = {
        {.number = row->seq},
        {.text = id},
        {.text = postbag_row_state_name(row->state)},
        {.number = row->priority},
        {.number = row->created_ms},
        {.number = row->attempts},
        {.number = (int64_t)row->payload_len},
        {.text = row->key},
        {.text = row->topic},
        {.text = row->error},
    };

    postbag_id_format(&row->id, id);
    rows_add(ctx, cells);
    return 0;
}

/* -1: no such state */
static int state_of(const char *name)
{
    if (name == NULL)
        return POSTBAG_ROW_ANY;
    for (int i = POSTBAG_ROW_PENDING; i <= POSTBAG_ROW_DROPPED; i++)
        if (strcmp(name, postbag_row_state_name(i)) == 0)
            return i;
    return -1;
}

static int list_rows(const struct args *args, int state)
{
    const struct postbag_row_filter filter = {
        .struct_size = sizeof(filter),
        .dest = args->dest,
        .state = state,
        .after_seq = args->after,
        .limit = args->limit == 0 ? ROWS : args->limit,
        .topic_prefix = args->topic,
    };
    struct postbag_admin *a;
    struct rows rows;
    int code = cli_open(&a, args, 0);

    if (code != CLI_OK)
        return code;
    rows_begin(&rows, args, row_columns, ROW_COLUMNS);
    if (postbag_admin_list(a, &filter, add_row, &rows) != POSTBAG_OK)
        code = cli_fail(args->words[0], postbag_admin_fault(a));
    rows_end(&rows, code == CLI_OK);
    postbag_admin_close(a);
    return code;
}

int cli_ls(const struct args *args)
{
    int state = state_of(args->state);

    if (state < 0)
        return cli_complain(CLI_USAGE,
            "--state must be pending, sending, published, dropped, passed,"
            " retry, behind, suspect or dead, not \"%s\"",
            args->state);
    return list_rows(args, state);
}

int cli_dead_ls(const struct args *args)
{
    return list_rows(args, POSTBAG_ROW_DEAD);
}

/* ---- commands ---------------------------------------------------------- */

static const struct column inbox_columns[] = {
    {"arrival", 8, CELL_NUMBER},
    {"consumer", 12, CELL_TEXT},
    {"id", 36, CELL_TEXT},
    {"state", 8, CELL_STATE},
    {"received", 24, CELL_TIME},
    {"processed", 24, CELL_TIME},
    {"attempts", 8, CELL_NUMBER},
    {"seen", 5, CELL_NUMBER},
    {"bytes", 8, CELL_NUMBER},
    {"source", 16, CELL_TEXT},
    {"key", 12, CELL_TEXT},
    {"topic", 24, CELL_TEXT},
    {"error", 0, CELL_TEXT},
};
enum { INBOX_COLUMNS = sizeof(inbox_columns) / sizeof(inbox_columns[0]) };

static int add_command(void *ctx, const struct postbag_inbox_row *row)
{
    char hex[2 * 64 + 1];
    const char *id = row->id;
    const struct cell cells[INBOX_COLUMNS] = {
        {.number = row->arrival},
        {.text = row->consumer},
        {.text = row->id_is_text ? id
                                 : hex_of(hex, sizeof(hex), id, row->id_len)},
        {.text = row->state},
        {.number = row->received_ms},
        {.number = row->processed_ms},
        {.number = row->attempts},
        {.number = row->seen},
        {.number = (int64_t)row->payload_len},
        {.text = row->source[0] == '\0' ? NULL : row->source},
        {.text = row->key},
        {.text = row->topic},
        {.text = row->error},
    };

    rows_add(ctx, cells);
    return 0;
}

static int is_inbox_state(const char *name)
{
    static const char *const names[] = {
        "due", "deferred", "done", "dead", "claimed"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

int cli_inbox_ls(const struct args *args)
{
    const struct postbag_inbox_filter filter = {
        .struct_size = sizeof(filter),
        .consumer = args->consumer,
        .state = args->state,
        .after_arrival = args->after,
        .limit = args->limit == 0 ? ROWS : args->limit,
    };
    struct postbag_admin *a;
    struct rows rows;
    int code;

    if (args->state != NULL && !is_inbox_state(args->state))
        return cli_complain(CLI_USAGE,
            "--state must be due, deferred, done, dead or claimed, not \"%s\"",
            args->state);
    code = cli_open(&a, args, 0);
    if (code != CLI_OK)
        return code;
    rows_begin(&rows, args, inbox_columns, INBOX_COLUMNS);
    if (postbag_admin_inbox_list(a, &filter, add_command, &rows) != POSTBAG_OK)
        code = cli_fail(args->words[0], postbag_admin_fault(a));
    rows_end(&rows, code == CLI_OK);
    postbag_admin_close(a);
    return code;
}
