/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  Since when rows are there, as far as the relay has seen it: the age
 * of those whose own stamps do not tell it.  A few marks, each of which says
 * that the rows up to a seq were there at a moment.
 *
 * When there are too many, the one goes that is missed least: marks thin out
 * with age, and a row of any age is taken for younger by a small part of it,
 * never for older.  Pure.
 */
#ifndef POSTBAG_SRC_SIGHTINGS_H
#define POSTBAG_SRC_SIGHTINGS_H

#include "moment.h"

enum { SIGHTINGS = 64 };

struct sighting {
    int64_t seq;
    struct moment at;
};

struct sightings {
    struct sighting list[SIGHTINGS]; /* in order of time */
    int count;
};

/* The rows up to seq are there now. */
void postbag__sightings_add(
    struct sightings *s, int64_t seq, const struct moment *now);
/* Which rows may ask: all behind settled; of those before, some from first_held
 * to last_held, 0: none. */
struct askers {
    int64_t settled, first_held, last_held;
};
/* Marks that tell none of them more than an older one does are forgotten.
 * 1: the newest was such a one. */
int postbag__sightings_forget(struct sightings *s, const struct askers *who);
/* Marks of this boot from before the clock was set get the time that it then
 * was, so that another boot can use them.  1: there were such. */
int postbag__sightings_put_right(struct sightings *s, const struct moment *now);
/* Up to which seq rows were seen in this boot; 0: none. */
int64_t postbag__sightings_newest(
    const struct sightings *s, const struct moment *now);
/*
 * How long ago the row was there, at least: by CLOCK_BOOTTIME since it was seen
 * in this boot, by the wall clock since it was in another, if that clock was
 * set then and is now.
 */
int64_t postbag__sightings_age_ms(
    const struct sightings *s, int64_t seq, const struct moment *now);

#endif
