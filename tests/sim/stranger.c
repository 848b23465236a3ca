/* SPDX-License-Identifier: MIT */
/* Another program that reads, or writes, and takes its time. */
#include <sqlite3.h>
#include <stddef.h>

#include "memdisk.h"
#include "world.h"

void stranger_begin(struct world *w, enum sim_mark fault)
{
    const char *sql = fault == LONG_LOCK ? "BEGIN IMMEDIATE"
                                         : "BEGIN; SELECT count(*) FROM outbox";

    if (w->stranger != NULL || w->seen.db == NULL)
        return;
    memdisk_process(w->disk, ++w->next_number);
    if (sqlite3_open_v2(world_db(w), &w->stranger, SQLITE_OPEN_READWRITE,
            NULL) != SQLITE_OK ||
        sqlite3_exec(w->stranger, sql, NULL, NULL, NULL) != SQLITE_OK) {
        stranger_leave(w);
        return;
    }
    w->stranger_until_us = w->now_us + luck_between(&w->luck, 1, 8000) * 1000;
    happened(w, fault);
    say(w, "stranger: %s", sim_mark_texts[fault]);
}

void stranger_leave(struct world *w)
{
    (void)sqlite3_close_v2(w->stranger);
    w->stranger = NULL;
}

void stranger_end(struct world *w)
{
    if (w->stranger == NULL ||
        (w->now_us < w->stranger_until_us && !w->is_healed))
        return;
    say(w, "stranger leaves");
    stranger_leave(w);
}
