/* SPDX-License-Identifier: MIT */
/* See alarm.h.  Engine thread. */
#include "alarm.h"

#include "level.h"

enum { LOOK_US = 100 * 1000, DISK_US = 1000 * 1000 };

int postbag__alarm_open(
    struct alarm *a, struct db *db, const struct postbag_config *config)
{
    a->config = config;
    a->is_due = 1;
    return config->on_pressure == NULL
               ? POSTBAG_OK
               : postbag__gauge_open(&a->gauge, db, config->port);
}

void postbag__alarm_close(struct alarm *a)
{
    postbag__gauge_close(&a->gauge);
}

static int64_t largest(const struct postbag_pressure *p)
{
    int64_t fill = p->rows_fill > p->bytes_fill ? p->rows_fill : p->bytes_fill;

    return p->free_fill > fill ? p->free_fill : fill;
}

/* The disk fills without us, so it is looked at when the engine comes by. */
static int is_time(const struct alarm *a, int64_t now_us)
{
    if (now_us < a->next_us)
        return 0;
    return a->is_due || now_us >= a->next_us + DISK_US - LOOK_US;
}

int postbag__alarm_step(struct alarm *a, int64_t now_us, int did_change)
{
    struct postbag_pressure p = {.struct_size = sizeof(p)};
    int level;
    int err;

    if (a->config->on_pressure == NULL)
        return POSTBAG_OK;
    a->is_due |= did_change;
    if (!is_time(a, now_us))
        return POSTBAG_OK;
    a->next_us = now_us + LOOK_US;
    err = postbag__gauge_read(&a->gauge, &p);
    if (err != POSTBAG_OK)
        return err;
    a->is_due = 0;
    level = postbag__level(a->level, largest(&p));
    if (level == a->level)
        return POSTBAG_OK;
    a->level = level;
    a->config->on_pressure(a->config->pressure_ctx, level, &p);
    return POSTBAG_OK;
}

int64_t postbag__alarm_deadline(const struct alarm *a)
{
    return a->config->on_pressure != NULL && a->is_due ? a->next_us : INT64_MAX;
}
