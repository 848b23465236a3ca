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
#include "memdisk.h"
#include "postbag/postbag.h"
#include "sim_port.h"

#define NAME "gw.db"
#define OTHER "new.db"

static char folder[96];
static char path[128];
static struct memdisk *disk; /* NULL: a real one */
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

struct memdisk *stage_disk(void)
{
    return disk;
}

int stage_exists(void)
{
    struct stat about;
    size_t len = 0;

    if (disk != NULL)
        return memdisk_bytes(disk, NAME, &len) != NULL && len > 0;
    return stat(path, &about) == 0 && about.st_size > 0;
}

/* ---- SQL ---------------------------------------------------------------- */

struct sqlite3 *stage_connect(void)
{
    return stage_connect_to(path);
}

struct sqlite3 *stage_connect_to(const char *name)
{
    sqlite3 *db = NULL;

    demand(sqlite3_open(name, &db) == SQLITE_OK, "cannot connect");
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

/* ---- what the port does with files beside the database ----------------- */

/* On the disk in memory there are no files of ours: they are in the folder. */
static const char *beside(const char *name)
{
    static char out[200];
    const char *last = strrchr(name, '/');

    if (disk == NULL || last == NULL)
        return name;
    (void)snprintf(out, sizeof(out), "%s%s", folder, last);
    return out;
}

static struct postbag_port sims;

static int lock_file(void *ctx, const char *name, struct postbag_lock **out)
{
    return sims.lock_file(ctx, beside(name), out);
}

static int replace_file(
    void *ctx, const char *name, const void *buf, size_t len)
{
    return sims.replace_file(ctx, beside(name), buf, len);
}

static int read_file(
    void *ctx, const char *name, void *buf, size_t size, size_t *len_out)
{
    return sims.read_file(ctx, beside(name), buf, size, len_out);
}

static int file_id(void *ctx, const char *name, uint64_t *out)
{
    int err = sims.file_id(ctx, name, out);

    if (err == POSTBAG_OK && strcmp(name, path) != 0)
        err = POSTBAG_ENOTFOUND;
    return err;
}

static int storage_check(void *ctx, const char *name)
{
    return sims.storage_check(ctx, beside(name));
}

void stage_port(struct sim_port *port)
{
    sim_port_init(port);
    if (disk == NULL)
        return;
    sims = port->port;
    port->file = 1;
    port->port.lock_file = lock_file;
    port->port.replace_file = replace_file;
    port->port.read_file = read_file;
    port->port.storage_check = storage_check;
    port->port.file_id = file_id;
    port->port.reserve_pages = NULL; /* its -shm is no mapping */
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

static void set_on_disk(enum stage_base base)
{
    memdisk_put(disk, NAME "-wal", NULL, 0);
    memdisk_put(disk, NAME "-journal", NULL, 0);
    memdisk_put(disk, NAME, bases[base].bytes, bases[base].len);
}

void stage_set(enum stage_base base)
{
    FILE *file;

    each_file(remove_one);
    if (disk != NULL) {
        set_on_disk(base);
        return;
    }
    if (bases[base].len == 0)
        return;
    file = fopen(path, "wb");
    demand(file != NULL && fwrite(bases[base].bytes, 1, bases[base].len,
                               file) == bases[base].len,
        "cannot write the database");
    demand(fclose(file) == 0, "cannot close the database");
}

/* All of it is in the file: nothing in the WAL. */
static void keep_from_disk(enum stage_base base)
{
    const unsigned char *all = memdisk_bytes(disk, NAME, &bases[base].len);

    bases[base].bytes = malloc(bases[base].len);
    demand(all != NULL && bases[base].bytes != NULL, "no database");
    memcpy(bases[base].bytes, all, bases[base].len);
}

static void keep(enum stage_base base)
{
    FILE *file;
    long size;

    if (disk != NULL) {
        keep_from_disk(base);
        return;
    }
    file = fopen(path, "rb");
    demand(file != NULL && fseek(file, 0, SEEK_END) == 0, "no database");
    size = ftell(file);
    rewind(file);
    bases[base].bytes = malloc((size_t)size);
    demand(size > 0 && bases[base].bytes != NULL, "an empty database");
    bases[base].len = fread(bases[base].bytes, 1, (size_t)size, file);
    demand(bases[base].len == (size_t)size, "cannot read the database");
    (void)fclose(file);
}

/* FNV-1a. */
static uint64_t mix(uint64_t print, const void *bytes, int len)
{
    const unsigned char *b = bytes;

    for (int i = 0; i < len; i++)
        print = (print ^ b[i]) * 1099511628211u;
    return (print ^ (unsigned)len) * 1099511628211u;
}

/* All rows of what a query gives. */
static uint64_t mix_rows(uint64_t print, sqlite3_stmt *s)
{
    int rc = SQLITE_DONE;

    while (s != NULL && (rc = sqlite3_step(s)) == SQLITE_ROW)
        for (int i = 0; i < sqlite3_column_count(s); i++) {
            const void *value = sqlite3_column_blob(s, i);

            print = mix(print, value, sqlite3_column_bytes(s, i));
        }
    demand(rc == SQLITE_DONE, "cannot read a table");
    (void)sqlite3_finalize(s);
    return print;
}

static sqlite3_stmt *query(sqlite3 *db, const char *table)
{
    sqlite3_stmt *s = NULL;
    char *sql = sqlite3_mprintf(strcmp(table, "outbox_meta") == 0
                                    ? "SELECT * FROM \"%w\" WHERE key NOT IN"
                                      " ('file', 'stream')"
                                    : "SELECT * FROM \"%w\"",
        table);

    demand(
        sql != NULL && sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK,
        "cannot read a table");
    sqlite3_free(sql);
    return s;
}

uint64_t stage_print(struct sqlite3 *db)
{
    uint64_t print = 14695981039346656037u;
    sqlite3_stmt *tables = NULL;

    demand(sqlite3_prepare_v2(db,
               "SELECT 'sqlite_schema' UNION ALL"
               " SELECT name FROM sqlite_schema WHERE"
               " type = 'table'",
               -1, &tables, NULL) == SQLITE_OK,
        "cannot read the schema");
    while (sqlite3_step(tables) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(tables, 0);

        print = mix_rows(print, query(db, name));
    }
    (void)sqlite3_finalize(tables);
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
    if (disk != NULL)
        (void)snprintf(path, sizeof(path), "%s", memdisk_path(disk, NAME));
    else
        (void)snprintf(path, sizeof(path), "%s/" NAME, folder);
    build(STAGE_BARE, furnish_bare);
    build(STAGE_FURNISHED, furnish_all);
}

const char *stage_other_path(void)
{
    static char other[160];

    if (disk != NULL)
        (void)snprintf(other, sizeof(other), "%s", memdisk_path(disk, OTHER));
    else
        (void)snprintf(other, sizeof(other), "%s/" OTHER, folder);
    return other;
}

void stage_remove_other(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char name[200];

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        (void)snprintf(name, sizeof(name), OTHER "%s", ends[i]);
        if (disk != NULL)
            memdisk_put(disk, name, NULL, 0);
        (void)snprintf(name, sizeof(name), "%s%s", stage_other_path(), ends[i]);
        if (disk == NULL && access(name, F_OK) == 0)
            remove_one(name);
    }
}

void stage_use_memdisk(void)
{
    memdisk_install();
    disk = memdisk_new(1);
}

void stage_strike(void)
{
    if (disk != NULL)
        memdisk_free(disk);
    disk = NULL;
    each_file(remove_one);
    demand(rmdir(folder) == 0, "cannot remove the folder");
    for (int i = 0; i < STAGE_BASES; i++) {
        free(bases[i].bytes);
        bases[i].bytes = NULL;
        bases[i].len = 0;
    }
}
