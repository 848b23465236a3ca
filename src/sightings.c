/* SPDX-License-Identifier: MIT */
/* See sightings.h. */
#include "sightings.h"

#include <string.h>

static int is_of_boot(const struct moment *at, const struct moment *now)
{
    return memcmp(at->boot, now->boot, sizeof(now->boot)) == 0;
}

static int64_t since_ms(const struct moment *at, const struct moment *now)
{
    if (is_of_boot(at, now))
        return now->mono_ms - at->mono_ms;
    if (at->wall_ms < POSTBAG__CLOCK_IS_SET_MS || now->wall_ms < at->wall_ms)
        return 0;
    return now->wall_ms - at->wall_ms;
}

static void take_out(struct sightings *s, int i)
{
    s->count--;
    memmove(&s->list[i], &s->list[i + 1],
        sizeof(s->list[0]) * (size_t)(s->count - i));
}

static int64_t age_of(
    const struct sightings *s, int i, const struct moment *now)
{
    return i < s->count ? since_ms(&s->list[i].at, now) : 0;
}

/* How much younger than they may be would the rows of a mark seem without it,
 * in thousandths?  The oldest of them came right after the mark before.  Before
 * the first mark nobody knows, so it stays. */
static int64_t loss_of(
    const struct sightings *s, int i, const struct moment *now)
{
    int64_t next = age_of(s, i + 1, now);
    int64_t oldest;

    if (age_of(s, i, now) <= next)
        return 0;
    if (i == 0)
        return 1000;
    oldest = age_of(s, i - 1, now);
    return oldest > 0 && oldest > next ? (oldest - next) * 1000 / oldest : 0;
}

static void thin_out(struct sightings *s, const struct moment *now)
{
    int64_t least = INT64_MAX;
    int at = 0;

    for (int i = 0; i < s->count; i++) {
        int64_t loss = loss_of(s, i, now);

        if (loss < least) {
            least = loss;
            at = i;
        }
    }
    take_out(s, at);
}

void postbag__sightings_add(
    struct sightings *s, int64_t seq, const struct moment *now)
{
    if (s->count == SIGHTINGS)
        thin_out(s, now);
    s->list[s->count].seq = seq;
    s->list[s->count].at = *now;
    s->count++;
}

static int is_of_use(const struct sightings *s, int i, const struct askers *who)
{
    const struct sighting *mark = &s->list[i];

    if (mark->seq > who->settled)
        return 1;
    if (who->first_held == 0 || mark->seq < who->first_held)
        return 0;
    /* held rows are as old as the first mark that covers all of them says */
    for (int j = 0; j < i; j++)
        if (s->list[j].seq >= who->last_held &&
            is_of_boot(&s->list[j].at, &mark->at))
            return 0;
    return 1;
}

int postbag__sightings_forget(struct sightings *s, const struct askers *who)
{
    int is_newest = 0;

    for (int i = s->count - 1; i >= 0; i--)
        if (!is_of_use(s, i, who)) {
            is_newest |= i == s->count - 1;
            take_out(s, i);
        }
    return is_newest;
}

int postbag__sightings_put_right(struct sightings *s, const struct moment *now)
{
    int changed = 0;

    for (int i = 0; i < s->count; i++) {
        struct moment *at = &s->list[i].at;
        int64_t wall_ms = postbag__moment_wall_ms(at, now);

        changed |= wall_ms != 0 && wall_ms != at->wall_ms;
        if (wall_ms != 0)
            at->wall_ms = wall_ms;
    }
    return changed;
}

int64_t postbag__sightings_newest(
    const struct sightings *s, const struct moment *now)
{
    if (s->count == 0 || !is_of_boot(&s->list[s->count - 1].at, now))
        return 0;
    return s->list[s->count - 1].seq;
}

int64_t postbag__sightings_age_ms(
    const struct sightings *s, int64_t seq, const struct moment *now)
{
    int64_t most = 0;

    for (int i = 0; i < s->count; i++) {
        int64_t age = since_ms(&s->list[i].at, now);

        if (s->list[i].seq >= seq && age > most)
            most = age;
    }
    return most;
}
