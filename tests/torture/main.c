/* SPDX-License-Identifier: MIT */
/*
 * The loop of every program: each life, each blow, k = 1, 2 ... until the act
 * runs without one that fails, once and for good.
 *
 *   (default)        the first k, then fewer and fewer; a life has not every
 *                    blow
 *   POSTBAG_FULL=1   more blows in each life
 *   POSTBAG_PROVE=1  every blow, once and for good at each k up to 100, then
 *                    at every twentieth part more
 *
 * Lives named on the command line are the only ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contract.h"
#include "proof.h"
#include "torture.h"

enum { LIVES = 96, MOST_K = 200000, BOTH_UP_TO = 2 };

static const struct blow *blows;
static size_t blow_count;
static uint64_t trials;
/* Each k up to this one, then fewer and fewer. */
static uint64_t all_up_to;
static int is_small;
static size_t one_in = 1; /* so many blows */
static struct torture current;

static void report(const struct life *life, const struct blow *blow,
    const struct moment_of *when)
{
    if (blow == NULL)
        fail_msg("life %s, nothing fails: %s", life->name, current.wrong);
    if (when->nth != 0)
        fail_msg("life %s, %s, call %llu%s: %s", life->name, blow->name,
            (unsigned long long)when->nth, when->for_good ? " for good" : "",
            current.wrong);
    fail_msg("life %s, %s, POSTBAG_SEED=%llu: %s", life->name, blow->name,
        (unsigned long long)when->seed, current.wrong);
}

static uint64_t try_one(const struct life *life, const struct blow *blow,
    const struct moment_of *when)
{
    uint64_t struck = torture_trial(&current, life, blow, when);

    trials += struck > 0;
    if (current.wrong[0] != '\0')
        report(life, blow, when);
    return struck;
}

/* The small size: a life has some of many blows, and each at its first calls
 * once and for good, later one of both. */
static int is_left_out(
    const struct life *life, size_t blow, const struct moment_of *when)
{
    size_t i = 0;

    while (torture_lives[i] != life)
        i++;
    if ((i + blow) % one_in != 0)
        return 1;
    return is_small && when->nth > BOTH_UP_TO &&
           (i / one_in + blow) % 2 != (size_t)when->for_good;
}

static uint64_t after(uint64_t nth)
{
    if (nth < all_up_to)
        return nth + 1;
    return is_small ? 3 * nth + 1 : nth + nth / 20;
}

static void try_all(const struct life *life, size_t i, int for_good)
{
    struct moment_of when = {.nth = 1, .for_good = for_good};

    while (
        !is_left_out(life, i, &when) && try_one(life, &blows[i], &when) > 0) {
        when.nth = after(when.nth);
        assert_true(when.nth < MOST_K);
    }
}

static void test_life(void **state)
{
    const struct life *life = *state;
    const struct moment_of never = {0};

    (void)try_one(life, NULL, &never);
    for (size_t i = 0; i < blow_count; i++)
        for (int for_good = 0; for_good < 2; for_good++)
            if (fuse_has_learnt(&blows[i]))
                try_all(life, i, for_good);
}

static void test_every_public_function_is_called(void **state)
{
    int missing = 0;

    (void)state;
    for (size_t i = 0; i < contract_count(); i++)
        if (!torture_was_called(contract_name(i))) {
            print_error("no life calls %s\n", contract_name(i));
            missing++;
        }
    assert_int_equal(missing, 0);
}

static void choose_size(void)
{
    int is_full = getenv("POSTBAG_FULL") != NULL;

    is_small = getenv("POSTBAG_PROVE") == NULL;
    all_up_to = is_small ? 2 : 100;
    if (is_small && blows[0].group == FUSE_DISK)
        one_in = is_full ? 3 : 7;
    else if (is_small && !is_full && blow_count > 4)
        one_in = 4;
}

static int is_chosen(const char *name, char **names)
{
    if (*names == NULL)
        return 1;
    for (; *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return 1;
    return 0;
}

static struct CMUnitTest test_of(const struct life *life, size_t i)
{
    static char names[LIVES][64];

    (void)snprintf(names[i], sizeof(names[i]), "test_life_%s", life->name);
    return (struct CMUnitTest){.name = names[i],
        .test_func = test_life,
        .initial_state = (void *)(uintptr_t)life};
}

int torture_main(
    char **names, const char *row, const struct blow *all, size_t count)
{
    static struct CMUnitTest tests[LIVES];
    size_t n = 0;
    int failed;

    blows = all;
    blow_count = count;
    choose_size();
    stage_build();
    for (size_t i = 0; torture_lives[i] != NULL && n < LIVES - 1; i++)
        if (is_chosen(torture_lives[i]->name, names)) {
            tests[n] = test_of(torture_lives[i], n);
            n++;
        }
    if (*names == NULL)
        tests[n] = (struct CMUnitTest)cmocka_unit_test(
            test_every_public_function_is_called);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    stage_strike();
    if (failed == 0)
        proof_say(row, trials, 0, 0);
    return failed;
}
