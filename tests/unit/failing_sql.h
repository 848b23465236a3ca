/* SPDX-License-Identifier: MIT */
/*
 * A SQLite that fails in any statement, at random or in the n-th: the linker
 * puts these functions before those of db.c (see CMakeLists.txt beside this).
 */
#ifndef POSTBAG_TESTS_FAILING_SQL_H
#define POSTBAG_TESTS_FAILING_SQL_H

#include <stdlib.h>
#include <time.h>

#include "db.h"
#include "error.h"
#include "proof.h"
#include "unit.h"

int __real_postbag__prepare(struct db *db, struct stmt *out, const char *sql);
int __real_postbag__row(struct stmt *s);
int __real_postbag__run(struct stmt *s);
int __real_postbag__exec(struct db *db, const char *sql);
int __real_postbag__begin(struct db *db, enum db_sync sync);
int __real_postbag__commit(struct db *db);
int __real_postbag__query_i64(struct db *db, const char *sql, int64_t *out);
int __wrap_postbag__prepare(struct db *db, struct stmt *out, const char *sql);
int __wrap_postbag__row(struct stmt *s);
int __wrap_postbag__run(struct stmt *s);
int __wrap_postbag__exec(struct db *db, const char *sql);
int __wrap_postbag__begin(struct db *db, enum db_sync sync);
int __wrap_postbag__commit(struct db *db);
int __wrap_postbag__query_i64(struct db *db, const char *sql, int64_t *out);

static uint64_t luck;
static unsigned one_in;  /* 0: nothing fails */
static unsigned fail_at; /* the n-th call from now on; 0: none */
static int fail_with;
static unsigned failures;

static unsigned draw(unsigned bound)
{
    luck ^= luck << 13;
    luck ^= luck >> 7;
    luck ^= luck << 17;
    return (unsigned)(luck >> 33) % bound;
}

/* 0, or the error of this call. */
static int fails(struct db *db)
{
    static const int errors[] = {POSTBAG_EIO, POSTBAG_EIO, POSTBAG_EBUSY,
        POSTBAG_ENOSPC, POSTBAG_ENOMEM};

    if (fail_at > 0 && --fail_at == 0) {
        failures++;
        return postbag__fail(&db->fault, fail_with, "it fails on purpose");
    }
    if (one_in == 0 || draw(one_in) != 0)
        return POSTBAG_OK;
    failures++;
    return postbag__fail(
        &db->fault, errors[draw(COUNT(errors))], "it fails on purpose");
}

int __wrap_postbag__prepare(struct db *db, struct stmt *out, const char *sql)
{
    int err = fails(db);

    if (err == POSTBAG_OK)
        return __real_postbag__prepare(db, out, sql);
    memset(out, 0, sizeof(*out));
    return err;
}

int __wrap_postbag__row(struct stmt *s)
{
    int err = fails(s->db);

    if (err == POSTBAG_OK)
        return __real_postbag__row(s);
    postbag__reset(s);
    return err;
}

int __wrap_postbag__run(struct stmt *s)
{
    int err = fails(s->db);

    if (err == POSTBAG_OK)
        return __real_postbag__run(s);
    postbag__reset(s);
    return err;
}

int __wrap_postbag__exec(struct db *db, const char *sql)
{
    int err = fails(db);

    return err == POSTBAG_OK ? __real_postbag__exec(db, sql) : err;
}

int __wrap_postbag__begin(struct db *db, enum db_sync sync)
{
    int err = fails(db);

    return err == POSTBAG_OK ? __real_postbag__begin(db, sync) : err;
}

int __wrap_postbag__commit(struct db *db)
{
    int err = fails(db);

    if (err == POSTBAG_OK)
        return __real_postbag__commit(db);
    postbag__rollback(db);
    return err;
}

int __wrap_postbag__query_i64(struct db *db, const char *sql, int64_t *out)
{
    int err = fails(db);

    return err == POSTBAG_OK ? __real_postbag__query_i64(db, sql, out) : err;
}

static inline uint64_t first_seed(void)
{
    const char *given = getenv("POSTBAG_SEED");
    uint64_t seed =
        given == NULL ? (uint64_t)time(NULL) * 1000 : strtoull(given, NULL, 10);

    (void)printf("POSTBAG_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static inline int lives(int few)
{
    if (getenv("POSTBAG_SEED") != NULL)
        return 1;
    return getenv("POSTBAG_PROVE") != NULL ? few * 20 : few;
}

/* So many lives, each from a seed that is told, in which something failed. */
static inline void run_lives(
    const char *row, int few, void (*live_once)(uint64_t seed))
{
    uint64_t seed = first_seed();
    int count = lives(few);

    for (int i = 0; i < count; i++) {
        (void)fprintf(stderr, "POSTBAG_SEED=%llu\n",
            (unsigned long long)seed + (unsigned)i);
        live_once(seed + (uint64_t)i);
    }
    assert_true(failures > 0);
    proof_say(row, failures, seed, seed + (uint64_t)count - 1);
}

static inline void begin_life(uint64_t seed)
{
    luck = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    (void)draw(2);
}

#endif
