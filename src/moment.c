/* SPDX-License-Identifier: MIT */
/* See moment.h.  Pure. */
#include "moment.h"

#include <string.h>

int64_t postbag__moment_wall_ms(
    const struct moment *then, const struct moment *now)
{
    if (then->wall_ms >= POSTBAG__CLOCK_IS_SET_MS)
        return then->wall_ms;
    if (now->wall_ms < POSTBAG__CLOCK_IS_SET_MS || then->mono_ms <= 0 ||
        then->mono_ms > now->mono_ms ||
        memcmp(then->boot, now->boot, sizeof(now->boot)) != 0)
        return 0;
    return now->wall_ms - (now->mono_ms - then->mono_ms);
}
