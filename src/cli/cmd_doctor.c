/* SPDX-License-Identifier: MIT */
/* The command doctor: what is wrong, and what can be saved. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "live.h"
#include "out.h"
#include "postbag/care.h"

/* ---- look -------------------------------------------------------------- */

/* Of a database that cannot be opened there is nothing to tell here. */
static int read_files(const struct args *args, struct postbag_database *d)
{
    const struct postbag_admin_config config = cli_config(args, 0);
    struct postbag_admin *admin;
    int err = postbag_admin_open(&admin, &config, NULL);

    if (err == POSTBAG_OK)
        err = postbag_admin_database(admin, d);
    postbag_admin_close(admin);
    return err;
}

static int look_plain(const struct args *args)
{
    struct postbag_database d = {.struct_size = sizeof(d)};
    struct json unused = {.to = stdout, .is_first = 1};
    unsigned has_bug;
    const char *version = postbag_sqlite_version(&has_bug);

    (void)printf("SQLite %s%s\n", version,
        has_bug ? ": has the WAL-reset bug; let nothing but the relay make"
                  " checkpoints"
                : "");
    if (read_files(args, &d) == POSTBAG_OK)
        (void)printf("schema %lld, %lld bytes (%lld free) in pages of %lld,"
                     " WAL %lld bytes\n",
            (long long)d.schema_version, (long long)d.db_bytes,
            (long long)d.free_bytes, (long long)d.page_bytes,
            (long long)d.wal_bytes);
    return cli_check(args, &unused, NULL);
}

static int look_json(const struct args *args)
{
    struct postbag_database d = {.struct_size = sizeof(d)};
    struct json j = {.to = stdout, .is_first = 1};
    unsigned has_bug;
    const char *version = postbag_sqlite_version(&has_bug);
    int is_read = read_files(args, &d) == POSTBAG_OK;
    int code;

    json_open(&j, NULL, '{');
    json_text(&j, "sqlite", version);
    json_bool(&j, "wal_reset_bug", has_bug != 0);
    json_maybe(&j, "schema", d.schema_version, is_read);
    json_maybe(&j, "page_bytes", d.page_bytes, is_read);
    json_maybe(&j, "db_bytes", d.db_bytes, is_read);
    json_maybe(&j, "free_bytes", d.free_bytes, is_read);
    json_maybe(&j, "wal_bytes", d.wal_bytes, is_read);
    code = cli_check(args, &j, "verify");
    json_close(&j, '}');
    (void)fputc('\n', stdout);
    return code;
}

/* ---- salvage ----------------------------------------------------------- */

static int table_plain(void *ctx, const char *name, int64_t rows,
    int64_t damaged, int64_t holes, const char *why)
{
    (void)ctx;
    out_plain(stdout, name, strlen(name));
    (void)printf(": %lld rows", (long long)rows);
    if (damaged != 0)
        (void)printf(", %lld damaged", (long long)damaged);
    if (holes != 0)
        (void)printf(", %lld holes", (long long)holes);
    if (why != NULL) {
        (void)fputs(" (", stdout);
        out_plain(stdout, why, strlen(why));
        (void)fputc(')', stdout);
    }
    (void)fputc('\n', stdout);
    return 0;
}

static int lost_plain(void *ctx, const char *table, int64_t lo, int64_t hi)
{
    (void)ctx;
    (void)fputs("  lost of ", stdout);
    out_plain(stdout, table, strlen(table));
    if (lo == 0 && hi == 0)
        (void)puts(": some rows");
    else if (hi == INT64_MAX)
        (void)printf(": from %lld on, how many is unknown\n", (long long)lo);
    else
        (void)printf(": rows %lld to %lld\n", (long long)lo, (long long)hi);
    return 0;
}

static int left_out_plain(
    void *ctx, const char *kind, const char *name, const char *why)
{
    (void)ctx;
    (void)printf("left out: %s ", kind);
    out_plain(stdout, name, strlen(name));
    (void)fputs(": ", stdout);
    out_plain(stdout, why, strlen(why));
    (void)fputc('\n', stdout);
    return 0;
}

/* Each is an object in one list, in the order in which it is found. */
static int table_json(void *ctx, const char *name, int64_t rows,
    int64_t damaged, int64_t holes, const char *why)
{
    json_open(ctx, NULL, '{');
    json_text(ctx, "table", name);
    json_number(ctx, "rows", rows);
    json_number(ctx, "damaged", damaged);
    json_number(ctx, "holes", holes);
    json_text(ctx, "why", why);
    json_close(ctx, '}');
    return 0;
}

