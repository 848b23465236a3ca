/* SPDX-License-Identifier: MIT */
/* Episodes with all faults at once. */
#include "unit.h"

#include <inttypes.h>
#include <stdlib.h>

#include "episode.h"
#include "proof.h"

static void test_episodes_keep_all_rules(void **state)
{
    uint64_t first = getenv("POSTBAG_SEED") ? strtoull(getenv("POSTBAG_SEED"), NULL, 10) : 1;
    uint64_t n = getenv("N") ? strtoull(getenv("N"), NULL, 10) : 1;
    struct tally t = {0};

    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        episode_run(first + i, NULL, &t);
        if (t.broken[0]) {
            printf("%s\n", t.broken);
            t.broken[0] = 0;
        }
    }
    printf("episodes %" PRIu64 " steps %" PRIu64 " messages %" PRIu64 " publishes %" PRIu64 " commands %" PRIu64 "\n", t.episodes, t.steps, t.messages, t.publishes, t.commands);
    for (int i = 0; i < MARKS; i++)
        printf("%s %" PRIu64 "\n", sim_mark_names[i], t.count[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_episodes_keep_all_rules),
    };

    episode_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
