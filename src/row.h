/* SPDX-License-Identifier: MIT */
/* Floor 2.  One message as it was queued, copied out of SQLite. */
#ifndef POSTBAG_SRC_ROW_H
#define POSTBAG_SRC_ROW_H

#include "arena.h"
#include "db.h"
#include "moment.h"

/* The columns that row_read expects, from column `first` on. */
#define ROW_COLUMNS \
    "id, topic, payload, key, key_version, type, content_type, headers," \
    " priority, retain, ttl_ms, created_ms, boot, mono_ms, coalesce"
enum { ROW_COLUMN_COUNT = 15 };

struct row {
    int64_t seq;
    struct postbag_id id;
    /* in the arena */
    const char *topic, *key, *type, *content_type, *headers;
    const void *payload;
    size_t topic_len, payload_len;
    int64_t key_version, ttl_ms, created_ms, mono_ms;
    uint8_t boot[16]; /* zeros: not written by the C writer */
    int priority, retain, is_text;
    int coalesces;  /* it asks for it */
    int is_replay;  /* sent before; an operator sends it again */
    int is_damaged; /* it was read, and is no row that anybody put */
};

/* Copy the current row of s into *out and the arena (reset before).  seq and
 * is_replay are not set.  ENOMEM; ECORRUPT, with is_damaged: a column has what
 * a STRICT table never has, or an id that is not one; the fault names it. */
POSTBAG_CHECK int postbag__row_read(
    struct stmt *s, int first, struct arena *arena, struct row *out);

/* Columns ttl_ms, created_ms, boot and mono_ms, from `first` on. */
void postbag__row_read_age(struct stmt *s, int first, struct row *out);

/* The wall clock when the row was put, as well as it is known now; 0: it is
 * not. */
int64_t postbag__row_put_ms(const struct row *r, const struct moment *now);

/*
 * What is left of the row's TTL in ms, 0 if it is over; INT64_MAX: it has
 * none.  Its age is counted by CLOCK_BOOTTIME in the boot that put it, else by
 * the wall clock, and taken for 0 where that cannot know it (plain SQL before
 * the clock was set, a clock that went back): nothing expires by a guess.
 */
int64_t postbag__row_ttl_left_ms(const struct row *r, const struct moment *now);

/*
 * The same, beyond doubt: when it may be dropped.  A row without a stamp of
 * CLOCK_BOOTTIME (put by plain SQL: its clock may have been set since), or of
 * another boot and from before the clock was set, is as old as the relay has
 * seen it, seen_ms.
 */
int64_t postbag__row_over_in_ms(
    const struct row *r, const struct moment *now, int64_t seen_ms);

/* How long ago it was put, by columns created_ms, boot and mono_ms of the
 * current row of s, from `col` on.  Never negative. */
int64_t postbag__row_age_ms(struct stmt *s, int col, const struct moment *now);

/* Bytes that count against limits and the window. */
uint32_t postbag__row_bytes(const struct row *r);

#endif
