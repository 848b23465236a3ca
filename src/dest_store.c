/* SPDX-License-Identifier: MIT */
/*
 * Adding and removing a destination are FULL commits: programs rely on them.
 * Engine thread or a tool's, each on its own connection.
 */
#include "dest_store.h"

#include <string.h>

#include "error.h"
#include "profile_store.h"
#include "schema.h"

enum { NAME_MAX_BYTES = 64 };

int postbag__dest_check_name(const char *name, struct postbag_fault *why)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789_-.";
    size_t len = strspn(name, allowed);

    if (len > 0 && len <= NAME_MAX_BYTES && name[len] == '\0')
        return POSTBAG_OK;
    return postbag__fail(why, POSTBAG_EINVAL,
        "the destination's name is \"%.80s\"; it may have letters, digits, and"
        " _ - . only, 64 at most",
        name);
}

int postbag__dest_from(const char *word, enum postbag_from *out)
{
    *out = strcmp(word, "oldest") == 0 ? POSTBAG_FROM_OLDEST : POSTBAG_FROM_NOW;
    return *out == POSTBAG_FROM_OLDEST || strcmp(word, "now") == 0
               ? POSTBAG_OK
               : POSTBAG_EINVAL;
}

static int run_all_for(
    struct db *db, const char *const *sql, size_t count, const char *name)
{
    int err = POSTBAG_OK;

    for (size_t i = 0; i < count && err == POSTBAG_OK; i++) {
        struct stmt s;

        err = postbag__prepare(db, &s, sql[i]);
        if (err != POSTBAG_OK)
            break;
        postbag__bind_text(&s, 1, name);
        err = postbag__run(&s);
        postbag__finalize(&s);
    }
    return err;
}

#define RUN_ALL_FOR(db, list, name) \
    run_all_for(db, list, sizeof(list) / sizeof((list)[0]), name)

/* ---- adding ---- */

/*
 * Everything put so far has passed it, rows and bytes alike: the newest seq is
 * the rows ever put.  They are counted in the bulk lane; the sum over lanes
 * counts.
 */
static const char *const from_now[] = {
    "INSERT INTO outbox_dest(name, first_seq)"
    " VALUES (?1, ifnull((SELECT max(seq) FROM outbox), 0) + 1)",

    "INSERT INTO outbox_cursor(dest, lane, acked, sent_hi)"
    " SELECT name, lane, first_seq - 1, first_seq - 1 FROM outbox_dest"
    " JOIN (SELECT 0 AS lane UNION ALL SELECT 1 UNION ALL SELECT 2"
    "  UNION ALL SELECT 3) WHERE name = ?1",

    "UPDATE outbox_cursor SET settled_rows = acked, passed = acked,"
    " settled_bytes = " POSTBAG__BYTES_PUT("") " WHERE dest = ?1 AND lane = 0",
};

static int add(struct db *db, const char *name, enum postbag_from from)
{
    int err = postbag__schema_find_dest(db, name);

    if (err != POSTBAG_ENOTFOUND)
        return err;
    return from == POSTBAG_FROM_OLDEST ? postbag__schema_add_dest(db, name)
                                       : RUN_ALL_FOR(db, from_now, name);
}

/* ---- removing ---- */

/* "seq" in outbox stays as it is: rows for this destination alone pass the
 * others, and so leave in their turn. */
static const char *const removal[] = {
    "DELETE FROM outbox_cursor WHERE dest = ?1",
    "DELETE FROM outbox_held WHERE dest = ?1",
    "DELETE FROM outbox_acks WHERE dest = ?1",
    "DELETE FROM outbox_late WHERE dest = ?1",
    "DELETE FROM outbox_lost WHERE dest = ?1",
    "DELETE FROM outbox_seen WHERE dest = ?1",
    "DELETE FROM outbox_dest WHERE name = ?1",
};

static int drop(struct db *db, const char *name)
{
    int64_t count = 0;
    int err = postbag__schema_find_dest(db, name);

    if (err == POSTBAG_OK)
        err =
            postbag__query_i64(db, "SELECT count(*) FROM outbox_dest", &count);
    if (err == POSTBAG_OK && count == 1)
        return postbag__fail(&db->fault, POSTBAG_ESTATE,
            "it is the last destination, and nobody else would get what is"
            " put");
    if (err == POSTBAG_OK)
        err = postbag__profile_forget(db, name);
    return err == POSTBAG_OK ? RUN_ALL_FOR(db, removal, name) : err;
}

/* ---- transactions ---- */

static int end(struct db *db, int err)
{
    if (err == POSTBAG_OK)
        return postbag__commit(db);
    postbag__rollback(db);
    return err;
}

int postbag__dest_add(struct db *db, const char *name, enum postbag_from from)
{
    int err = postbag__dest_check_name(name, &db->fault);

    if (err == POSTBAG_OK)
        err = postbag__begin(db, DB_FULL);
    return err == POSTBAG_OK ? end(db, add(db, name, from)) : err;
}

int postbag__dest_remove(struct db *db, const char *name)
{
    int err = postbag__begin(db, DB_FULL);

    return err == POSTBAG_OK ? end(db, drop(db, name)) : err;
}
