/* SPDX-License-Identifier: MIT */
/*
 * One life of a device, all of it from one seed: parameters are drawn, then
 * comes chaos, then all faults end and everything must come to rest, with each
 * message sent and each command done.
 */
#ifndef POSTBAG_SIM_EPISODE_H
#define POSTBAG_SIM_EPISODE_H

#include "world.h"

/* What a test turns the parameters towards.  NULL: nothing. */
typedef void (*episode_tune)(struct params *p, struct luck *luck);

/* What came of some episodes. */
struct tally {
    uint64_t episodes, steps, messages, publishes, commands;
    uint64_t stood, sent_before_healed, waited_before_healed;
    uint64_t count[MARKS];
    uint64_t hash; /* of the last trace */
    char broken[400];
};

/* What their programs do first. */
void episode_install(void);
/* One; adds to the tally, and tells what was broken if something was. */
void episode_run(uint64_t seed, episode_tune tune, struct tally *tally);

#endif
