/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  Is it a message that ends the process?  Pure: what was found at
 * the start and what happens goes in; what must be written before a send comes
 * out.
 *
 * A mark says how often the process will have ended with a row in flight, and
 * without a PUBACK, if it ends now.  After an end that was not orderly the
 * first row of each lane is marked, and the first held one.  Found with two
 * ends or more: one row at a time, each marked, until as many as fit a window
 * are answered, or all that may have been in flight.  At five ends the row is
 * suspect: held, and tried only when the connection works without it.
 */
#ifndef POSTBAG_SRC_TRIAL_H
#define POSTBAG_SRC_TRIAL_H

#include <stdint.h>

/* Marks: one for each lane, one for the held rows. */
enum { TRIAL_HELD = 4, TRIAL_MARKS = 5 };
/* So many ends in company, and three more alone. */
enum { TRIAL_COMPANY = 2, TRIAL_SUSPECT = 5 };

struct trial_mark {
    int64_t upto;  /* rows up to here may have been in flight; 0: none */
    int64_t seq;   /* the row that is counted; 0: none */
    int deaths;    /* of that row, should the process end now */
    int is_flying; /* the one that may come is counted in */
    int is_owed;   /* not in the database yet */
    int is_open;   /* no row was answered since the start */
};

struct trial {
    struct trial_mark marks[TRIAL_MARKS];
    uint32_t left; /* rows still to be answered one at a time */
    int by_held;   /* a held row is the reason: not over with the lanes */
};

/* The last owner did not end in order: rows up to upto may have been in flight.
 * seq, deaths: what it wrote; 0: nothing. */
void postbag__trial_open(
    struct trial *t, int which, int64_t upto, int64_t seq, int deaths);
/* All marks are known.  One row at a time, if one of them says so. */
void postbag__trial_begin(struct trial *t, uint32_t window);
/* Nothing but this row may be in flight. */
int postbag__trial_is_alone(int deaths);
int postbag__trial_is_suspect(int deaths);
int postbag__trial_is_guilty(int deaths, uint32_t max_attempts);

/* What the mark says of this row, but for the end that has not come yet. */
int postbag__trial_deaths(const struct trial *t, int which, int64_t seq);
/* This row is sent next, found with so many deaths.  charge: 1, or 0 if the
 * end of the process would prove nothing. */
void postbag__trial_sends(
    struct trial *t, int which, int64_t seq, int deaths, int charge);
/* The broker answered it: harmless. */
void postbag__trial_answered(struct trial *t, int which, int64_t seq);
/* The connection ended, and we live: what was in flight did not end us. */
void postbag__trial_lost(struct trial *t);
/* The lane's cursor, saved. */
void postbag__trial_passed(struct trial *t, int lane, int64_t acked);
/* Marks must be written before the next send. */
int postbag__trial_owes(const struct trial *t);
void postbag__trial_saved(struct trial *t);
/* One row at a time? */
int postbag__trial_isolates(const struct trial *t);

#endif
