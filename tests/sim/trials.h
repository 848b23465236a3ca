/* SPDX-License-Identifier: MIT */
/*
 * So many episodes of one kind as a test case.  The first rule that is broken
 * fails it, with the one command that plays this episode again;
 * POSTBAG_SIM_TRACE=1 before it prints what happens.
 */
#ifndef POSTBAG_SIM_TRIALS_H
#define POSTBAG_SIM_TRIALS_H

#include "episode.h"

struct trials {
    const char *test; /* its name, for the command */
    const char *row;  /* of the table of proofs; NULL: none */
    episode_tune tune;
    uint64_t first_seed;
    uint64_t episodes; /* in the small size */
    /* what is counted as a trial; ends with MARKS */
    enum sim_mark marks[5];
};

/* Runs them, each eighth twice for the same trace. */
struct tally trials_run(const struct trials *t);
/* Of a control: how many of the episodes break a rule, which must be so. */
void trials_must_break(const struct trials *t, const char *control);
/* Only the test of this name, if one is given, as the command does. */
void trials_filter(int argc, char **argv);

#endif
