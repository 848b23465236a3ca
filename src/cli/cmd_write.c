/* SPDX-License-Identifier: MIT */
/* Commands that change the database: init, put, dead requeue, dead
 * discard, purge. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "postbag/linux.h"
#include "postbag/prepare.h"
#include "postbag/profile.h"

/* The largest that max_payload can allow, and one byte to see that there is
 * more.  Pages that are not written cost nothing. */
static char payload_buffer[16777216 + 1];

static int set_profile(const struct args *args)
{
    struct postbag_admin *a;
    int code = cli_open(&a, args, 1);

    if (code != CLI_OK)
        return code;
    if (postbag_admin_set_profile(a, args->dest, args->profile) != POSTBAG_OK)
        code = cli_fail("no profile set", postbag_admin_fault(a));
    postbag_admin_close(a);
    return code;
}

int cli_init(const struct args *args)
{
    const struct postbag_admin_config config = {
        .struct_size = sizeof(config),
        .db_path = args->words[0],
        .port = postbag_linux_port(),
        .busy_ms = (uint32_t)args->wait_ms,
    };
    struct postbag_fault why = {0};

    if (args->profile != NULL && postbag_profile_find(args->profile) == NULL)
        return cli_complain(CLI_USAGE, "there is no profile %s; there are %s",
            args->profile, POSTBAG_PROFILES);
    if (args->dest != NULL && args->profile == NULL)
        return cli_complain(CLI_USAGE,
            "--dest says whose --profile it is; postbag dest add adds one");
    if (postbag_admin_init(&config, (uint32_t)args->max_payload, &why) !=
        POSTBAG_OK)
        return cli_fail(config.db_path, &why);
    if (args->prepare != 0 &&
        postbag_prepare(&config, args->prepare, 0, &why) != POSTBAG_OK)
        return cli_complain(why.code == POSTBAG_EBUSY ? CLI_LOCKED : CLI_ERROR,
            "%s: %s", config.db_path, why.text);
    return args->profile == NULL ? CLI_OK : set_profile(args);
}

/* ---- put --------------------------------------------------------------- */

static int read_stream(FILE *from, const char *name, size_t *len_out)
{
    *len_out = fread(payload_buffer, 1, sizeof(payload_buffer), from);
    if (ferror(from))
        return cli_errno(CLI_ERROR, name);
    if (*len_out == sizeof(payload_buffer))
        return cli_complain(
            CLI_ERROR, "%s: larger than any payload can be", name);
    return CLI_OK;
}

static int read_file(const char *path, size_t *len_out)
{
    FILE *file = fopen(path, "rbe");
    int code;

    if (file == NULL)
        return cli_errno(errno == ENOENT ? CLI_NOT_FOUND : CLI_ERROR, path);
    code = read_stream(file, path, len_out);
    (void)fclose(file);
    return code;
}

static int read_payload(const struct args *args, struct postbag_message *m)
{
    const char *dash = args->words[2];
    int sources =
        (args->message != NULL) + (args->file != NULL) + (dash != NULL);
    int code;

    if (sources != 1 || (dash != NULL && strcmp(dash, "-") != 0))
        return cli_complain(CLI_USAGE,
            "give the payload once: -m TEXT, -f FILE or - (standard input)");
    if (args->message != NULL) {
        m->payload = args->message;
        m->payload_len = strlen(args->message);
        m->is_text = 1;
        return CLI_OK;
    }
    if (args->file != NULL && strcmp(args->file, "-") == 0)
        dash = args->file;
    code = dash != NULL ? read_stream(stdin, "standard input", &m->payload_len)
                        : read_file(args->file, &m->payload_len);
    m->payload = payload_buffer;
    return code;
}

