/* SPDX-License-Identifier: MIT */
/* See live.h.  Engine thread. */
#include "live.h"

#include <stdio.h>
#include <string.h>

#include "live_path.h"

enum { EVERY_US = 1000 * 1000, TROUBLE_US = 60 * 1000 * 1000 };
enum { RATE_US = 10 * 1000 * 1000 };

int postbag__live_open(struct live *l, const struct postbag_port *port,
    const char *run_dir, const char *db_path, const char *dest)
{
    uint8_t boot[16];
    int err = port->boot_id(port->ctx, boot);

    memset(l, 0, sizeof(*l));
    l->port = port;
    l->rate_milli = -1; /* not measured yet */
    l->is_off = strcmp(run_dir, "none") == 0;
    if (err != POSTBAG_OK || l->is_off)
        return err;
    for (size_t i = 0; i < sizeof(boot); i++)
        (void)snprintf(l->boot + 2 * i, 3, "%02x", (unsigned)boot[i]);
    return postbag__live_path(run_dir, db_path, dest, l->path, sizeof(l->path));
}

static void measure_rate(struct live *l, int64_t now_us, uint32_t delivered)
{
    int64_t span = now_us - l->rate_us;

    if (span < RATE_US)
        return;
    if (l->rate_us != 0)
        l->rate_milli = (int64_t)((uint64_t)(delivered - l->rate_from) * 1000u *
                                  1000000u / (uint64_t)span);
    l->rate_us = now_us;
    l->rate_from = delivered;
}

/* All but the time stamp, so that only news is written. */
static void describe(struct live *l, const struct live_facts *f)
{
    (void)snprintf(l->text, sizeof(l->text),
        "boot=%s\nrole=%s\nlink=%s\nlink_attempts=%lu\nnext_try_ms=%lld\n"
        "in_flight=%lu\nlast_puback_ms=%lld\ndelivered=%lu\nput_seq=%lld\n"
        "rate_delivered_milli=%lld\nerror=%s\ninbound=%s\nwal_frames=%lld\n"
        "accepted=%lu\nduplicates=%lu\nnacks=%lu\nserver=%lu\n"
        "own_certificate_end_s=%lld\nserver_certificate_end_s=%lld\n"
        "held_full=%d\nstalled=%s\n"
        "bulk_rate=%lu\nbulk_bytes_rate=%lu\npace_all=%lu\n",
        l->boot, f->is_owner ? "owner" : "standby", f->link,
        (unsigned long)f->link_attempts, (long long)f->next_try_ms,
        (unsigned long)f->in_flight, (long long)f->last_puback_ms,
        (unsigned long)f->delivered, (long long)f->put_seq,
        (long long)l->rate_milli, f->error, f->inbound,
        (long long)f->wal_frames, (unsigned long)f->accepted,
        (unsigned long)f->duplicates, (unsigned long)f->nacks,
        (unsigned long)f->server, (long long)f->own_certificate_end_s,
        (long long)f->server_certificate_end_s, f->is_held_full != 0,
        f->stalled, (unsigned long)f->bulk_rate,
        (unsigned long)f->bulk_bytes_rate, (unsigned long)f->pace_all);
}

void postbag__live_step(struct live *l, const struct log *log, int64_t now_us,
    const struct live_facts *facts)
{
    char file[1390];
    int len;
    int err;

    if (l->is_off || now_us < l->next_us)
        return;
    measure_rate(l, now_us, facts->delivered);
    describe(l, facts);
    if (strcmp(l->text, l->last) == 0)
        return;
    len = snprintf(file, sizeof(file), "mono_ms=%lld\n%s",
        (long long)(now_us / 1000), l->text);
    err = l->port->replace_file(l->port->ctx, l->path, file, (size_t)len);
    l->next_us = now_us + EVERY_US;
    if (err == POSTBAG_OK) {
        memcpy(l->last, l->text, sizeof(l->last));
        return;
    }
    l->next_us = now_us + TROUBLE_US;
    postbag__log(log, POSTBAG_LOG_WARNING, err,
        "the live state cannot be written to %s", l->path);
}

/* Whether there is news then, the step will see; it looks at no facts before
 * it may write. */
int64_t postbag__live_deadline(const struct live *l, int64_t now_us)
{
    return !l->is_off && l->next_us > now_us ? l->next_us : INT64_MAX;
}
