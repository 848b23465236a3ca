/* SPDX-License-Identifier: MIT */
/*
 * What is given up becomes a done row, so that a redelivery is still a
 * duplicate and the row goes with the others of its age.  On the housekeeper's
 * thread and connection.
 */
#include "inbox_cap.h"

#include "inbox_store.h"

/* The newest dead row that is one too many; 0: there is none. */
static int find_excess(struct db *db, int64_t most, int64_t *out)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "SELECT arrival FROM main.inbox WHERE state = 'dead'"
        " ORDER BY arrival DESC LIMIT 1 OFFSET ?1");

    *out = 0;
    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, most);
    err = postbag__row(&s);
    if (err == 1) {
        *out = postbag__col_i64(&s, 0);
        err = POSTBAG_OK;
    }
    postbag__finalize(&s);
    return err;
}

static int drop(struct db *db, const struct inbox_purge *p, int64_t upto)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "UPDATE main.inbox SET" POSTBAG__INBOX_SHRINK
        ", processed_ms = ?3, boot = ?4, mono_ms = ?5,"
        " error = 'dropped: ' || ifnull(error, 'dead')"
        " WHERE arrival IN (SELECT arrival FROM main.inbox WHERE state = 'dead'"
        "  AND arrival <= ?1 ORDER BY arrival LIMIT ?2)");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, upto);
    postbag__bind_i64(&s, 2, p->rows);
    postbag__bind_i64(&s, 3, p->now.wall_ms);
    postbag__bind_blob(&s, 4, p->now.boot, sizeof(p->now.boot));
    postbag__bind_i64(&s, 5, p->now.mono_ms);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

int postbag__inbox_cap_dead(
    struct db *db, const struct inbox_purge *p, int64_t *dropped_out)
{
    int64_t upto;
    int64_t count;
    int err = find_excess(db, p->dead_max_rows, &upto);

    *dropped_out = 0;
    if (err != POSTBAG_OK || upto == 0)
        return err;
    err = postbag__begin(db, DB_NORMAL);
    if (err != POSTBAG_OK)
        return err;
    err = drop(db, p, upto);
    count = postbag__changes(db);
    if (err != POSTBAG_OK) {
        postbag__rollback(db);
        return err;
    }
    err = postbag__commit(db);
    if (err == POSTBAG_OK)
        *dropped_out = count;
    return err;
}
