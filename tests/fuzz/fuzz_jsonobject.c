/* SPDX-License-Identifier: MIT */
/* Whatever is put into an object, SQLite reads it back. */
#include <sqlite3.h>
#include <string.h>

#include "fuzz.h"
#include "jsonobject.h"
#include "mem.h"
#include "utf8.h"

enum { MOST = 16 };

static sqlite3_stmt *each_member(void)
{
    static sqlite3 *db;
    static sqlite3_stmt *s;

    if (s == NULL) {
        MUST(sqlite3_open(":memory:", &db) == SQLITE_OK);
        MUST(sqlite3_prepare_v2(db,
                 "SELECT type, atom, key FROM json_each(?1) ORDER BY id", -1,
                 &s, NULL) == SQLITE_OK);
    }
    return s;
}

/* SQLite keeps the names of members as they are escaped. */
static int is_plain(const char *name)
{
    for (; *name != '\0'; name++)
        if ((unsigned char)*name < 0x20 || *name == 0x7f || *name == '"' ||
            *name == '\\')
            return 0;
    return 1;
}

static void check_member(sqlite3_stmt *s, const char *name, const char *value)
{
    MUST(sqlite3_step(s) == SQLITE_ROW);
    MUST(strcmp((const char *)sqlite3_column_text(s, 0), "text") == 0);
    if (postbag__utf8_is_valid(value, strlen(value)))
        MUST(strcmp((const char *)sqlite3_column_text(s, 1), value) == 0);
    if (postbag__utf8_is_valid(name, strlen(name)) && is_plain(name))
        MUST(strcmp((const char *)sqlite3_column_text(s, 2), name) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jsonobject j = {0};
    sqlite3_stmt *s = each_member();
    struct feed f;
    const char *names[MOST];
    const char *values[MOST];
    size_t count = 0;
    char *text;

    feed_begin(&f, data, size);
    for (; count < MOST && f.left > 0; count++) {
        names[count] = feed_text(&f);
        values[count] = feed_text(&f);
        postbag__jsonobject_add(&j, names[count], values[count]);
    }
    text = postbag__jsonobject_end(&j);
    MUST(text != NULL && postbag__utf8_is_valid(text, strlen(text)));
    MUST(sqlite3_bind_text(s, 1, text, -1, SQLITE_STATIC) == SQLITE_OK);
    for (size_t i = 0; i < count; i++)
        check_member(s, names[i], values[i]);
    MUST(sqlite3_step(s) == SQLITE_DONE);
    (void)sqlite3_reset(s);
    postbag__free(text);
    feed_end(&f);
    return 0;
}
