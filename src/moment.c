/* SPDX-License-Identifier: MIT */
/* See moment.h. */
#include "moment.h"

#include <string.h>

#include "postbag/port.h"

struct moment postbag__moment_at(
    const struct postbag_port *port, const uint8_t boot[16], int64_t now_us)
{
    struct moment now = {
        .wall_ms = port->wall_ms(port->ctx), .mono_ms = now_us / 1000};

    memcpy(now.boot, boot, sizeof(now.boot));
    return now;
}

struct moment postbag__moment_now(
    const struct postbag_port *port, const uint8_t boot[16])
{
    return postbag__moment_at(port, boot, port->mono_us(port->ctx));
}

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

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t postbag__moment_age_ms(
    const struct moment *then, const struct moment *now)
{
    int64_t by_wall = then->wall_ms >= POSTBAG__CLOCK_IS_SET_MS &&
                              now->wall_ms >= POSTBAG__CLOCK_IS_SET_MS
                          ? now->wall_ms - then->wall_ms
                          : 0;

    if (then->mono_ms <= 0)
        return later(by_wall, 0);
    if (memcmp(then->boot, now->boot, sizeof(now->boot)) == 0)
        return later(now->mono_ms - then->mono_ms, 0);
    return later(by_wall, now->mono_ms);
}

int64_t postbag__moment_furthest(int64_t now_ms, int64_t most_ms)
{
    return now_ms > INT64_MAX - most_ms ? INT64_MAX : now_ms + most_ms;
}
