/* SPDX-License-Identifier: MIT */
/* Options: one table, read by getopt_long, printed by --help. */
#include "args.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "postbag/profile.h"

enum kind { SWITCH, TEXT, NUMBER };

static const struct flag {
    const char *name;
    char letter; /* 0: long only */
    enum kind kind;
    size_t offset;
    int64_t min, max;
    const char *value; /* for the help */
    const char *help;
} flags[] = {
#define FIELD(name) offsetof(struct args, name)
    {"output", 'o', TEXT, FIELD(output), 0, 0, "FORMAT",
        "table, json or jsonl"},
    {"no-color", 0, SWITCH, FIELD(no_color), 0, 0, "",
        "no colours; so does the environment variable NO_COLOR"},
    {"dest", 0, TEXT, FIELD(dest), 0, 0, "NAME", "the destination; else main"},
    {"wait", 0, NUMBER, FIELD(wait_ms), 1, 3600000, "MS",
        "longest wait for a locked database; else 5000"},
    {"max-payload", 0, NUMBER, FIELD(max_payload), 1, 16777216, "BYTES",
        "largest payload; else 65536"},
    {"prepare", 0, NUMBER, FIELD(prepare), 4194304, INT64_MAX, "BYTES",
        "lay it out in advance, so large, and 4 MiB of WAL; nobody may have it"
        " open"},
    {"profile", 0, TEXT, FIELD(profile), 0, 0, "NAME",
        "the broker's rules: " POSTBAG_PROFILES},
    {"message", 'm', TEXT, FIELD(message), 0, 0, "TEXT", "the payload"},
    {"file", 'f', TEXT, FIELD(file), 0, 0, "FILE", "the payload is in FILE"},
    {"key", 0, TEXT, FIELD(key), 0, 0, "KEY",
        "messages of one key leave in order"},
    {"key-version", 0, NUMBER, FIELD(key_version), 1, INT64_MAX, "N",
        "so that consumers see gaps"},
    {"priority", 0, NUMBER, FIELD(priority), 0, 3, "N",
        "0 bulk, 1 to 3 urgent"},
    {"type", 0, TEXT, FIELD(type), 0, 0, "TYPE", "the event's type"},
    {"content-type", 0, TEXT, FIELD(content_type), 0, 0, "MIME",
        "the payload's type"},
    {"headers", 0, TEXT, FIELD(headers), 0, 0, "JSON",
        "further attributes, an object of texts"},
    {"coalesce", 0, TEXT, FIELD(coalesce), 0, 0, "TEXT",
        "while it is unsent, a newer one of this and the key replaces it"},
    {"retain", 0, SWITCH, FIELD(retain), 0, 0, "",
        "the broker keeps it for later subscribers"},
    {"ttl", 0, NUMBER, FIELD(ttl_ms), 1, INT64_MAX, "MS",
        "how long it is of use: the message expiry"},
    {"state", 0, TEXT, FIELD(state), 0, 0, "STATE", "only rows in this state"},
    {"topic", 0, TEXT, FIELD(topic), 0, 0, "PREFIX",
        "only topics that begin so"},
    {"consumer", 0, TEXT, FIELD(consumer), 0, 0, "NAME",
        "only commands of this consumer"},
    {"limit", 0, NUMBER, FIELD(limit), 1, INT64_MAX, "N",
        "at most so many rows; else 50"},
    {"after", 0, NUMBER, FIELD(after), 0, INT64_MAX, "N",
        "only rows after this number"},
    {"from", 0, TEXT, FIELD(from), 0, 0, "SEQ-or-TIME",
        "from this row on, or what was put since"},
    {"to", 0, TEXT, FIELD(to), 0, 0, "SEQ-or-TIME",
        "up to this row, or what was put until then"},
    {"payload", 0, TEXT, FIELD(payload), 0, 0, "FORM",
        "show the payload, too: text, hex or base64"},
    {"salvage", 0, TEXT, FIELD(salvage), 0, 0, "OUT",
        "make this new database of all that can be read"},
    {"id", 0, TEXT, FIELD(id), 0, 0, "ID", "the message of this id"},
    {"seq", 0, NUMBER, FIELD(seq), 1, INT64_MAX, "N",
        "the message of this number"},
    {"arrival", 0, NUMBER, FIELD(arrival), 1, INT64_MAX, "N",
        "the command of this number"},
    {"all", 0, SWITCH, FIELD(all), 0, 0, "", "all of them"},
    {"yes", 0, SWITCH, FIELD(yes), 0, 0, "", "do it"},
    {"run-dir", 0, TEXT, FIELD(run_dir), 0, 0, "DIR",
        "the relay's option run_dir; else /run/postbag"},
    {"config", 'c', TEXT, FIELD(config), 0, 0, "FILE", "the configuration"},
    {"options", 0, SWITCH, FIELD(options), 0, 0, "",
        "print what may stand in the configuration (Markdown)"},
    {"once", 0, SWITCH, FIELD(once), 0, 0, "",
        "end when all has been sent; waits for the broker as long as it takes"},
    {"help", 'h', SWITCH, FIELD(help), 0, 0, "", "this text"},
};
enum { FLAGS = sizeof(flags) / sizeof(flags[0]), LONG_ONLY = 256 };

