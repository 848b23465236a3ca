/* SPDX-License-Identifier: MIT */
/*
 * What a relay knows and the database does not: read from the file that it
 * replaces in run_dir, and from the lock that it holds while it lives.
 */
#ifndef POSTBAG_CLI_LIVE_H
#define POSTBAG_CLI_LIVE_H

#include <stdint.h>

#include "postbag/admin.h"

enum relay_life { RELAY_UNKNOWN, RELAY_STOPPED, RELAY_RUNS };

struct live {
    int is_known;     /* the file is there, of this boot, of the owner */
    char link[16];    /* "up", "connecting", "down" */
    char inbound[16]; /* also "off" */
    char error[280];  /* why the link is down */
    char stalled[16]; /* why nothing can be saved; "": it can */
    int64_t link_attempts, next_try_ms, in_flight, last_puback_ms;
    int64_t rate_milli; /* delivered per 1000 s */
    int64_t wal_frames, accepted, duplicates, nacks;
    int64_t server;    /* 1 is the first; 0: not up */
    int64_t held_full; /* no more may be held */
    int64_t bulk_rate, bulk_bytes_rate, pace_all;            /* the options */
    int64_t own_certificate_end_s, server_certificate_end_s; /* 0: unknown */
};

/* Without a file, or with one that cannot be read, is_known is 0. */
void live_read(struct live *out, const char *path);

/* Does a process own the destination?  Asks for the lock without taking it. */
int live_relay(const char *db_path, const char *dest);
/* Any destination, without asking the database which there are. */
int live_any_relay(const char *db_path);

#endif