/* The command line is right and the message is not: no wrong usage. */
static int refuse(struct postbag_admin *a, const struct args *args)
{
    const struct postbag_fault *why = postbag_admin_fault(a);
    struct postbag_status s = {.struct_size = sizeof(s)};

    if (why->code != POSTBAG_EINVAL)
        return cli_fail("not queued", why);
    (void)cli_complain(CLI_ERROR, "not queued: %s", why->text);
    return args->dest != NULL &&
                   postbag_admin_status(a, args->dest, &s) == POSTBAG_ENOTFOUND
               ? CLI_NOT_FOUND
               : CLI_ERROR;
}

int cli_put(const struct args *args)
{
    struct postbag_message m = {
        .struct_size = sizeof(m),
        .topic = args->words[1],
        .key = args->key,
        .key_version = args->key_version,
        .type = args->type,
        .content_type = args->content_type,
        .headers = args->headers,
        .dest = args->dest,
        .coalesce = args->coalesce,
        .ttl_ms = args->ttl_ms,
        .priority = (unsigned)args->priority,
        .retain = args->retain != 0,
    };
    struct postbag_admin *a;
    struct postbag_id id;
    char text[37];
    int code = read_payload(args, &m);

    if (code == CLI_OK)
        code = cli_open(&a, args, 1);
    if (code != CLI_OK)
        return code;
    if (postbag_admin_put(a, &m, &id) == POSTBAG_OK) {
        postbag_id_format(&id, text);
        (void)puts(text);
    } else {
        code = refuse(a, args);
    }
    postbag_admin_close(a);
    return code;
}

/* ---- repair ------------------------------------------------------------ */

int cli_dead_requeue(const struct args *args)
{
    int choices = (args->id != NULL) + (args->seq != 0) + (args->all != 0);
    struct postbag_admin *a;
    struct postbag_id id;
    int64_t count = 0;
    int code;

    if (choices != 1)
        return cli_complain(CLI_USAGE, "say which: --id ID, --seq N or --all");
    if (args->id != NULL && postbag_id_parse(&id, args->id) != POSTBAG_OK)
        return cli_complain(CLI_USAGE, "\"%s\" is not an id", args->id);
    code = cli_open(&a, args, 1);
    if (code != CLI_OK)
        return code;
    if (postbag_admin_requeue(a, args->dest, args->seq,
            args->id == NULL ? NULL : &id, &count) == POSTBAG_OK)
        (void)printf("%lld requeued\n", (long long)count);
    else
        code = cli_fail("nothing requeued", postbag_admin_fault(a));
    postbag_admin_close(a);
    return code;
}

int cli_dead_discard(const struct args *args)
{
    struct postbag_admin *a;
    struct postbag_id id;
    int code;

    if ((args->id != NULL) + (args->seq != 0) != 1)
        return cli_complain(CLI_USAGE, "say which: --id ID or --seq N");
    if (args->id != NULL && postbag_id_parse(&id, args->id) != POSTBAG_OK)
        return cli_complain(CLI_USAGE, "\"%s\" is not an id", args->id);
    if (!args->yes)
        return cli_complain(
            CLI_USAGE, "this drops a message for good: add --yes");
    code = cli_open(&a, args, 1);
    if (code != CLI_OK)
        return code;
    if (postbag_admin_discard(a, args->dest, args->seq,
            args->id == NULL ? NULL : &id) == POSTBAG_OK)
        (void)puts("1 discarded");
    else
        code = cli_fail("nothing discarded", postbag_admin_fault(a));
    postbag_admin_close(a);
    return code;
}

int cli_purge(const struct args *args)
{
    struct postbag_admin *a;
    int64_t count = 0;
    int code;

    if (!args->yes)
        return cli_complain(CLI_USAGE,
            "this deletes the history of delivered messages: add --yes");
    code = cli_open(&a, args, 1);
    if (code != CLI_OK)
        return code;
    if (postbag_admin_purge(a, 0, &count) != POSTBAG_OK)
        code = cli_fail("stopped", postbag_admin_fault(a));
    (void)printf("%lld deleted\n", (long long)count);
    postbag_admin_close(a);
    return code;
}
