/* SPDX-License-Identifier: MIT */
/* Numbers as people read them. */
#include "out.h"

#include <time.h>

const char *words_time(struct words *buf, int64_t ms)
{
    /* rounded down, also before 1970 */
    const time_t seconds = (time_t)(ms / 1000 - (ms % 1000 < 0));
    const int rest = (int)((ms % 1000 + 1000) % 1000);
    struct tm parts;
    char date[24];

    if (ms == 0 || gmtime_r(&seconds, &parts) == NULL ||
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts) == 0)
        (void)snprintf(buf->text, sizeof(buf->text), "-");
    else
        (void)snprintf(buf->text, sizeof(buf->text), "%s.%03dZ", date, rest);
    return buf->text;
}

const char *words_span(struct words *buf, int64_t ms)
{
    static const struct {
        int64_t seconds;
        const char *name, *small;
        int64_t per;
    } units[] = {
        {86400, "d", "h", 3600},
        {3600, "h", "m", 60},
        {60, "m", "s", 1},
    };
    int64_t s = ms / 1000;

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (s >= units[i].seconds) {
            (void)snprintf(buf->text, sizeof(buf->text), "%lld %s %lld %s",
                (long long)(s / units[i].seconds), units[i].name,
                (long long)(s % units[i].seconds / units[i].per),
                units[i].small);
            return buf->text;
        }
    (void)snprintf(buf->text, sizeof(buf->text), "%lld.%lld s", (long long)s,
        (long long)(ms % 1000 / 100));
    return buf->text;
}

const char *words_bytes(struct words *buf, int64_t n)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)n / 1024;
    size_t i = 0;

    if (n < 1024) {
        (void)snprintf(buf->text, sizeof(buf->text), "%lld B", (long long)n);
        return buf->text;
    }
    for (; value >= 1024 && i < 3; i++)
        value /= 1024;
    (void)snprintf(buf->text, sizeof(buf->text), "%.1f %s", value, units[i]);
    return buf->text;
}

const char *words_rate(struct words *buf, int64_t per_1000_s)
{
    if (per_1000_s < 0)
        (void)snprintf(buf->text, sizeof(buf->text), "unknown");
    else
        (void)snprintf(
            buf->text, sizeof(buf->text), "%.1f/s", (double)per_1000_s / 1000);
    return buf->text;
}
