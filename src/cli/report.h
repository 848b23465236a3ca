/* SPDX-License-Identifier: MIT */
/* What the command status shows: gathered in one file, told in two ways. */
#ifndef POSTBAG_CLI_REPORT_H
#define POSTBAG_CLI_REPORT_H

#include "cli.h"
#include "live.h"
#include "out.h"

struct report {
    const struct args *args;
    struct postbag_admin *admin;
    struct json json;
    struct postbag_database database;
    int has_database; /* else it cannot be read */
    char damage[280]; /* what was said of it; "": all could be read */
    /* of the destination at hand */
    const char *dest;
    struct postbag_status status;
    int has_status; /* else it cannot be read */
    struct live live;
    int relay; /* enum relay_life */
};

const char *report_lease_name(int lease);
const char *report_relay_name(int relay);
const char *report_run_dir(const struct report *r);
/* The file of a relay that was killed says what was. */
int report_link_is_known(const struct report *r);
const char *report_link_name(const struct report *r);
/* Per 1000 s; -1: not known. */
int64_t report_drain_rate(const struct report *r);
/* Till nothing is pending if both rates stay; -1: not known, or never. */
int64_t report_empty_in_ms(const struct report *r);

void report_database_json(struct report *r);
void report_dest_json(struct report *r);
void report_database_plain(const struct report *r);
void report_dest_plain(const struct report *r);

#endif
