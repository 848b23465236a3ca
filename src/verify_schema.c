/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  The definitions of tables and triggers are compared with those
 * that this library would write with the same options, in a database in
 * memory.
 */
#include <stdio.h>

#include "error.h"
#include "limit_store.h"
#include "profile_store.h"
#include "room.h"
#include "schema.h"
#include "verify.h"

/* ---- the model ---- */

/* An error of the model is told as one of the database. */
static int of_model(struct db *model, struct db *db, int err)
{
    return err == POSTBAG_OK ? err : postbag__pass(&db->fault, &model->fault);
}

/* What setting the options of db would write. */
static int set_options(struct db *model, struct db *db)
{
    struct limits limits;
    int64_t max_payload = 0;
    int err = postbag__query_i64(db,
        "SELECT ifnull((SELECT value FROM outbox_meta"
        " WHERE key = 'max_payload'), 0)",
        &max_payload);

    if (err == POSTBAG_OK)
        err = postbag__limits_read(db, &limits);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__schema_ensure(model, (uint32_t)max_payload);
    if (err == POSTBAG_OK)
        err = postbag__limits_set(model, &limits);
    return of_model(model, db, err);
}

static int copy_dest(struct db *model, struct db *db, const char *dest)
{
    const struct postbag_profile *profile;
    int err = postbag__profile_read(db, dest, &profile);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__schema_add_dest(model, dest);
    if (err == POSTBAG_OK)
        err = postbag__profile_set(model, dest, profile);
    return of_model(model, db, err);
}

static int copy_dests(
    struct db *model, struct db *db, const struct postbag_verify *v)
{
    struct stmt s;
    int err = postbag__prepare(db, &s, "SELECT name FROM outbox_dest");

    while (err >= 0 && (err = postbag__row(&s)) == 1) {
        err = copy_dest(model, db, postbag__col_string(&s, 0));
        if (err == POSTBAG_EINVAL)
            err = postbag__verify_tell(
                v, "schema", postbag__col_string(&s, 0), db->fault.text);
        if (err != POSTBAG_OK)
            break;
    }
    postbag__finalize(&s);
    return err < 0 ? postbag__verify_unreadable(db, v, "schema", NULL, err)
                   : err;
}

/* ---- comparing ---- */

/* wanted stands on a definition: does the other database have it? */
static int compare(const struct postbag_verify *v, struct stmt *wanted,
    struct stmt *found, const char *missing)
{
    const char *kind = postbag__col_string(wanted, 0);
    const char *name = postbag__col_string(wanted, 1);
    int is_there;
    int is_same = 0;
    char text[160];

    for (int i = 0; i < 3; i++)
        postbag__bind_text(found, i + 1, postbag__col_text(wanted, i));
    is_there = postbag__row(found);
    if (is_there == 1) {
        is_same = postbag__col_i64(found, 0) != 0;
        postbag__reset(found);
    }
    if (is_there < 0 || is_same)
        return is_there < 0 ? is_there : POSTBAG_OK;
    (void)snprintf(text, sizeof(text), "%s %s %s", kind, name,
        is_there ? "is not as this library writes it" : missing);
    return postbag__verify_tell(v, "schema", NULL, text);
}

static int compare_all(const struct postbag_verify *v, struct db *wanted_in,
    const char *wanted_sql, struct db *found_in, const char *found_sql,
    const char *missing)
{
    struct stmt wanted = {0};
    struct stmt found = {0};
    int err = postbag__prepare(wanted_in, &wanted, wanted_sql);

    if (err == POSTBAG_OK)
        err = postbag__prepare(found_in, &found, found_sql);
    while (err == POSTBAG_OK && (err = postbag__row(&wanted)) == 1)
        err = compare(v, &wanted, &found, missing);
    postbag__finalize(&wanted);
    postbag__finalize(&found);
    return err;
}

int postbag__verify_schema(struct db *db, const struct postbag_verify *v)
{
    struct db model;
    int err = postbag__db_open(&model, ":memory:", DB_SCRATCH, DB_NORMAL, 0);

    err = of_model(&model, db, err);
    if (err == POSTBAG_OK)
        err = set_options(&model, db);
    if (err == POSTBAG_OK)
        err = copy_dests(&model, db, v);
    model.fault.code = POSTBAG_OK;
    if (err == POSTBAG_OK)
        err = compare_all(v, &model,
            "SELECT type, name, sql FROM sqlite_schema WHERE sql NOT NULL", db,
            "SELECT sql = ?3 FROM main.sqlite_schema"
            " WHERE type = ?1 AND name = ?2",
            "is missing");
    /* a trigger of ours that ought to be gone refuses messages */
    if (err == POSTBAG_OK)
        err = compare_all(v, db,
            "SELECT type, name, sql FROM main.sqlite_schema"
            " WHERE type = 'trigger' AND tbl_name = 'outbox'"
            "  AND substr(name, 1, 7) = 'outbox_'"
            "  AND name <> '" POSTBAG__ROOM_GUARD "'",
            &model,
            "SELECT ?3 NOT NULL FROM sqlite_schema"
            " WHERE type = ?1 AND name = ?2",
            "ought to be gone");
    if (err != POSTBAG_OK && model.fault.code == err)
        err = of_model(&model, db, err);
    postbag__db_close(&model);
    return err;
}
