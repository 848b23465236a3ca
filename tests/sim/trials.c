/* SPDX-License-Identifier: MIT */
/* See trials.h. */
#include "unit.h"

#include "trials.h"

#include <inttypes.h>
#include <stdlib.h>

#include "proof.h"

static const char *program = "sim";

static uint64_t times(void)
{
    if (getenv("POSTBAG_PROVE") != NULL)
        return 40;
    return getenv("POSTBAG_FULL") != NULL ? 2 : 1;
}

static void fail_with(const struct trials *t, uint64_t seed, const char *what)
{
    (void)printf("%s\nplay it again: POSTBAG_SEED=%" PRIu64 " %s %s\n", what,
        seed, program, t->test);
    (void)fflush(stdout);
    fail_msg("%s", what);
}

static void run_one(const struct trials *t, uint64_t seed, struct tally *all)
{
    struct tally again = {0};

    episode_run(seed, t->tune, all);
    if (all->broken[0] != '\0')
        fail_with(t, seed, all->broken);
    if (seed % 8 != 0)
        return;
    episode_run(seed, t->tune, &again);
    if (again.hash != all->hash)
        fail_with(t, seed, "D1: the same seed has another trace");
}

struct tally trials_run(const struct trials *t)
{
    const char *only = getenv("POSTBAG_SEED");
    uint64_t first = only == NULL ? t->first_seed : strtoull(only, NULL, 10);
    uint64_t count = only == NULL ? t->episodes * times() : 1;
    struct tally all = {0};
    uint64_t trials = 0;

    for (uint64_t i = 0; i < count; i++)
        run_one(t, first + i, &all);
    for (int i = 0; t->marks[i] != MARKS; i++)
        trials += all.count[t->marks[i]];
    if (only == NULL && trials == 0)
        fail_msg("%s was never tried", t->test);
    if (only == NULL && t->row != NULL)
        proof_say(t->row, trials, first, first + count - 1);
    (void)printf("%" PRIu64 " episodes, %" PRIu64 " steps, %" PRIu64
                 " messages, %" PRIu64 " packets, %" PRIu64 " commands\n",
        all.episodes, all.steps, all.messages, all.publishes, all.commands);
    return all;
}

void trials_must_break(const struct trials *t, const char *control)
{
    uint64_t count = t->episodes * times();
    uint64_t hits = 0;

    for (uint64_t i = 0; i < count; i++) {
        struct tally one = {0};

        episode_run(t->first_seed + i, t->tune, &one);
        hits += one.broken[0] != '\0';
    }
    proof_control(t->row, control, hits, count);
    assert_int_not_equal(hits, 0);
}

void trials_filter(int argc, char **argv)
{
    program = argv[0];
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
}
