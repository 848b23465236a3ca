/* SPDX-License-Identifier: MIT */
/*
 * The command postbag.  It uses the public headers only, so whatever it does
 * any program can do.  Each command is one function; this file has their
 * table, and what they say when something goes wrong.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "out.h"
#include "postbag/linux.h"

#define PRINT " output no-color wait "

static const struct command commands[] = {
    {"init", "DB", 1, 1, " max-payload prepare profile dest wait ",
        "Create the outbox in a database, new or old.\n"
        "--dest says for which destination --profile is; else main.",
        cli_init},
    {"put", "DB TOPIC [-]", 2, 3,
        " message file key key-version priority type content-type headers"
        " coalesce retain ttl dest wait ",
        "Queue a message and print its id.\n"
        "The payload comes from -m, -f, or with - from standard input.",
        cli_put},
    {"status", "DB", 1, 1, PRINT "dest run-dir ",
        "What waits, since when, how fast it drains.", cli_status},
    {"relay", "--config FILE", 0, 0, " config once options ",
        "Send what is queued, until SIGTERM or SIGINT.\n"
        "At the start it waits for a locked database as long as it takes.\n"
        "A second relay of the same destination stands by.\n"
        "SIGUSR1: the network is back, try now; SIGUSR2: it is gone, wait for\n"
        "SIGUSR1 (but not for longer than reconnect_cap_ms).\n"
        "SIGHUP: connect anew, so that certificates and passwords are read\n"
        "anew; the configuration is not.\n"
        "--once waits for the broker as long as it takes; it ends with 5 when\n"
        "the broker, or its profile, refuses us or a message.",
        cli_relay},
    {"ls", "DB", 1, 1, PRINT "dest state topic limit after ",
        "List messages, oldest first.\n"
        "States: pending, sending, published, dropped, passed, retry,\n"
        "behind, suspect, dead.",
        cli_ls},
    {"show", "DB ID-or-SEQ", 2, 2, PRINT "dest payload ", "Show one message.",
        cli_show},
    {"dead ls", "DB", 1, 1, PRINT "dest topic limit after ",
        "List the messages that were given up.", cli_dead_ls},
    {"dead requeue", "DB", 1, 1, " dest id seq all wait ",
        "Send dead messages again: --id, --seq or --all.\n"
        "With --id or --seq also one that waits for another try: at once.\n"
        "One whose ttl is over is dropped instead; outbox_lost names it.",
        cli_dead_requeue},
    {"dead discard", "DB", 1, 1, " dest id seq yes wait ",
        "Drop a held or dead message for good: --id or --seq.\n"
        "Those behind it go on in the order of their key.",
        cli_dead_discard},
    {"dest ls", "DB", 1, 1, PRINT,
        "List the destinations, and what waits for each.", cli_dest_ls},
    {"dest add", "DB NAME", 2, 2, " from wait ",
        "Add a destination: messages for all wait for it, too.\n"
        "It needs a relay of its own (option dest).",
        cli_dest_add},
    {"dest remove", "DB NAME", 2, 2, " yes wait ",
        "Remove a destination, and all that waits for it.\n"
        "Its relay must not run.",
        cli_dest_remove},
    {"inbox ls", "DB", 1, 1, PRINT "consumer state limit after ",
        "List commands that came in.\n"
        "States: due, deferred, done, dead, claimed.",
        cli_inbox_ls},
    {"inbox requeue", "DB", 1, 1, " id arrival all consumer wait ",
        "Handle dead commands again: --id, --arrival or --all.\n"
        "With --id or --arrival also one that waits for another try: at once.",
        cli_inbox_requeue},
    {"inbox discard", "DB", 1, 1, " id arrival all consumer yes wait ",
        "Give up dead commands: --id, --arrival or --all.\n"
        "With --id or --arrival also one that is not dead yet.\n"
        "A redelivery is still known as a duplicate.",
        cli_inbox_discard},
    {"purge", "DB", 1, 1, " yes wait ",
        "Delete what was delivered.\n"
        "Also what the relay's options keep_s and keep_rows would still keep.",
        cli_purge},
    {"archive", "DB --to FILE", 1, 1, " dest to wait ",
        "Append to a file what was delivered, as JSON lines.\n"
        "It begins where the last archive ended.\n"
        "--to - writes to standard output.  A purge does not wait for it:\n"
        "archive more often than rows are kept (keep_s, keep_rows).",
        cli_archive},
    {"replay", "DB --from SEQ", 1, 1, " dest from to limit wait ",
        "Send delivered messages once more.\n"
        "Those that are still stored (the relay's options keep_s, keep_rows),\n"
        "with their ids and the attribute replay; at most --limit (1000) at"
        " once.\n"
        "A time is RFC 3339 (2026-11-30T08:15:00.5+01:00), or a date, in UTC.",
        cli_replay},
    {"vacuum", "DB", 1, 1, " wait ",
        "Give free space back, offline.\n"
        "Nothing may have the database open.\n"
        "Needs free space, up to twice the size of the database.",
        cli_vacuum},
    {"verify", "DB", 1, 1, PRINT,
        "Check the ledger, the tables and the file.\n"
        "Changes nothing; beside a running relay and on a copy, too.\n"
        "One line for each thing that is wrong; ends with 6 if there is one.",
        cli_verify},
    {"doctor", "DB", 1, 1, PRINT "salvage wait ",
        "What verify checks, and more; salvage.\n"
        "It tells of the SQLite library and the files, too.\n"
        "With --salvage OUT: make a new database of what can be read of a\n"
        "damaged one, row by row, the application's tables, too.  DB is not\n"
        "written; nothing should have it open.  OUT must not exist.\n"
        "Ends with 6 if something is wrong, or was lost.",
        cli_doctor},
    {"version", "", 0, 0, " ", "Print the version.", cli_version},
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const char *running = "postbag";

int cli_complain(int exit_code, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)fprintf(stderr, "%s: ", running);
    out_plain(stderr, text, strlen(text));
    (void)fputc('\n', stderr);
    return exit_code;
}

int cli_errno(int exit_code, const char *what)
{
    /* only the main thread comes here */
    const char *why = strerror(errno); /* NOLINT(concurrency-mt-unsafe) */

    return cli_complain(exit_code, "%s: %s", what, why);
}

