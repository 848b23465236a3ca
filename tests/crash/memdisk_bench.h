/* SPDX-License-Identifier: MIT */
/* A file on a disk in memory that SQLite has open and never reads: what tests
 * of the disk itself write to it, and what is left of that. */
#ifndef POSTBAG_TESTS_MEMDISK_BENCH_H
#define POSTBAG_TESTS_MEMDISK_BENCH_H

#include "memdisk.h"

#include <sqlite3.h>
#include <stdlib.h>

#include "unit.h"

enum { BLOCK = 4096, SECTORS = BLOCK / 512, DRAWS = 100 };

/* The file of a database that SQLite never reads; what is left of it. */
struct bench {
    struct memdisk *disk, *left;
    sqlite3 *db;
    sqlite3_file *file;
    unsigned char *bytes;
    long len; /* -1: there is none */
    /* what was seen to come */
    enum memdisk_call seen[10];
    size_t pending[10];
    int seen_count;
};

static inline int set_up(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->disk = memdisk_new(1);
    b->left = memdisk_new(2);
    assert_int_equal(
        sqlite3_open(memdisk_path(b->disk, "a.db"), &b->db), SQLITE_OK);
    assert_int_equal(sqlite3_file_control(
                         b->db, "main", SQLITE_FCNTL_FILE_POINTER, &b->file),
        SQLITE_OK);
    *state = b;
    return 0;
}

static inline int tear_down(void **state)
{
    struct bench *b = *state;

    assert_int_equal(sqlite3_close(b->db), SQLITE_OK);
    memdisk_free(b->disk);
    memdisk_free(b->left);
    free(b);
    return 0;
}

static inline int fill_block(struct bench *b, int block, char with)
{
    char bytes[BLOCK];

    memset(bytes, with, sizeof(bytes));
    return b->file->pMethods->xWrite(
        b->file, bytes, sizeof(bytes), (sqlite3_int64)block * BLOCK);
}

static inline void fill(struct bench *b, int block, char with)
{
    assert_int_equal(fill_block(b, block, with), SQLITE_OK);
}

static inline int sync_file(struct bench *b)
{
    return b->file->pMethods->xSync(b->file, SQLITE_SYNC_NORMAL);
}

static inline void sync_all(struct bench *b)
{
    assert_int_equal(sync_file(b), SQLITE_OK);
}

static inline int resize(struct bench *b, int len)
{
    return b->file->pMethods->xTruncate(b->file, len);
}

static inline void look(struct bench *b, struct memdisk *disk)
{
    size_t len;

    b->bytes = memdisk_bytes(disk, "a.db", &len);
    b->len = b->bytes == NULL ? -1 : (long)len;
}

static inline void cut(struct bench *b, enum memdisk_left left, uint64_t seed)
{
    memdisk_image(b->disk, left, seed, b->left);
    look(b, b->left);
}

/* Sectors of the block that begin so. */
static inline int sectors(const struct bench *b, int block, char with)
{
    int count = 0;

    for (int i = 0; i < SECTORS; i++)
        count += b->bytes[block * BLOCK + i * 512] == (unsigned char)with;
    return count;
}

#endif
