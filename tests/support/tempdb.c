/* SPDX-License-Identifier: MIT */
/* See tempdb.h. */
#include "tempdb.h"

#include <dirent.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "db.h"
#include "schema.h"

void tempdb_make(struct tempdb *t)
{
    const char *base = getenv("TMPDIR");

    memset(t, 0, sizeof(*t));
    (void)snprintf(t->folder, sizeof(t->folder), "%s/postbag-XXXXXX",
        base == NULL ? "/tmp" : base);
    assert_non_null(mkdtemp(t->folder));
    (void)snprintf(t->path, sizeof(t->path), "%s/gw.db", t->folder);
}

void tempdb_make_outbox(struct tempdb *t)
{
    struct db db;

    tempdb_make(t);
    assert_int_equal(
        postbag__db_open(&db, t->path, DB_CREATE, DB_NORMAL, 0), POSTBAG_OK);
    assert_int_equal(postbag__schema_ensure(&db, 0), POSTBAG_OK);
    postbag__db_close(&db);
    t->app = tempdb_connect(t);
}

void tempdb_remove(struct tempdb *t)
{
    DIR *folder;
    const struct dirent *entry;
    char path[400];

    assert_int_equal(sqlite3_close(t->app), SQLITE_OK);
    t->app = NULL;
    folder = opendir(t->folder);
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", t->folder, entry->d_name);
        assert_int_equal(unlink(path), 0);
    }
    (void)closedir(folder);
    assert_int_equal(rmdir(t->folder), 0);
}

struct sqlite3 *tempdb_connect(const struct tempdb *t)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(t->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, 2000), SQLITE_OK);
    sql_run(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
    return db;
}

static char *format_sql(const char *format, va_list args)
{
    char *sql = sqlite3_vmprintf(format, args);

    assert_non_null(sql);
    return sql;
}

void sql_run(struct sqlite3 *db, const char *format, ...)
{
    va_list args;
    char *sql;

    va_start(args, format);
    sql = format_sql(format, args);
    va_end(args);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_free(sql);
}

struct text {
    char out[4096];
    size_t rows;
};

static void append(struct text *t, const char *text)
{
    size_t used = strlen(t->out);

    (void)snprintf(t->out + used, sizeof(t->out) - used, "%s", text);
}

static int add_row(void *ctx, int count, char **values, char **names)
{
    struct text *t = ctx;

    (void)names;
    for (int i = 0; i < count; i++) {
        if (i > 0)
            append(t, "|");
        else if (t->rows > 0)
            append(t, " ");
        append(t, values[i] == NULL ? "NULL" : values[i]);
    }
    t->rows++;
    return 0;
}

static void read_all(
    struct sqlite3 *db, const char *format, va_list args, struct text *out)
{
    char *sql = format_sql(format, args);

    memset(out, 0, sizeof(*out));
    if (sqlite3_exec(db, sql, add_row, out, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_free(sql);
}

int64_t sql_get(struct sqlite3 *db, const char *format, ...)
{
    struct text result;
    va_list args;
    char *end;
    int64_t value;

    va_start(args, format);
    read_all(db, format, args, &result);
    va_end(args);
    value = strtoll(result.out, &end, 10);
    if (result.rows != 1 || end == result.out || *end != '\0')
        fail_msg("%s: \"%s\" is not one number", format, result.out);
    return value;
}

const char *sql_text(struct sqlite3 *db, const char *format, ...)
{
    static struct text result;
    va_list args;

    va_start(args, format);
    read_all(db, format, args, &result);
    va_end(args);
    return result.out;
}

void sql_fails(struct sqlite3 *db, const char *part, const char *format, ...)
{
    va_list args;
    char *sql;

    va_start(args, format);
    sql = format_sql(format, args);
    va_end(args);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK)
        fail_msg("%s: did not fail", sql);
    if (strstr(sqlite3_errmsg(db), part) == NULL)
        fail_msg("%s: \"%s\" lacks \"%s\"", sql, sqlite3_errmsg(db), part);
    sqlite3_free(sql);
}
