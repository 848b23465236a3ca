/* SPDX-License-Identifier: MIT */
/* See inbox_damage.h.  Any thread, on its own connection. */
#include "inbox_damage.h"

#include <stdio.h>

#include "error.h"

#define MENDED(column, is_right, instead) \
    ", " column " = iif(" is_right ", " column ", " instead ")"

static const char bury_sql[] =
    "UPDATE main.inbox SET state = 'dead', error = ?2, processed_ms = ?3,"
    " due_boot = NULL, due_ms = NULL" POSTBAG__INBOX_TYPED(
        MENDED) " WHERE arrival = ?1 AND state IN ('due', 'deferred')";

void postbag__inbox_damage_read(
    struct stmt *s, int col, struct inbox_damage *out)
{
    out->text[0] = '\0';
    if (!postbag__col_is_null(s, col))
        (void)snprintf(out->text, sizeof(out->text),
            POSTBAG__INBOX_DAMAGED " its %s cannot be",
            postbag__col_text(s, col));
}

int postbag__inbox_damage_bury(struct db *db, int64_t arrival,
    const struct inbox_damage *why, int64_t wall_ms)
{
    struct stmt s;
    int err = postbag__prepare(db, &s, bury_sql);

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, arrival);
    postbag__bind_text(&s, 2, why->text);
    postbag__bind_i64(&s, 3, wall_ms);
    err = postbag__run(&s);
    if (err == POSTBAG_OK && postbag__changes(db) == 0)
        err = postbag__fail(
            &db->fault, POSTBAG_ENOTFOUND, "the command is not open");
    postbag__finalize(&s);
    return err;
}
