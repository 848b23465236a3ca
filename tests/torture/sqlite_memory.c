/* SPDX-License-Identifier: MIT */
/* SQLite gets no memory: each of its requests fails in its turn. */
#include <sqlite3.h>
#include <stdio.h>

#include "torture.h"

static sqlite3_mem_methods real;

static void *no_malloc(int size)
{
    return fuse_ask(FUSE_SQLITE_MEMORY, 0) ? NULL : real.xMalloc(size);
}

static void *no_realloc(void *block, int size)
{
    return fuse_ask(FUSE_SQLITE_MEMORY, 0) ? NULL : real.xRealloc(block, size);
}

/* Without lookaside each request comes here. */
static int take_place(void)
{
    sqlite3_mem_methods mine;

    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real) != SQLITE_OK)
        return 0;
    mine = real;
    mine.xMalloc = no_malloc;
    mine.xRealloc = no_realloc;
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &mine) == SQLITE_OK &&
           sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK;
}

int main(int argc, char **argv)
{
    static const struct blow blows[] = {{.name = "SQLite's memory",
        .group = FUSE_SQLITE_MEMORY,
        .code = 1,
        .expect = POSTBAG_ENOMEM}};

    if (!take_place()) {
        (void)fprintf(stderr, "SQLite keeps its own memory\n");
        return 1;
    }
    (void)argc;
    return torture_main(argv + 1, "F17_sqlite_memory", blows, 1);
}
