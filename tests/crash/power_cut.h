/* SPDX-License-Identifier: MIT */
/* What tests of power cuts share: chance, how much of it, and whether what is
 * left is a database at all. */
#ifndef POSTBAG_TESTS_POWER_CUT_H
#define POSTBAG_TESTS_POWER_CUT_H

#include <stdlib.h>
#include <time.h>

#include "tempdb.h"
#include "unit.h"
#include "verify.h"

/* POSTBAG_SEED, or another one each time. */
static inline uint64_t power_cut_seed(void)
{
    const char *given = getenv("POSTBAG_SEED");
    uint64_t seed =
        given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);

    print_message("POSTBAG_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static inline int power_cut_is_proof(void)
{
    return getenv("POSTBAG_PROVE") != NULL;
}

/* How often each cut is made that has luck in it. */
static inline unsigned power_cut_draws(void)
{
    return power_cut_is_proof() ? 4 : 1;
}

/* Is this one to have what takes long, too? */
static inline int power_cut_is_thorough(const struct crash_cut *cut)
{
    return power_cut_is_proof() || cut->events % 3 == 0;
}

static inline int power_cut_tell(
    void *ctx, const char *check, const char *dest, const char *text)
{
    (void)dest;
    print_message("%s: %s\n", check, text);
    *(int *)ctx = 1;
    return 0;
}

/* By SQLite's rules, or by our own, which has them in it. */
static inline int power_cut_is_damaged(struct db *db, int thoroughly)
{
    int damaged = 0;
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .ctx = &damaged, .finding = power_cut_tell};

    if (!thoroughly)
        return strcmp(sql_text(db->handle, "PRAGMA integrity_check"), "ok") !=
               0;
    assert_ok(postbag__pin(db));
    assert_ok(postbag__verify(db, &v));
    postbag__rollback(db);
    return damaged;
}

#endif
