/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  How much may wait: the limits in outbox_meta, and the triggers
 * outbox_limit_rows and outbox_limit_bytes, which hold every writer to them.
 */
#ifndef POSTBAG_SRC_LIMIT_STORE_H
#define POSTBAG_SRC_LIMIT_STORE_H

#include "db.h"
#include "postbag/pressure.h"

struct limits {
    uint32_t max_rows;  /* 0: any number */
    uint32_t max_bytes; /* 0: any number */
    int drop_oldest;    /* a full outbox drops bulk rows, and else refuses */
};

/* What options max_rows and max_bytes say where there shall be no limit; 0 is
 * what the database has. */
#define POSTBAG__NO_LIMIT 4000000000u

/* Option overflow; "": what the database has.  EINVAL: no such policy. */
POSTBAG_CHECK int postbag__overflow_parse(const char *name, struct limits *l);

/* Options become limits: what is not given stays.  In a transaction of its own;
 * writes nothing if all is so already.  Both outs are filled where it succeeds.
 * EINVAL: no such policy. */
struct limit_options {
    uint32_t max_rows, max_bytes;
    const char *overflow;
};
POSTBAG_CHECK int postbag__limits_take(struct db *db,
    const struct limit_options *options, struct limits *was,
    struct limits *now);

/* Set these and no others, likewise. */
POSTBAG_CHECK int postbag__limits_set(struct db *db, const struct limits *l);

/* As the database has them; 0 where it has none. */
POSTBAG_CHECK int postbag__limits_read(struct db *db, struct limits *out);

/* The query for postbag__pressure_read; finalize it. */
POSTBAG_CHECK int postbag__pressure_prepare(struct db *db, struct stmt *s);

/* Fill all but struct_size. */
POSTBAG_CHECK int postbag__pressure_read(
    struct stmt *s, struct postbag_pressure *out);

#endif
