/* SPDX-License-Identifier: MIT */
/*
 * A requeued row keeps arrival and id: it is handled in its old place among
 * those of its key, and a redelivery is still a duplicate.  A discarded one
 * stays as a done one does, by its identity, for the same reason.
 */
#include "inbox_repair.h"

#include "inbox_damage.h"
#include "inbox_store.h"

/* Named ones need not be dead yet; ?1 to ?4 as bind() says. */
#define CHOSEN(named) \
    " WHERE (?1 = 0 OR arrival = ?1) AND (?2 IS NULL OR consumer = ?2)" \
    " AND (?3 IS NULL OR CAST(id AS BLOB) = ?3)" \
    " AND (state = 'dead' OR ?4 AND " named ")"

#define CHOSEN_DEAD CHOSEN("0")
#define IS_WHOLE \
    " AND payload NOT NULL" \
    " AND ifnull(error, '') NOT GLOB '" POSTBAG__INBOX_DAMAGED "*'"
#define IS_RETRY "state = 'due' AND due_ms NOT NULL"

static int is_named(const struct postbag_inbox_choice *which)
{
    return which->arrival != 0 || which->id != NULL;
}

static void bind(struct stmt *s, const struct postbag_inbox_choice *which)
{
    postbag__bind_i64(s, 1, which->arrival);
    postbag__bind_text(s, 2, which->consumer);
    if (which->id != NULL)
        postbag__bind_blob(s, 3, which->id, which->id_len);
    postbag__bind_i64(s, 4, is_named(which));
}

static int run(struct db *db, struct stmt *s, int64_t *count_out)
{
    int err = postbag__run(s);

    *count_out = err == POSTBAG_OK ? postbag__changes(db) : 0;
    postbag__finalize(s);
    return err;
}

/* What was refused at the door counts from now on as taken: those after it
 * would else be refused for ever.  It has no processed_ms. */
static int take_versions(
    struct db *db, const struct postbag_inbox_choice *which)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "INSERT INTO main.inbox_key(consumer, key, last_version, arrival)"
        " SELECT consumer, key, max(key_version), arrival"
        " FROM main.inbox" CHOSEN_DEAD
        " AND payload NOT NULL AND processed_ms IS NULL"
        " AND key NOT NULL AND key_version NOT NULL"
        " GROUP BY consumer, key ON CONFLICT(consumer, key)"
        " DO UPDATE SET last_version = excluded.last_version,"
        "  arrival = excluded.arrival"
        " WHERE excluded.last_version > last_version");

    if (err != POSTBAG_OK)
        return err;
    bind(&s, which);
    err = postbag__run(&s);
    postbag__finalize(&s);
    return err;
}

/* Without its payload (it was too large) a command cannot be handled, nor what
 * is left of a damaged one. */
int postbag__inbox_requeue(
    struct db *db, const struct postbag_inbox_choice *which, int64_t *count_out)
{
    struct stmt s;
    int err = take_versions(db, which);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__prepare(db, &s,
        "UPDATE main.inbox SET attempts = iif(state = 'dead', 0, attempts),"
        " state = 'due', due_boot = NULL, due_ms = NULL,"
        " processed_ms = NULL" CHOSEN(IS_RETRY) IS_WHOLE);

    if (err != POSTBAG_OK)
        return err;
    bind(&s, which);
    return run(db, &s, count_out);
}

int postbag__inbox_discard(struct db *db,
    const struct postbag_inbox_choice *which, const struct moment *now,
    int64_t *count_out)
{
    struct stmt s;
    int err = postbag__prepare(db, &s,
        "UPDATE main.inbox SET" POSTBAG__INBOX_SHRINK
        ", error = 'discarded', processed_ms = ?5, boot = ?6,"
        " mono_ms = ?7" CHOSEN("state IN ('due', 'deferred')"));

    if (err != POSTBAG_OK)
        return err;
    bind(&s, which);
    postbag__bind_i64(&s, 5, now->wall_ms);
    postbag__bind_blob(&s, 6, now->boot, sizeof(now->boot));
    postbag__bind_i64(&s, 7, now->mono_ms);
    return run(db, &s, count_out);
}
