/* SPDX-License-Identifier: MIT */
/*
 * Episodes with all faults at once.  Seeds that once found a fault come first;
 * what never came up in all of them was not tried, and fails the test.
 */
#include "unit.h"

#include <inttypes.h>
#include <stdlib.h>

#include "proof.h"
#include "trials.h"

static struct tally all;

static void test_found_seeds_keep_all_rules(void **state)
{
    FILE *seeds = fopen(SIM_SEEDS, "r");
    uint64_t count = 0;
    char line[200];

    (void)state;
    assert_non_null(seeds);
    while (fgets(line, sizeof(line), seeds) != NULL) {
        struct tally one = {0};

        if (line[0] < '0' || line[0] > '9')
            continue;
        episode_run(strtoull(line, NULL, 10), NULL, &one);
        if (one.broken[0] != '\0')
            fail_msg("%s", one.broken);
        count++;
    }
    (void)fclose(seeds);
    (void)printf("%" PRIu64 " found seeds\n", count);
}

static void test_episodes_keep_all_rules(void **state)
{
    (void)state;
    all = trials_run(&(struct trials){.test = __func__,
        .row = "S_episodes",
        .first_seed = 1,
        .episodes = 60,
        .marks = {QUIET, MARKS}});
    if (getenv("POSTBAG_SEED") == NULL)
        proof_say("S_steps", all.steps, 1, all.episodes);
}

static int missing(uint64_t least)
{
    int count = 0;

    for (int i = 0; i < MARKS; i++)
        count += all.count[i] < least;
    return count;
}

/* D4.  What is rare gets some lives more. */
static void test_everything_came_up(void **state)
{
    uint64_t least = getenv("POSTBAG_PROVE") != NULL ? 100 : 1;
    uint64_t most = all.episodes * 4;

    (void)state;
    if (getenv("POSTBAG_SEED") != NULL)
        return;
    while (missing(least) > 0 && all.episodes < most)
        episode_run(1 + all.episodes, NULL, &all);
    for (int i = 0; i < MARKS; i++)
        (void)printf("%7" PRIu64 "  %s\n", all.count[i], sim_mark_texts[i]);
    assert_string_equal(all.broken, "");
    assert_int_equal(missing(least), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_seeds_keep_all_rules),
        cmocka_unit_test(test_episodes_keep_all_rules),
        cmocka_unit_test(test_everything_came_up),
    };

    trials_filter(argc, argv);
    episode_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
