/* SPDX-License-Identifier: MIT */
/*
 * A gateway's database with a known content, as bytes, and ways to damage it.
 */
#ifndef POSTBAG_TESTS_DAMAGE_H
#define POSTBAG_TESTS_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
    uint8_t *at;
    size_t len;
};

/* A message that was put. */
struct known {
    char id[40];
    char topic[64];
    char payload[64];
    size_t len;
    int64_t seq;
    int is_pending; /* no broker has it, and it is in the log */
    uint32_t page;  /* where it stands; 0: not in the file alone */
};

/* A row of another table: which, and where. */
struct stored {
    int64_t key;
    uint32_t page;
};

enum { KNOWN_MOST = 512, STORED_MOST = 400, PAGES_MOST = 2048 };

struct original {
    struct bytes db, wal;
    uint32_t page_size, pages;
    struct known known[KNOWN_MOST];
    size_t count;
    struct stored states[STORED_MOST], commands[STORED_MOST];
    size_t state_count, command_count;
    uint8_t is_vital[PAGES_MOST]; /* of a page: without it rows are not found,
                                     or not known to be unsent */
};

/* number decides on the size of a page, and how much stands in the WAL. */
void original_make(struct original *o, unsigned number);
void original_free(struct original *o);

enum damage_kind {
    DAMAGE_BIT,
    DAMAGE_RUN,
    DAMAGE_ZERO_PAGE,
    DAMAGE_RANDOM_PAGE,
    DAMAGE_SWAP_PAGES,
    DAMAGE_COPY_PAGE,
    DAMAGE_TRUNCATE,
    DAMAGE_WAL_BIT,
    DAMAGE_WAL_RUN,
    DAMAGE_WAL_TRUNCATE,
    DAMAGE_WAL_OTHER, /* that of another database */
    DAMAGE_WAL_GONE,
    DAMAGE_SHM,
    DAMAGE_KINDS
};

struct damaged {
    enum damage_kind kind;
    struct bytes db, wal, shm; /* shm.len 0: there is none */
    uint8_t touched[PAGES_MOST + 1];
    size_t spoilt; /* bytes in place; 0: whole pages or more */
};

const char *damage_name(enum damage_kind kind);
uint64_t damage_random(uint64_t *seed);
/* By the seed; free with damage_free. */
void damage_make(struct damaged *d, const struct original *o,
    const struct original *other, uint64_t *seed);
void damage_free(struct damaged *d);
void damage_write(const struct damaged *d, const char *path);

/* A whole file; .at NULL: there is none. */
struct bytes file_read(const char *path);

#endif
