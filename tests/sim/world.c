/* SPDX-License-Identifier: MIT */
/* See world.h. */
#include "world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "memdisk.h"

void say(struct world *w, const char *format, ...)
{
    char line[512];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    for (int i = 0; i < len && i < (int)sizeof(line) - 1; i++)
        w->hash = (w->hash ^ (uint8_t)line[i]) * UINT64_C(1099511628211);
    if (w->is_traced)
        (void)printf("%6" PRIu64 " %10.3f  %s\n", w->steps,
            (double)w->now_us / 1e6, line);
}

void broken(struct world *w, const char *rule, const char *format, ...)
{
    char what[300];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    say(w, "BROKEN %s: %s", rule, what);
    if (w->broken[0] == '\0')
        (void)snprintf(w->broken, sizeof(w->broken),
            "seed %" PRIu64 ", step %" PRIu64 ": %s: %s", w->seed, w->steps,
            rule, what);
}

int strikes(struct world *w, enum sim_mark fault)
{
    return !w->is_healed && luck_hits(&w->luck, w->p.rates[fault]);
}

void happened(struct world *w, enum sim_mark what)
{
    w->count[what]++;
}

const char *world_db(struct world *w)
{
    return memdisk_path(w->disk, "device.db");
}

int64_t world_wall_ms(void *ctx)
{
    const struct world *w = ctx;

    return w->now_us / 1000 + w->wall_offset_ms;
}

/* Without a battery the clock begins in 1970; time passes while it is off. */
void world_cut(struct world *w)
{
    w->is_cutting = 0;
    for (int i = 0; i < PROCESSES; i++)
        (void)process_bury(&w->processes[i]);
    look_close(w);
    stranger_leave(w);
    w->must_look_at_all = 1;
    w->now_us += luck_between(&w->luck, 1, 60000) * 1000;
    w->boot_us = w->now_us - luck_between(&w->luck, 1000, 20000) * 1000;
    w->boot++;
    w->disruptions++;
    if (luck_hits(&w->luck, 300))
        w->wall_offset_ms = -w->now_us / 1000 + 5000;
    say(w, "boot %u", w->boot);
}
