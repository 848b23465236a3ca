/* SPDX-License-Identifier: MIT */
/*
 * Words and options of a command line.  One table has every option; a command
 * names those it takes.
 */
#ifndef POSTBAG_CLI_ARGS_H
#define POSTBAG_CLI_ARGS_H

#include <stdint.h>

/* How to print. */
enum format { FORMAT_TABLE, FORMAT_JSON, FORMAT_JSONL };

/* What is not given is NULL or 0. */
struct args {
    const char *command;  /* its name */
    const char *words[3]; /* those that are no options */
    int word_count;
    int format;
    const char *output;
    const char *dest, *run_dir, *config;
    const char *message, *file, *profile;
    const char *key, *type, *content_type, *headers, *coalesce;
    const char *state, *topic, *consumer, *payload;
    const char *id, *from, *to, *salvage;
    int64_t max_payload, wait_ms, prepare;
    int64_t priority, ttl_ms, key_version;
    int64_t limit, after, seq, arrival;
    int no_color, retain, all, yes, options, once, help;
};

struct command {
    const char *name;  /* one word or two */
    const char *words; /* for the usage line */
    int min_words, max_words;
    const char *flags; /* names of its options, each between blanks */
    const char *help;
    int (*run)(const struct args *args);
};

/* argv[0] is the last word of the command's name.  0, or an exit code after
 * a line on stderr. */
int args_parse(
    struct args *out, const struct command *command, int argc, char **argv);

/* Usage of one command. */
void args_help(const struct command *command);

#endif
