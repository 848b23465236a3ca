/* SPDX-License-Identifier: MIT */
/*
 * Do the rules notice?  What is broken here on purpose is not the core, but
 * what it may count on, or what it is told; the core itself is broken by
 * tests/mutants.
 */
#include "unit.h"

#include "invariants.h"
#include "trials.h"

/* ---- a subscriber that is told two messages in the wrong order ---- */

static void swap_two(struct world *w)
{
    struct book *b = &w->book;

    for (int i = 0; i < b->message_count; i++)
        for (int j = i + 1; j < b->message_count; j++) {
            struct message *a = &b->messages[i];
            struct message *z = &b->messages[j];
            uint64_t place = a->first_place;

            if (a->key == 0 || a->key != z->key || a->lane != z->lane ||
                place == 0 || z->first_place == 0)
                continue;
            a->first_place = z->first_place;
            z->first_place = place;
            return;
        }
}

static void tune_swap(struct params *p, struct luck *l)
{
    (void)l;
    p->keys = 1;
    p->spoil = swap_two;
}

static void test_swapped_messages_are_noticed(void **state)
{
    (void)state;
    trials_must_break(&(struct trials){.test = __func__,
                          .row = "T10_sim",
                          .tune = tune_swap,
                          .first_seed = 200000,
                          .episodes = 2},
        "swapped_messages");
}

/* ---- a message that the broker got, and nobody knows of ---- */

static void tune_no_barrier(struct params *p, struct luck *l)
{
    (void)l;
    p->is_full_writer = 0;
    p->config.skip_sync_before_send = 1;
    p->rates[POWER_CUT] = 20;
}

static void test_normal_writer_without_the_barrier_sends_phantoms(void **state)
{
    (void)state;
    trials_must_break(&(struct trials){.test = __func__,
                          .row = "T2_sim",
                          .tune = tune_no_barrier,
                          .first_seed = 210000,
                          .episodes = 6},
        "normal_writer_no_barrier");
}

/* ---- a disk that lies ---- */

static void tune_liar(struct params *p, struct luck *l)
{
    (void)l;
    p->disk_lies = 1;
    p->rates[POWER_CUT] = 20;
}

static void test_disk_that_lies_loses_commits(void **state)
{
    (void)state;
    trials_must_break(&(struct trials){.test = __func__,
                          .row = "T2_sim",
                          .tune = tune_liar,
                          .first_seed = 220000,
                          .episodes = 3},
        "disk_that_lies");
}

/* ---- an effect too many ---- */

static void double_effect(struct world *w)
{
    for (int i = 0; i < w->book.command_count; i++)
        w->book.commands[i].effects++;
    S11_one_effect(w);
}

static void tune_double(struct params *p, struct luck *l)
{
    (void)l;
    p->max_commands = 40;
    p->spoil = double_effect;
}

static void test_second_effect_is_noticed(void **state)
{
    (void)state;
    trials_must_break(&(struct trials){.test = __func__,
                          .row = "T5_sim",
                          .tune = tune_double,
                          .first_seed = 230000,
                          .episodes = 1},
        "second_effect");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_swapped_messages_are_noticed),
        cmocka_unit_test(test_normal_writer_without_the_barrier_sends_phantoms),
        cmocka_unit_test(test_disk_that_lies_loses_commits),
        cmocka_unit_test(test_second_effect_is_noticed),
    };

    trials_filter(argc, argv);
    episode_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
