/* SPDX-License-Identifier: MIT */
/*
 * What a test has shown, in lines that tests/stages/proof.py makes the table of
 * tests/README.md from.  A row's name begins with the fault's number in the
 * matrix (T1 to T10, F11 to F32, S, C), as "F11_put".
 */
#ifndef POSTBAG_TESTS_PROOF_H
#define POSTBAG_TESTS_PROOF_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

/* So many independent trials, of these seeds (0 and 0: no luck in it), none of
 * which failed: else the test had failed before it got here. */
static inline void proof_say(
    const char *row, uint64_t trials, uint64_t first_seed, uint64_t last_seed)
{
    (void)printf("proof: %s trials=%" PRIu64 " seeds=%" PRIu64 "..%" PRIu64
                 "\n",
        row, trials, first_seed, last_seed);
    (void)fflush(stdout);
}

/* A negative control of that row: in so many of these trials what was broken on
 * purpose was noticed.  The caller fails if it never was. */
static inline void proof_control(
    const char *row, const char *name, uint64_t hits, uint64_t trials)
{
    (void)printf("control: %s %s hits=%" PRIu64 " trials=%" PRIu64 "\n", row,
        name, hits, trials);
    (void)fflush(stdout);
}

#endif