static int exit_of(int err)
{
    switch (err) {
    case POSTBAG_EINVAL:
        return CLI_USAGE;
    case POSTBAG_ENOTFOUND:
        return CLI_NOT_FOUND;
    case POSTBAG_EBUSY:
        return CLI_LOCKED;
    case POSTBAG_EREFUSED:
        return CLI_REFUSED;
    default:
        return CLI_ERROR;
    }
}

int cli_fail(const char *what, const struct postbag_fault *fault)
{
    if (fault->code == POSTBAG_EBUSY)
        return cli_complain(CLI_LOCKED,
            "%s: locked by another process for too long (see --wait)", what);
    return cli_complain(exit_of(fault->code), "%s: %s", what, fault->text);
}

struct postbag_admin_config cli_config(
    const struct args *args, unsigned writable)
{
    const struct postbag_admin_config config = {
        .struct_size = sizeof(config),
        .db_path = args->words[0],
        .port = postbag_linux_port(),
        .writable = writable,
        .busy_ms = (uint32_t)args->wait_ms,
    };

    return config;
}

int cli_find(const struct args *args)
{
    struct stat s;

    if (stat(args->words[0], &s) == 0)
        return S_ISREG(s.st_mode) ? CLI_OK
                                  : cli_complain(CLI_ERROR, "%s: is not a file",
                                        args->words[0]);
    return cli_errno(
        errno == ENOENT ? CLI_NOT_FOUND : CLI_ERROR, args->words[0]);
}

int cli_open(
    struct postbag_admin **out, const struct args *args, unsigned writable)
{
    const struct postbag_admin_config config = cli_config(args, writable);
    struct postbag_fault why = {0};
    int code = cli_find(args);

    *out = NULL;
    if (code != CLI_OK)
        return code;
    if (postbag_admin_open(out, &config, &why) != POSTBAG_OK)
        return cli_fail(config.db_path, &why);
    return CLI_OK;
}

int cli_version(const struct args *args)
{
    (void)args;
    (void)printf(
        "postbag %s, schema %d\n", postbag_version(), POSTBAG_SCHEMA_VERSION);
    return CLI_OK;
}

