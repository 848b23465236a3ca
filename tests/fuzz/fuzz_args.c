/* SPDX-License-Identifier: MIT */
/* Command lines: words separated by zero bytes, for each command of the table.
 * No command is run. */
int command_main(int argc, char **argv);
#define main command_main
#include "main.c" /* NOLINT(bugprone-suspicious-include) */
#undef main

#include <fcntl.h>
#include <getopt.h>

#include "fuzz.h"

enum { MOST_WORDS = 24 };

/* What they print is not looked at, but it must be printable. */
static void be_quiet(void)
{
    static int is_quiet;
    int null;

    if (is_quiet)
        return;
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    MUST(null >= 0 && dup2(null, STDOUT_FILENO) == STDOUT_FILENO);
    is_quiet = 1;
}

static void check_args(const struct args *a, const struct command *c)
{
    MUST(a->word_count >= c->min_words && a->word_count <= c->max_words);
    for (int i = 0; i < a->word_count; i++)
        MUST(a->words[i] != NULL);
    MUST(a->wait_ms >= 0 && a->wait_ms <= 3600000);
    MUST(a->max_payload >= 0 && a->max_payload <= 16777216);
    MUST(a->priority >= 0 && a->priority <= 3);
    MUST(a->ttl_ms >= 0 && a->key_version >= 0 && a->limit >= 0);
    MUST(a->after >= 0 && a->seq >= 0 && a->arrival >= 0);
    MUST(a->format >= FORMAT_TABLE && a->format <= FORMAT_JSONL);
}

static void parse(const struct command *c, int argc, char **argv)
{
    struct args a;
    int code;

    optind = 0; /* glibc: from the beginning */
    code = args_parse(&a, c, argc, argv);
    MUST(code == CLI_OK || code == CLI_USAGE);
    if (code == CLI_OK && !a.help)
        check_args(&a, c);
    if (code == CLI_OK && a.help)
        args_help(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char name[] = "postbag";
    char *argv[MOST_WORDS + 2] = {name};
    struct feed f;
    int argc = 1;
    uint32_t which;
    int wants_help;

    be_quiet();
    feed_begin(&f, data, size);
    which = feed_below(&f, COMMANDS + 1);
    while (argc <= MOST_WORDS && f.left > 0)
        argv[argc++] = feed_text(&f);
    wants_help = take_help(&argc, argv);
    if (which < COMMANDS)
        parse(&commands[which], argc, argv);
    else if (match(&commands[0], argc, argv) == 0)
        (void)explain(wants_help, argc, argv);
    feed_end(&f);
    return 0;
}
