/* SPDX-License-Identifier: MIT */
/* Without libc's gmtime, which has state, and for years 1..9999. */
#include "rfc3339.h"

#include <stdio.h>

enum { DAY_S = 86400 };

struct date {
    unsigned year, month, day;
};

/*
 * Days since 1970-01-01 to a date of the Gregorian calendar.  Years are
 * counted from March, so that the leap day is the last of a year, in
 * 400-year eras of 146,097 days.
 */
static struct date date_of(int64_t days)
{
    int64_t shifted = days + 719468; /* since 0000-03-01 */
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    int64_t in_era = shifted - era * 146097;
    int64_t year =
        (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * in_year + 2) / 153; /* 0 = March */
    struct date d;

    d.day = (unsigned)(in_year - (153 * month + 2) / 5 + 1);
    d.month = (unsigned)(month < 10 ? month + 3 : month - 9);
    d.year = (unsigned)(year + era * 400 + (d.month <= 2));
    return d;
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

void postbag__rfc3339(int64_t wall_ms, char out[RFC3339_SIZE])
{
    static const int64_t latest = 253402300799999;   /* the end of 9999 */
    static const int64_t earliest = -62135596800000; /* the start of 1 */
    int64_t ms = wall_ms > latest ? latest : wall_ms;
    int64_t s;
    int64_t days;
    unsigned clock;
    struct date d;

    if (ms < earliest)
        ms = earliest;
    s = floor_divide(ms, 1000);
    days = floor_divide(s, DAY_S);
    clock = (unsigned)(s - days * DAY_S);
    d = date_of(days);
    /* the remainders change nothing; they tell the compiler the widths */
    (void)snprintf(out, RFC3339_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
        d.year % 10000, d.month % 100, d.day % 100, clock / 3600 % 100,
        clock / 60 % 60, clock % 60, (unsigned)(ms - s * 1000) % 1000);
}