/* Is it one of the commands that begin with this word? */
static int is_of(const struct command *command, const char *group)
{
    size_t len = strlen(group);

    return strncmp(command->name, group, len) == 0 && command->name[len] == ' ';
}

static int is_group(const char *word)
{
    for (int i = 0; i < COMMANDS; i++)
        if (is_of(&commands[i], word))
            return 1;
    return 0;
}

/* group NULL: all commands. */
static int usage(FILE *to, const char *group, int code)
{
    (void)fprintf(to,
        "Usage: postbag %s%sCOMMAND ...   COMMAND --help tells more.  DB: the"
        " database\n",
        group == NULL ? "" : group, group == NULL ? "" : " ");
    for (int i = 0; i < COMMANDS; i++) {
        char left[48];

        if (group != NULL && !is_of(&commands[i], group))
            continue;
        (void)snprintf(
            left, sizeof(left), "%s %s", commands[i].name, commands[i].words);
        (void)fprintf(to, "  %-22s %.*s\n", left,
            (int)strcspn(commands[i].help, "\n"), commands[i].help);
    }
    (void)fputs("Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 locked,"
                " 5 refused, 6 unsound\n",
        to);
    return code;
}

/* How many words of argv name the command; 0: none. */
static int match(const struct command *command, int argc, char **argv)
{
    const char *space = strchr(command->name, ' ');
    size_t len =
        space == NULL ? strlen(command->name) : (size_t)(space - command->name);

    if (argc < 2 || strlen(argv[1]) != len ||
        strncmp(argv[1], command->name, len) != 0)
        return 0;
    if (space == NULL)
        return 1;
    return argc > 2 && strcmp(argv[2], space + 1) == 0 ? 2 : 0;
}

static int print_help(const struct command *command)
{
    args_help(command);
    return CLI_OK;
}

/* Has a line on stderr said what is wrong?  What verify finds is output. */
static int is_told(int code)
{
    return code != CLI_OK && code != CLI_UNSOUND;
}

static int finish_output(int code)
{
    if (fflush(stdout) != 0)
        return cli_errno(CLI_ERROR, "output");
    /* by now errno is of something else */
    if (ferror(stdout))
        return cli_complain(CLI_ERROR, "output: not all of it was written");
    return code;
}

static int run(
    const struct command *command, int wants_help, int argc, char **argv)
{
    static char name[32];
    struct args args;
    int code;

    (void)snprintf(name, sizeof(name), "postbag %s", command->name);
    running = name;
    argv[0] = name; /* getopt's messages begin with it */
    code = wants_help ? CLI_OK : args_parse(&args, command, argc, argv);
    if (code != 0)
        return code;
    code = wants_help || args.help ? print_help(command) : command->run(&args);
    return is_told(code) ? code : finish_output(code);
}

/* Before, between and behind the words of a command --help is of that command
 * or group; what follows them is getopt's. */
static int take_help(int *argc, char **argv)
{
    for (int i = 1; i < *argc && i <= 2; i++) {
        if (strcmp(argv[i], "--help") != 0 && strcmp(argv[i], "-h") != 0 &&
            (i > 1 || strcmp(argv[i], "help") != 0))
            continue;
        memmove(&argv[i], &argv[i + 1], sizeof(*argv) * (size_t)(*argc - i));
        --*argc;
        return 1;
    }
    return 0;
}

/* The words name no command. */
static int explain(int wants_help, int argc, char **argv)
{
    const char *group = argc > 1 && is_group(argv[1]) ? argv[1] : NULL;

    if (wants_help && argc == (group == NULL ? 1 : 2))
        return usage(stdout, group, CLI_OK);
    if (group != NULL && argc == 2)
        (void)cli_complain(
            CLI_USAGE, "something is missing: postbag %s COMMAND", group);
    else if (argc > 1)
        (void)cli_complain(CLI_USAGE, "there is no command \"%s%s%s\"", argv[1],
            argc > 2 ? " " : "", argc > 2 ? argv[2] : "");
    return usage(stderr, group, CLI_USAGE);
}

int main(int argc, char **argv)
{
    int wants_help = take_help(&argc, argv);

    for (int i = 0; i < COMMANDS; i++) {
        int words = match(&commands[i], argc, argv);

        if (words > 0)
            return run(&commands[i], wants_help, argc - words, argv + words);
    }
    return explain(wants_help, argc, argv);
}
