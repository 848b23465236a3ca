/* SPDX-License-Identifier: MIT */
/* The command verify. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "out.h"
#include "postbag/care.h"

struct check {
    struct json json;
    int64_t findings;
    int is_in_ledger;
    int is_damaged; /* a page of it, or more */
};

static void count_finding(struct check *c, const char *check)
{
    c->findings++;
    c->is_damaged |= strcmp(check, "file") == 0;
}

/* ---- for people ---- */

static int finding_plain(
    void *ctx, const char *check, const char *dest, const char *text)
{
    struct check *c = ctx;

    count_finding(c, check);
    out_plain(stdout, check, strlen(check));
    (void)fputs(dest == NULL ? "" : " ", stdout);
    if (dest != NULL)
        out_plain(stdout, dest, strlen(dest));
    (void)fputs(": ", stdout);
    out_plain(stdout, text, strlen(text));
    (void)fputc('\n', stdout);
    return 0;
}

static int ledger_plain(
    void *ctx, const char *dest, const struct postbag_status *s)
{
    (void)ctx;
    out_plain(stdout, dest, strlen(dest));
    (void)printf(": %lld put", (long long)s->put);
    if (s->replayed != 0)
        (void)printf(" + %lld replayed", (long long)s->replayed);
    (void)printf(" = %lld delivered + %lld pending + %lld held + %lld dead"
                 " + %lld dropped + %lld passed\n",
        (long long)s->delivered, (long long)s->pending, (long long)s->held,
        (long long)s->dead, (long long)s->dropped, (long long)s->passed);
    return 0;
}

static int dropped_plain(void *ctx, const char *dest, const char *reason,
    int64_t messages, int64_t bytes)
{
    (void)ctx;
    (void)dest;
    (void)bytes;
    (void)fputs("  dropped, ", stdout);
    out_plain(stdout, reason, strlen(reason));
    (void)printf(": %lld\n", (long long)messages);
    return 0;
}

/* ---- for programs ---- */

static int finding_json(
    void *ctx, const char *check, const char *dest, const char *text)
{
    struct check *c = ctx;

    count_finding(c, check);
    json_open(&c->json, NULL, '{');
    json_text(&c->json, "check", check);
    json_text(&c->json, "dest", dest);
    json_text(&c->json, "text", text);
    json_close(&c->json, '}');
    return 0;
}

/* The findings, or the destination before, are complete. */
static void end_part(struct check *c)
{
    json_close(&c->json, ']');
    if (c->is_in_ledger)
        json_close(&c->json, '}');
    else
        json_open(&c->json, "destinations", '[');
    c->is_in_ledger = 1;
}

static int ledger_json(
    void *ctx, const char *dest, const struct postbag_status *s)
{
    struct check *c = ctx;
    struct json *j = &c->json;

    end_part(c);
    json_open(j, NULL, '{');
    json_text(j, "dest", dest);
    json_number(j, "put", s->put);
    json_number(j, "delivered", s->delivered);
    json_number(j, "pending", s->pending);
    json_number(j, "held", s->held);
    json_number(j, "dead", s->dead);
    json_number(j, "dropped", s->dropped);
    json_number(j, "passed", s->passed);
    json_number(j, "replayed", s->replayed);
    json_open(j, "reasons", '[');
    return 0;
}

static int dropped_json(void *ctx, const char *dest, const char *reason,
    int64_t messages, int64_t bytes)
{
    struct check *c = ctx;

    (void)dest;
    json_open(&c->json, NULL, '{');
    json_text(&c->json, "reason", reason);
    json_number(&c->json, "messages", messages);
    json_number(&c->json, "bytes", bytes);
    json_close(&c->json, '}');
    return 0;
}

/* ---- both ---- */

/* The database, or why it is none that could be opened. */
struct subject {
    struct postbag_admin *admin; /* NULL: damaged */
    struct postbag_fault why;
};

static int find_all(struct subject *u, const struct postbag_verify *v)
{
    return u->admin == NULL ? v->finding(v->ctx, "file", NULL, u->why.text)
                            : postbag_admin_verify(u->admin, v);
}

static int verify_plain(struct subject *u, struct check *c)
{
    const struct postbag_verify v = {
        .struct_size = sizeof(v),
        .ctx = c,
        .finding = finding_plain,
        .ledger = ledger_plain,
        .dropped = dropped_plain,
    };
    int err = find_all(u, &v);

    if (err == POSTBAG_OK && c->findings == 0)
        (void)puts("sound");
    return err;
}

static int verify_json(struct subject *u, struct check *c, const char *name)
{
    const struct postbag_verify v = {
        .struct_size = sizeof(v),
        .ctx = c,
        .finding = finding_json,
        .ledger = ledger_json,
        .dropped = dropped_json,
    };
    int err;

    json_open(&c->json, name, '{');
    json_open(&c->json, "findings", '[');
    err = find_all(u, &v);
    if (err != POSTBAG_OK)
        return err;
    end_part(c);
    json_close(&c->json, ']');
    json_bool(&c->json, "sound", c->findings == 0);
    json_close(&c->json, '}');
    return POSTBAG_OK;
}

int cli_check(const struct args *args, struct json *j, const char *name)
{
    const struct postbag_admin_config config = cli_config(args, 0);
    struct check c = {.json = *j};
    struct subject u = {0};
    int code = cli_find(args);
    int err;

    if (code != CLI_OK)
        return code;
    err = postbag_admin_open(&u.admin, &config, &u.why);
    if (err != POSTBAG_OK && err != POSTBAG_ECORRUPT)
        return cli_fail(config.db_path, &u.why);
    err = args->format == FORMAT_TABLE ? verify_plain(&u, &c)
                                       : verify_json(&u, &c, name);
    *j = c.json;
    if (err != POSTBAG_OK)
        code = cli_fail(config.db_path, postbag_admin_fault(u.admin));
    else if (c.findings != 0)
        code = CLI_UNSOUND;
    if (c.is_damaged)
        (void)cli_complain(CLI_OK,
            "%s: what can be read of it goes into a new database with"
            " postbag doctor --salvage",
            config.db_path);
    postbag_admin_close(u.admin);
    return code;
}

int cli_verify(const struct args *args)
{
    struct json j = {.to = stdout, .is_first = 1};
    int code = cli_check(args, &j, NULL);

    if (args->format != FORMAT_TABLE && (code == CLI_OK || code == CLI_UNSOUND))
        (void)fputc('\n', stdout);
    return code;
}
