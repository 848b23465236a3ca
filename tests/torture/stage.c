/* SPDX-License-Identifier: MIT */
/* See stage.h. */
#include "stage.h"

#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "furnish.h"
#include "sim_port.h"

static char folder[96];
static char path[128];
static struct {
    unsigned char *bytes;
    size_t len;
} bases[STAGE_BASES];

static void demand(int holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "stage: %s\n", what);
    abort();
}

const char *stage_path(void)
{
    return path;
}

int stage_exists(void)
{
    struct stat about;

    return stat(path, &about) == 0 && about.st_size > 0;
}

/* ---- SQL ---------------------------------------------------------------- */

struct sqlite3 *stage_connect(void)
{
    sqlite3 *db = NULL;

    demand(sqlite3_open(path, &db) == SQLITE_OK, "cannot connect");
    demand(sqlite3_busy_timeout(db, 2) == SQLITE_OK, "no busy timeout");
    stage_run(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL");
    return db;
}

void stage_close(struct sqlite3 *db)
{
    demand(sqlite3_close(db) == SQLITE_OK, "a statement was left open");
}

void stage_run(struct sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        (void)fprintf(stderr, "stage: %s: %s\n", sql, sqlite3_errmsg(db));
        abort();
    }
}

int64_t stage_get(struct sqlite3 *db, const char *sql)
{
    sqlite3_stmt *s = NULL;
    int64_t value = -1;
    int rc;

    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK) {
        (void)fprintf(stderr, "stage: %s: %s\n", sql, sqlite3_errmsg(db));
        abort();
    }
    rc = sqlite3_step(s);
    if (rc == SQLITE_ROW)
        value = sqlite3_column_int64(s, 0);
    else if (rc != SQLITE_DONE) {
        (void)fprintf(stderr, "stage: %s: %s\n", sql, sqlite3_errmsg(db));
        abort();
    }
    (void)sqlite3_finalize(s);
    return value;
}

void stage_port(struct sim_port *port)
{
    sim_port_init(port);
}

/* ---- files -------------------------------------------------------------- */

static void each_file(void (*act)(const char *name))
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    char name[400];

    demand(dir != NULL, "no folder");
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
        act(name);
    }
    (void)closedir(dir);
}

static void remove_one(const char *name)
{
    demand(unlink(name) == 0, "cannot remove a file");
}

void stage_set(enum stage_base base)
{
    FILE *file;

    each_file(remove_one);
    if (bases[base].len == 0)
        return;
    file = fopen(path, "wb");
    demand(file != NULL && fwrite(bases[base].bytes, 1, bases[base].len,
                               file) == bases[base].len,
        "cannot write the database");
    demand(fclose(file) == 0, "cannot close the database");
}

/* All of it is in the file: nothing in the WAL. */
static void keep(enum stage_base base)
{
    FILE *file = fopen(path, "rb");
    long size;

    demand(file != NULL && fseek(file, 0, SEEK_END) == 0, "no database");
    size = ftell(file);
    rewind(file);
    bases[base].bytes = malloc((size_t)size);
    demand(size > 0 && bases[base].bytes != NULL, "an empty database");
    bases[base].len = fread(bases[base].bytes, 1, (size_t)size, file);
    demand(bases[base].len == (size_t)size, "cannot read the database");
    (void)fclose(file);
}

/* FNV-1a, eight bytes at a time: the size is one of pages. */
uint64_t stage_print(void)
{
    FILE *file = fopen(path, "rb");
    uint64_t print = 14695981039346656037u;
    uint64_t words[512];
    size_t count;

    while (file != NULL && (count = fread(words, 8, 512, file)) > 0)
        for (size_t i = 0; i < count; i++)
            print = (print ^ words[i]) * 1099511628211u;
    if (file != NULL)
        (void)fclose(file);
    return print;
}

static void build(enum stage_base base, void (*fill)(struct sqlite3 *db))
{
    struct sqlite3 *db;

    stage_set(STAGE_NONE);
    db = stage_connect();
    fill(db);
    stage_run(db, "PRAGMA wal_checkpoint(TRUNCATE)");
    stage_close(db);
    keep(base);
    stage_set(STAGE_NONE);
}

void stage_build(void)
{
    const char *base = getenv("TMPDIR");

    (void)snprintf(folder, sizeof(folder), "%s/postbag-torture-XXXXXX",
        base == NULL ? "/tmp" : base);
    demand(mkdtemp(folder) != NULL, "cannot make a folder");
    (void)snprintf(path, sizeof(path), "%s/gw.db", folder);
    build(STAGE_BARE, furnish_bare);
    build(STAGE_FURNISHED, furnish_all);
}

void stage_strike(void)
{
    each_file(remove_one);
    demand(rmdir(folder) == 0, "cannot remove the folder");
    for (int i = 0; i < STAGE_BASES; i++) {
        free(bases[i].bytes);
        bases[i].bytes = NULL;
        bases[i].len = 0;
    }
}
