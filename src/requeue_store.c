/* SPDX-License-Identifier: MIT */
/*
 * Requeue: dead rows become retry rows again, with their id and their seq, so
 * that they keep their place among the held rows of their key; one that waits
 * for another try need not wait any longer, if it is named.  The relay
 * sees the commit and finds them due.  Any thread, on its own connection.
 */
#include "requeue_store.h"

int postbag__requeue(struct db *db, const char *dest, int64_t seq,
    const struct postbag_id *id, int64_t *count_out)
{
    struct stmt s;
    /* due_boot NULL is "another boot": due at once.  What is not dead is only
       hurried: it keeps its attempts. */
    int err = postbag__prepare(db, &s,
        "UPDATE outbox_held SET state = 'retry',"
        " attempts = iif(state = 'dead', 0, attempts),"
        " deaths = iif(state = 'dead', 0, deaths),"
        " due_boot = NULL, due_ms = NULL, dead_ms = NULL"
        " WHERE dest = ?1 AND (?2 = 0 OR seq = ?2) AND (?3 IS NULL OR id = ?3)"
        " AND (state = 'dead'"
        "  OR (state = 'retry' AND (?2 <> 0 OR ?3 IS NOT NULL)))");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    postbag__bind_i64(&s, 2, id == NULL ? seq : 0);
    if (id != NULL)
        postbag__bind_blob(&s, 3, id->b, sizeof(id->b));
    err = postbag__run(&s);
    *count_out = postbag__changes(db);
    postbag__finalize(&s);
    return err;
}
