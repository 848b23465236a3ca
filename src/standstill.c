/* SPDX-License-Identifier: MIT */
/* See standstill.h. */
#include "standstill.h"

#include "postbag/postbag.h"

enum {
    LOCKED_US = 5 * 1000 * 1000,
    FAILED_US = 1000 * 1000,
    QUIET_US = 10 * 1000 * 1000
};

static enum standstill_news note_trouble(
    struct standstill *s, int64_t now_us, int err)
{
    int64_t wait_us = err == POSTBAG_EBUSY ? LOCKED_US : FAILED_US;

    if (s->err == POSTBAG_OK)
        s->since_us = now_us;
    s->err = err;
    if (s->is_told || now_us < s->quiet_us || now_us - s->since_us < wait_us)
        return STANDSTILL_SAME;
    s->is_told = 1;
    return STANDSTILL_BEGAN;
}

enum standstill_news postbag__standstill_note(
    struct standstill *s, int64_t now_us, int err, int wrote)
{
    int was_told = s->is_told;

    if (err == POSTBAG_EBUSY || err == POSTBAG_ENOSPC || err == POSTBAG_EIO)
        return note_trouble(s, now_us, err);
    if (err != POSTBAG_OK || !wrote || s->err == POSTBAG_OK)
        return STANDSTILL_SAME;
    s->err = POSTBAG_OK;
    s->is_told = 0;
    s->quiet_us = was_told ? now_us + QUIET_US : s->quiet_us;
    return was_told ? STANDSTILL_OVER : STANDSTILL_SAME;
}

const char *postbag__standstill_name(const struct standstill *s)
{
    if (!s->is_told)
        return "";
    if (s->err == POSTBAG_EBUSY)
        return "locked";
    return s->err == POSTBAG_ENOSPC ? "full" : "failing";
}