/* Where an option is another thing than its name says elsewhere. */
static const struct meaning {
    const char *command, *flag;
    const char *value, *help;
} meanings[] = {
    {"init", "dest", "NAME",
        "the destination that --profile is for; else main"},
    {"put", "dest", "NAME", "only for this destination; else for all"},
    {"status", "dest", "NAME", "only this destination; else all"},
    {"dest add", "from", "WHERE",
        "now (what is put from now on; the default) or oldest (all stored)"},
    {"inbox requeue", "id", "ID", "the command of this id"},
    {"inbox discard", "id", "ID", "the command of this id"},
    {"archive", "to", "FILE", "append to this file; -: standard output"},
    {"replay", "limit", "N", "at most so many rows; else 1000"},
};
enum { MEANINGS = sizeof(meanings) / sizeof(meanings[0]) };

static struct meaning meaning_of(
    const struct command *command, const struct flag *flag)
{
    for (int i = 0; i < MEANINGS; i++)
        if (strcmp(meanings[i].command, command->name) == 0 &&
            strcmp(meanings[i].flag, flag->name) == 0)
            return meanings[i];
    return (struct meaning){.value = flag->value, .help = flag->help};
}

/* Is the word in the command's list? */
static int takes(const struct command *command, const struct flag *flag)
{
    size_t len = strlen(flag->name);
    const char *at = command->flags;

    if (strcmp(flag->name, "help") == 0)
        return 1;
    while ((at = strstr(at, flag->name)) != NULL) {
        if (at > command->flags && at[-1] == ' ' && at[len] == ' ')
            return 1;
        at += len;
    }
    return 0;
}

static void list_options(
    const struct command *command, struct option *longs, char *letters)
{
    for (int i = 0; i < FLAGS; i++) {
        const struct flag *f = &flags[i];

        if (!takes(command, f))
            continue;
        *longs++ = (struct option){.name = f->name,
            .has_arg = f->kind == SWITCH ? no_argument : required_argument,
            .val = LONG_ONLY + i};
        if (f->letter == 0)
            continue;
        *letters++ = f->letter;
        if (f->kind != SWITCH)
            *letters++ = ':';
    }
    *longs = (struct option){0};
    *letters = '\0';
}

/* code is one that list_options gave to getopt_long. */
static const struct flag *flag_of(int code)
{
    int i = 0;

    if (code >= LONG_ONLY)
        return &flags[code - LONG_ONLY];
    while (i < FLAGS - 1 && flags[i].letter != code)
        i++;
    return &flags[i];
}

static int set_number(int64_t *field, const struct flag *f, const char *text)
{
    char *end;

    errno = 0;
    *field = strtoll(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && *field >= f->min &&
        *field <= f->max)
        return 0;
    if (f->max == INT64_MAX)
        return cli_complain(CLI_USAGE,
            "--%s must be a number, at least %lld, not \"%s\"", f->name,
            (long long)f->min, text);
    return cli_complain(CLI_USAGE, "--%s must be %lld to %lld, not \"%s\"",
        f->name, (long long)f->min, (long long)f->max, text);
}

static int set_flag(struct args *out, const struct flag *f, const char *text)
{
    char *field = (char *)out + f->offset;

    switch (f->kind) {
    case SWITCH:
        *(int *)(void *)field = 1;
        return 0;
    case TEXT:
        *(const char **)(void *)field = text;
        return 0;
    case NUMBER:
    default:
        return set_number((int64_t *)(void *)field, f, text);
    }
}

static int set_format(struct args *out)
{
    static const char *const names[] = {
        [FORMAT_TABLE] = "table",
        [FORMAT_JSON] = "json",
        [FORMAT_JSONL] = "jsonl",
    };

    for (int i = 0; out->output != NULL && i <= FORMAT_JSONL; i++)
        if (strcmp(out->output, names[i]) == 0) {
            out->format = i;
            return 0;
        }
    return out->output == NULL
               ? 0
               : cli_complain(CLI_USAGE,
                     "-o must be table, json or jsonl, not \"%s\"",
                     out->output);
}

static int take_words(
    struct args *out, const struct command *command, int argc, char **argv)
{
    int count = argc - optind;

    if (count < command->min_words)
        return cli_complain(CLI_USAGE, "something is missing: postbag %s %s",
            command->name, command->words);
    if (count > command->max_words)
        return cli_complain(CLI_USAGE, "\"%s\" is too much: postbag %s %s",
            argv[optind + command->max_words], command->name, command->words);
    for (int i = 0; i < count; i++)
        out->words[i] = argv[optind + i];
    out->word_count = count;
    return 0;
}

int args_parse(
    struct args *out, const struct command *command, int argc, char **argv)
{
    struct option longs[FLAGS + 1];
    char letters[2 * FLAGS + 1];
    int code;
    int bad = 0;

    *out = (struct args){.command = command->name};
    list_options(command, longs, letters);
    opterr = 1;
    while (!bad) {
        /* before any thread starts */
        code = getopt_long(/* NOLINT(concurrency-mt-unsafe) */
            argc, argv, letters, longs, NULL);
        if (code == -1)
            break;
        bad = code == '?' ? CLI_USAGE : set_flag(out, flag_of(code), optarg);
    }
    if (bad || out->help)
        return bad;
    bad = set_format(out);
    return bad ? bad : take_words(out, command, argc, argv);
}

void args_help(const struct command *command)
{
    (void)printf("Usage: postbag %s%s%s [options]\n\n%s\n\n", command->name,
        command->words[0] == '\0' ? "" : " ", command->words, command->help);
    for (int i = 0; i < FLAGS; i++) {
        const struct flag *f = &flags[i];
        struct meaning m = meaning_of(command, f);
        char left[48];

        if (!takes(command, f))
            continue;
        (void)snprintf(left, sizeof(left), "%c%c%s--%s %s",
            f->letter ? '-' : ' ', f->letter ? f->letter : ' ',
            f->letter ? ", " : "  ", f->name, m.value);
        (void)printf("  %-26s %s\n", left, m.help);
    }
}
