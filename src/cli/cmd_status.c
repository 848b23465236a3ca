/* SPDX-License-Identifier: MIT */
/* The command status: the database, and each destination with its relay. */
#include <stdio.h>
#include <string.h>

#include "report.h"

static const char default_run_dir[] = "/run/postbag";

const char *report_lease_name(int lease)
{
    static const char *const names[] = {
        [POSTBAG_LEASE_NONE] = "none",
        [POSTBAG_LEASE_VALID] = "valid",
        [POSTBAG_LEASE_EXPIRED] = "expired",
        [POSTBAG_LEASE_OLD_BOOT] = "old boot",
    };

    return names[lease];
}

const char *report_relay_name(int relay)
{
    static const char *const names[] = {
        [RELAY_UNKNOWN] = "unknown",
        [RELAY_STOPPED] = "stopped",
        [RELAY_RUNS] = "running",
    };

    return names[relay];
}

const char *report_run_dir(const struct report *r)
{
    return r->args->run_dir == NULL ? default_run_dir : r->args->run_dir;
}

int report_link_is_known(const struct report *r)
{
    return r->live.is_known && r->relay != RELAY_STOPPED;
}

const char *report_link_name(const struct report *r)
{
    if (r->relay == RELAY_STOPPED)
        return "down";
    return r->live.is_known ? r->live.link : "unknown";
}

int64_t report_drain_rate(const struct report *r)
{
    return report_link_is_known(r) ? r->live.rate_milli : -1;
}

int64_t report_empty_in_ms(const struct report *r)
{
    int64_t gain = report_drain_rate(r) - r->status.put_rate_milli;

    if (r->status.pending == 0)
        return 0;
    if (report_drain_rate(r) < 0 || r->status.put_rate_milli < 0 || gain <= 0)
        return -1;
    return r->status.pending * 1000000 / gain;
}

/* ---- the command ------------------------------------------------------- */

/* What damage hides is unknown, and the rest is told. */
static int go_on_damaged(
    struct report *r, int err, const struct postbag_fault *why)
{
    if (err != POSTBAG_ECORRUPT)
        return err;
    if (r->damage[0] == '\0')
        (void)snprintf(r->damage, sizeof(r->damage), "%s", why->text);
    return POSTBAG_OK;
}

static int read_live(struct report *r)
{
    char path[512];
    int err = POSTBAG_OK;

    r->live = (struct live){0};
    r->relay = live_relay(r->args->words[0], r->dest);
    if (r->admin == NULL)
        return err;
    err = postbag_admin_live_path(
        r->admin, report_run_dir(r), r->dest, path, sizeof(path));
    if (err == POSTBAG_OK)
        live_read(&r->live, path);
    return err;
}

static int read_dest(struct report *r)
{
    int err;

    memset(&r->status, 0, sizeof(r->status));
    r->status.struct_size = sizeof(r->status);
    r->has_status = 0;
    if (r->admin == NULL)
        return read_live(r);
    err = postbag_admin_status(r->admin, r->dest, &r->status);
    r->has_status = err == POSTBAG_OK;
    err = go_on_damaged(r, err, postbag_admin_fault(r->admin));
    return err == POSTBAG_OK ? read_live(r) : err;
}

static int report_dest(struct report *r, const char *dest)
{
    int err;

    r->dest = dest;
    err = read_dest(r);
    if (err != POSTBAG_OK)
        return err;
    if (r->args->format == FORMAT_TABLE)
        report_dest_plain(r);
    else
        report_dest_json(r);
    return POSTBAG_OK;
}

/* Names first: an admin is not used from its own callbacks. */
struct names {
    char text[16][65];
    int count, is_cut;
};

static int note_name(void *ctx, const char *dest)
{
    struct names *n = ctx;

    n->is_cut = n->count == 16;
    if (n->is_cut)
        return 1;
    (void)snprintf(n->text[n->count++], sizeof(n->text[0]), "%s", dest);
    return 0;
}

static int report_dests(struct report *r)
{
    struct names names = {.count = 0};
    int err;

    if (r->args->dest != NULL || r->admin == NULL)
        return report_dest(r, r->args->dest == NULL ? "main" : r->args->dest);
    err = postbag_admin_destinations(r->admin, note_name, &names);
    if (err == POSTBAG_ECORRUPT && names.count == 0)
        (void)note_name(&names, "main");
    err = go_on_damaged(r, err, postbag_admin_fault(r->admin));
    if (names.is_cut) {
        (void)cli_complain(CLI_OK, "more than 16 destinations: see --dest");
        err = POSTBAG_OK;
    }
    for (int i = 0; i < names.count && err == POSTBAG_OK; i++)
        err = report_dest(r, names.text[i]);
    return err;
}

static int read_database(struct report *r)
{
    int err;

    if (r->admin == NULL)
        return POSTBAG_OK;
    err = postbag_admin_database(r->admin, &r->database);
    r->has_database = err == POSTBAG_OK;
    return go_on_damaged(r, err, postbag_admin_fault(r->admin));
}

static int report(struct report *r)
{
    int is_json = r->args->format != FORMAT_TABLE;
    int err = read_database(r);

    if (err != POSTBAG_OK)
        return err;
    if (is_json) {
        json_open(&r->json, NULL, '{');
        report_database_json(r);
        json_open(&r->json, "destinations", '[');
    } else {
        report_database_plain(r);
    }
    err = report_dests(r);
    if (is_json) {
        json_close(&r->json, ']');
        json_text(&r->json, "damage", r->damage[0] == '\0' ? NULL : r->damage);
        json_close(&r->json, '}');
        (void)fputc('\n', stdout);
    }
    return err;
}

int cli_status(const struct args *args)
{
    struct report r = {
        .args = args,
        .json = {.to = stdout, .is_first = 1},
        .database = {.struct_size = sizeof(r.database)},
    };
    const struct postbag_admin_config config = cli_config(args, 0);
    struct postbag_fault why = {0};
    int code = cli_find(args);
    int err;

    if (code != CLI_OK)
        return code;
    err = postbag_admin_open(&r.admin, &config, &why);
    err = go_on_damaged(&r, err, &why);
    if (err != POSTBAG_OK)
        return cli_fail(config.db_path, &why);
    err = report(&r);
    if (err != POSTBAG_OK)
        code = cli_fail(config.db_path, postbag_admin_fault(r.admin));
    else if (r.damage[0] != '\0')
        code = cli_complain(
            CLI_ERROR, "%s: %s: run postbag doctor", config.db_path, r.damage);
    postbag_admin_close(r.admin);
    return code;
}
