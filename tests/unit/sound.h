/* SPDX-License-Identifier: MIT */
/* Does a database hold what must hold?  At the end of a test that moved the
 * ledger about. */
#ifndef POSTBAG_TESTS_SOUND_H
#define POSTBAG_TESTS_SOUND_H

#include "tempdb.h"
#include "unit.h"
#include "verify.h"

static inline int sound_finding(
    void *ctx, const char *check, const char *dest, const char *text)
{
    (void)ctx;
    fail_msg("%s %s: %s", check, dest == NULL ? "" : dest, text);
    return 0;
}

static inline void assert_sound(const struct tempdb *t)
{
    const struct postbag_verify v = {
        .struct_size = sizeof(v), .finding = sound_finding};
    struct db db;

    assert_ok(postbag__db_open(&db, t->path, DB_READ, DB_NORMAL, 1000));
    assert_ok(postbag__pin(&db));
    assert_ok(postbag__verify(&db, &v));
    postbag__rollback(&db);
    postbag__db_close(&db);
}

#endif
