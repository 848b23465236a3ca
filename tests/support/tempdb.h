/* SPDX-License-Identifier: MIT */
/*
 * A database file in a folder of its own, and plain SQL on it as an
 * application would write it.  What goes wrong here fails the test.
 */
#ifndef POSTBAG_TEST_TEMPDB_H
#define POSTBAG_TEST_TEMPDB_H

#include <stddef.h>
#include <stdint.h>

struct sqlite3;

struct tempdb {
    char folder[96];
    char path[128];
    struct sqlite3 *app; /* an application's connection; NULL: none yet */
};

/* An empty folder; no file yet. */
void tempdb_make(struct tempdb *t);
/* ... with our tables in it, and app connected. */
void tempdb_make_outbox(struct tempdb *t);
/* Closes app, removes the folder and all in it. */
void tempdb_remove(struct tempdb *t);

/* One more connection to the file, made if it is not there: WAL, a busy
 * timeout of 2 s.  The caller closes it. */
struct sqlite3 *tempdb_connect(const struct tempdb *t);

#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

/* Run statements that must succeed. */
void sql_run(struct sqlite3 *db, const char *format, ...) PRINTF_LIKE(2, 3);
/* The one number of a query that must have one row. */
int64_t sql_get(struct sqlite3 *db, const char *format, ...) PRINTF_LIKE(2, 3);
/* All columns of all rows, joined: "1|a 2|b".  Valid until the next call. */
const char *sql_text(struct sqlite3 *db, const char *format, ...)
    PRINTF_LIKE(2, 3);
/* A statement that must fail, with a message that has this part. */
void sql_fails(struct sqlite3 *db, const char *part, const char *format, ...)
    PRINTF_LIKE(3, 4);

#endif
