/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  The live state: what the relay knows and the database does not,
 * as key=value lines in a small file on a RAM disk.  At most once a second,
 * and only if something changed.
 */
#ifndef POSTBAG_SRC_LIVE_H
#define POSTBAG_SRC_LIVE_H

#include "log.h"
#include "postbag/port.h"

struct live_facts {
    int is_owner;
    int is_held_full;           /* held_max_rows or held_max_bytes is reached */
    const char *link, *inbound; /* names of states */
    const char *error;          /* of the link; "" for none */
    const char *stalled;        /* why nothing can be saved; "": it can */
    uint32_t link_attempts, in_flight, delivered;
    uint32_t accepted, duplicates, nacks;
    uint32_t bulk_rate, bulk_bytes_rate, pace_all; /* the options */
    uint32_t server; /* of the link that is up; 1 is the first, 0: not up */
    int64_t own_certificate_end_s, server_certificate_end_s; /* 0: unknown */
    int64_t next_try_ms, last_puback_ms, put_seq, wal_frames;
};

struct live {
    const struct postbag_port *port;
    char path[320];
    char text[1320], last[1320];
    char boot[33];
    int64_t next_us;    /* not before */
    uint32_t rate_from; /* delivered at the start of the rate's interval */
    int64_t rate_us;    /* when that was */
    int64_t rate_milli; /* messages per 1000 s; -1: not measured yet */
    int is_off;
};

/* run_dir "none": off.  ETOOBIG: the path is too long. */
POSTBAG_CHECK int postbag__live_open(struct live *l,
    const struct postbag_port *port, const char *run_dir, const char *db_path,
    const char *dest);
/* Write if due and changed.  An error is told once and then the file is left
 * alone for a minute: a read-only /run is no reason to stop relaying. */
void postbag__live_step(struct live *l, const struct log *log, int64_t now_us,
    const struct live_facts *facts);
/* While a write must wait: when it need no longer.  Else never. */
int64_t postbag__live_deadline(const struct live *l, int64_t now_us);

#endif