static int lost_json(void *ctx, const char *table, int64_t lo, int64_t hi)
{
    json_open(ctx, NULL, '{');
    json_text(ctx, "lost", table);
    json_number(ctx, "from", lo);
    json_maybe(ctx, "to", hi, hi != INT64_MAX);
    json_close(ctx, '}');
    return 0;
}

static int left_out_json(
    void *ctx, const char *kind, const char *name, const char *why)
{
    json_open(ctx, NULL, '{');
    json_text(ctx, "left_out", name);
    json_text(ctx, "kind", kind);
    json_text(ctx, "why", why);
    json_close(ctx, '}');
    return 0;
}

static int is_whole(const struct postbag_salvaged *s)
{
    return s->damaged == 0 && s->holes == 0 && s->left_out == 0 &&
           !s->without_wal;
}

static void sum_plain(const struct postbag_salvaged *s)
{
    if (s->without_wal)
        (void)puts("read without its WAL: what was committed last is missing");
    (void)printf("salvaged: %lld messages to be sent, %lld held or dead, %lld"
                 " commands; %lld rows in all\n",
        (long long)s->messages, (long long)s->held, (long long)s->commands,
        (long long)s->rows);
    (void)puts(is_whole(s) ? "nothing is lost" : "not all could be read");
}

static void sum_json(struct json *j, const struct postbag_salvaged *s)
{
    json_number(j, "messages", s->messages);
    json_number(j, "held", s->held);
    json_number(j, "commands", s->commands);
    json_number(j, "rows", s->rows);
    json_number(j, "damaged", s->damaged);
    json_number(j, "holes", s->holes);
    json_number(j, "left_out", s->left_out);
    json_bool(j, "without_wal", s->without_wal != 0);
    json_bool(j, "whole", is_whole(s));
}

static int salvage_plain(const struct postbag_admin_config *config,
    const char *to, struct postbag_salvaged *s, struct postbag_fault *why)
{
    const struct postbag_salvage how = {.struct_size = sizeof(how),
        .to = to,
        .table = table_plain,
        .lost = lost_plain,
        .left_out = left_out_plain};
    int err = postbag_admin_salvage(config, &how, s, why);

    if (err == POSTBAG_OK)
        sum_plain(s);
    return err;
}

static int salvage_json(const struct postbag_admin_config *config,
    const char *to, struct postbag_salvaged *s, struct postbag_fault *why)
{
    struct json j = {.to = stdout, .is_first = 1};
    const struct postbag_salvage how = {.struct_size = sizeof(how),
        .to = to,
        .ctx = &j,
        .table = table_json,
        .lost = lost_json,
        .left_out = left_out_json};
    int err;

    json_open(&j, NULL, '{');
    json_open(&j, "found", '[');
    err = postbag_admin_salvage(config, &how, s, why);
    json_close(&j, ']');
    if (err == POSTBAG_OK)
        sum_json(&j, s);
    else
        json_text(&j, "error", why->text);
    json_close(&j, '}');
    (void)fputc('\n', stdout);
    return err;
}

/* Half a salvage would look like a whole one. */
static void remove_half(const char *to)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char path[4096];

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s%s", to, ends[i]);
        (void)unlink(path);
    }
}

static int salvage(const struct args *args)
{
    const struct postbag_admin_config config = cli_config(args, 0);
    struct postbag_salvaged s = {.struct_size = sizeof(s)};
    struct postbag_fault why = {0};
    struct stat there;
    int code;
    int err;

    if (lstat(args->salvage, &there) == 0)
        return cli_complain(CLI_ERROR, "%s: is there already", args->salvage);
    if (errno != ENOENT)
        return cli_errno(CLI_ERROR, args->salvage);
    if (live_any_relay(config.db_path) == RELAY_RUNS)
        (void)cli_complain(CLI_OK,
            "%s: a relay runs: what it sends meanwhile waits in %s once more;"
            " stop it and salvage again",
            config.db_path, args->salvage);
    err = args->format == FORMAT_TABLE
              ? salvage_plain(&config, args->salvage, &s, &why)
              : salvage_json(&config, args->salvage, &s, &why);
    if (err == POSTBAG_OK)
        return is_whole(&s) ? CLI_OK : CLI_UNSOUND;
    remove_half(args->salvage);
    code = cli_fail(config.db_path, &why);
    return err == POSTBAG_ECORRUPT ? CLI_UNSOUND : code;
}

int cli_doctor(const struct args *args)
{
    int code = cli_find(args);

    if (code != CLI_OK)
        return code;
    if (args->salvage != NULL)
        return salvage(args);
    return args->format == FORMAT_TABLE ? look_plain(args) : look_json(args);
}
