/* SPDX-License-Identifier: MIT */
/* See quick_heap.h. */
#include "quick_heap.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 32, SIZES = 256, HEAD = 16, PIECE = 1024 * 1024 };

/* Before each block; while it is free, where the next one is. */
struct head {
    size_t size;
    struct head *next;
};

static struct head *unused[SIZES];
static unsigned char *piece;
static size_t piece_left;

static struct head *head_of(void *block)
{
    return (struct head *)(void *)((unsigned char *)block - HEAD);
}

static int round_up(int bytes)
{
    return (bytes + STEP - 1) / STEP * STEP;
}

static struct head *cut_off(size_t bytes)
{
    struct head *h;

    if (piece_left < bytes) {
        piece = malloc(PIECE);
        piece_left = piece == NULL ? 0 : PIECE;
    }
    if (piece == NULL)
        return NULL;
    h = (struct head *)(void *)piece;
    piece += bytes;
    piece_left -= bytes;
    return h;
}

static void *take(int bytes)
{
    size_t size = (size_t)round_up(bytes);
    size_t list = size / STEP;
    struct head *h;

    if (list >= SIZES) {
        h = malloc(size + HEAD);
    } else if (unused[list] != NULL) {
        h = unused[list];
        unused[list] = h->next;
    } else {
        h = cut_off(size + STEP);
    }
    if (h == NULL)
        return NULL;
    h->size = size;
    return (unsigned char *)h + HEAD;
}

static void give(void *block)
{
    struct head *h;

    if (block == NULL)
        return;
    h = head_of(block);
    if (h->size / STEP >= SIZES) {
        free(h);
        return;
    }
    h->next = unused[h->size / STEP];
    unused[h->size / STEP] = h;
}

static int size_of(void *block)
{
    return block == NULL ? 0 : (int)head_of(block)->size;
}

static void *resize(void *block, int bytes)
{
    void *other;

    if (round_up(bytes) == size_of(block))
        return block;
    other = take(bytes);
    if (other != NULL && block != NULL) {
        int both = size_of(block) < bytes ? size_of(block) : bytes;

        memcpy(other, block, (size_t)both);
        give(block);
    }
    return other;
}

static int begin(void *ctx)
{
    (void)ctx;
    return SQLITE_OK;
}

static void end(void *ctx)
{
    (void)ctx;
}

int quick_heap_install(void)
{
    static const sqlite3_mem_methods methods = {
        .xMalloc = take,
        .xFree = give,
        .xRealloc = resize,
        .xSize = size_of,
        .xRoundup = round_up,
        .xInit = begin,
        .xShutdown = end,
    };

    return sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}
