/* SPDX-License-Identifier: MIT */
/* Purges for tests: step by step, at a moment of their choice. */
#ifndef POSTBAG_TESTS_PURGE_STEPS_H
#define POSTBAG_TESTS_PURGE_STEPS_H

#include "purge_store.h"

#include <string.h>

#include "temp_db.h"

static const int64_t now_ms = INT64_C(1800000000000);
static const int64_t hour_ms = INT64_C(3600000);

/* Boot 2 has just begun. */
static inline struct moment now(void)
{
    struct moment m = {.wall_ms = now_ms, .mono_ms = 1000};

    memset(m.boot, 2, sizeof(m.boot));
    return m;
}

static inline void step_at(
    struct temp_db *t, struct purge *p, const struct moment *at)
{
    temp_db_run(t, "BEGIN IMMEDIATE");
    assert_int_equal(postbag__purge(&t->db, p, at), POSTBAG_OK);
    temp_db_run(t, "COMMIT");
}

static inline void step(struct temp_db *t, struct purge *p)
{
    struct moment at = now();

    step_at(t, p, &at);
}

/* All that may go; the number of rows deleted. */
static inline int64_t purge_by(
    struct temp_db *t, struct purge p, const struct moment *at)
{
    int64_t deleted = 0;

    p.max_rows = 256;
    do {
        step_at(t, &p, at);
        deleted += p.deleted;
    } while (p.more);
    return deleted;
}

static inline int64_t purge_all(struct temp_db *t, int64_t keep_ms)
{
    struct moment at = now();

    return purge_by(t, (struct purge){.keep_ms = keep_ms}, &at);
}

static inline int64_t rows(struct temp_db *t)
{
    return temp_db_get(t, "SELECT count(*) FROM outbox");
}

static inline int64_t lowest(struct temp_db *t)
{
    return temp_db_get(t, "SELECT min(seq) FROM outbox");
}

/* of the database t */
#define LANE(n, what) \
    temp_db_get(&t, "SELECT " what " FROM outbox WHERE priority = " #n)

#endif
