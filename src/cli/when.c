/* SPDX-License-Identifier: MIT */
/* Strict where strptime is not: no blanks, no missing digits, no 31st of
 * February. */
#include "when.h"

#include <stddef.h>
#include <time.h>

/* Exactly so many digits, and no more than most; -1: something else. */
static int take_number(const char **at, int digits, int most)
{
    int n = 0;

    for (; digits > 0; digits--, ++*at) {
        if (**at < '0' || **at > '9')
            return -1;
        n = n * 10 + (**at - '0');
    }
    return n > most ? -1 : n;
}

/* One of these characters. */
static int take_one(const char **at, char a, char b)
{
    if (**at != a && **at != b)
        return -1;
    return *(*at)++ == a ? 0 : 1;
}

/* Two numbers of two digits, and what is between them, as minutes. */
static int take_clock(const char **at)
{
    int hours = take_number(at, 2, 23);
    int between = hours < 0 ? -1 : take_one(at, ':', ':');
    int minutes = between < 0 ? -1 : take_number(at, 2, 59);

    return minutes < 0 ? -1 : hours * 60 + minutes;
}

static int take_date(const char **at, int64_t *seconds)
{
    struct tm tm = {0};
    int day;

    tm.tm_year = take_number(at, 4, 9999) - 1900;
    if (tm.tm_year < -1900 || take_one(at, '-', '-') < 0)
        return -1;
    tm.tm_mon = take_number(at, 2, 12) - 1;
    if (tm.tm_mon < 0 || take_one(at, '-', '-') < 0)
        return -1;
    day = tm.tm_mday = take_number(at, 2, 31);
    *seconds = (int64_t)timegm(&tm); /* moves what the month does not have */
    return day > 0 && tm.tm_mday == day ? 0 : -1;
}

/* What is finer than a millisecond is cut off. */
static int take_fraction(const char **at)
{
    int ms = 0;
    int count = 0;

    for (; **at >= '0' && **at <= '9'; ++*at, count++)
        if (count < 3)
            ms = ms * 10 + (**at - '0');
    if (count == 0)
        return -1;
    for (; count < 3; count++)
        ms *= 10;
    return ms;
}

/* hh:mm:ss and a fraction; 60 is a leap second. */
static int take_time(const char **at, int64_t *ms)
{
    int minutes = take_clock(at);
    int seconds;
    int fraction = 0;

    if (minutes < 0 || take_one(at, ':', ':') < 0)
        return -1;
    seconds = take_number(at, 2, 60);
    if (**at == '.') {
        ++*at;
        fraction = take_fraction(at);
    }
    *ms += ((int64_t)minutes * 60 + seconds) * 1000 + fraction;
    return seconds < 0 || fraction < 0 ? -1 : 0;
}

/* Z, or how far the clock is ahead of UTC. */
static int take_offset(const char **at, int64_t *ms)
{
    int is_behind;
    int minutes;

    if (take_one(at, 'Z', 'z') >= 0)
        return 0;
    is_behind = take_one(at, '+', '-');
    if (is_behind < 0)
        return -1;
    minutes = take_clock(at);
    *ms += (is_behind ? 60000 : -60000) * (int64_t)minutes;
    return minutes < 0 ? -1 : 0;
}

int when_read(const char *text, int64_t *ms)
{
    int64_t seconds;

    if (take_date(&text, &seconds) != 0)
        return -1;
    *ms = seconds * 1000;
    if (*text == '\0')
        return 0;
    if (*text == ' ') /* as date --rfc-3339 writes it */
        ++text;
    else if (take_one(&text, 'T', 't') < 0)
        return -1;
    if (take_time(&text, ms) != 0 || take_offset(&text, ms) != 0)
        return -1;
    return *text == '\0' ? 0 : -1;
}
