/* SPDX-License-Identifier: MIT */
/* See watch.h.  Engine thread. */
#include "watch.h"

#include <string.h>

#include "postbag/port.h"

enum { FIRST_STEP_US = 200, LAST_STEP_US = 100 * 1000, SEARCH_US = 1000000 };

int postbag__watch_open(struct watch *w, struct db *db, uint32_t poll_ms)
{
    memset(w, 0, sizeof(*w));
    w->poll_us = (int64_t)poll_ms * 1000;
    w->version = -1;
    return postbag__prepare(db, &w->version_pragma, "PRAGMA data_version");
}

void postbag__watch_close(struct watch *w)
{
    postbag__finalize(&w->version_pragma);
}

/* A move ends the search, but not the one that an event of this very step
 * began: it may be of the commit before, and the event of one still to come. */
static void plan(struct watch *w, int64_t now_us, int moved)
{
    if (moved)
        w->until_us = 0;
    if (now_us < w->until_us) {
        w->next_us = now_us + w->step_us;
        w->step_us *= 2;
        if (w->step_us > LAST_STEP_US)
            w->step_us = LAST_STEP_US;
        return;
    }
    w->next_us = now_us + w->poll_us;
}

int postbag__watch_step(
    struct watch *w, int64_t now_us, unsigned reasons, int *changed_out)
{
    int64_t version;
    int err;

    *changed_out = 0;
    if (reasons & POSTBAG_FILE_CHANGED) {
        w->until_us = now_us + SEARCH_US;
        w->step_us = FIRST_STEP_US;
    } else if (!(reasons & POSTBAG_WOKEN) && now_us < w->next_us) {
        return POSTBAG_OK;
    }
    err = postbag__data_version(&w->version_pragma, &version);
    if (err != POSTBAG_OK)
        return err;
    *changed_out = version != w->version;
    w->version = version;
    plan(w, now_us, *changed_out && !(reasons & POSTBAG_FILE_CHANGED));
    return POSTBAG_OK;
}

void postbag__watch_forget(struct watch *w, int64_t at_us)
{
    w->version = -1;
    w->next_us = at_us;
}

int64_t postbag__watch_deadline(const struct watch *w)
{
    return w->next_us;
}
