/* SPDX-License-Identifier: MIT */
/*
 * Coalescing.  The index outbox_coalesce has only rows that ask for it, so
 * others pay nothing.  The trigger runs in the application's transaction, the
 * rest on the engine's thread.
 */
#include "coalesce_store.h"

#include <stddef.h>
#include <string.h>

#include "drop_sql.h"

static const char trigger[] =
    "CREATE TRIGGER outbox_replace AFTER INSERT ON outbox"
    " WHEN NEW.coalesce IS NOT NULL AND EXISTS"
    " (SELECT 1 FROM outbox o WHERE " POSTBAG__REPLACED ")"
    " BEGIN " DROP_COUNT(POSTBAG__REPLACED, "NEW.priority")
        DROP_SUM_UP(POSTBAG__REPLACED, "coalesced")
            DROP_DELETE(POSTBAG__REPLACED) " END";

int postbag__coalesce_create(struct db *db)
{
    int err = postbag__exec(db,
        "CREATE INDEX outbox_coalesce ON outbox(coalesce, seq)"
        " WHERE coalesce IS NOT NULL");

    if (err == POSTBAG_OK)
        err = postbag__exec(db,
            "CREATE INDEX outbox_held_coalesce"
            " ON outbox_held(dest, coalesce, seq) WHERE coalesce IS NOT NULL");
    return err == POSTBAG_OK ? postbag__exec(db, trigger) : err;
}

/* ---- what the relay asks ---- */

#define ALIKE(newer, older) \
    newer ".coalesce = " older ".coalesce AND " newer ".seq > " older \
          ".seq AND " newer ".key IS " older ".key AND " newer \
          ".priority = " older ".priority"
#define WAITS(alias) alias ".state IN ('retry', 'behind')"

static const struct stmt_plan plan[] = {
    {offsetof(struct coalesce_store, newer),
        "SELECT 1 FROM outbox o JOIN outbox n ON " ALIKE(
            "n", "o") " AND (n.dest IS NULL OR n.dest = ?1) WHERE o.seq = ?2 "
                      "LIMIT 1"},
    {offsetof(struct coalesce_store, newer_than_held),
        "SELECT 1 FROM outbox_held h WHERE h.dest = ?1 AND h.seq = ?2"
        " AND (EXISTS (SELECT 1 FROM outbox n WHERE " ALIKE("n",
            "h") "   AND (n.dest IS NULL OR n.dest = ?1) AND NOT EXISTS"
                 "    (SELECT 1 FROM outbox_held x WHERE x.dest = ?1"
                 "     AND x.seq = n.seq AND x.state = 'dead'))"
                 "  OR EXISTS (SELECT 1 FROM outbox_held n WHERE n.dest = ?1"
                 "   AND " ALIKE("n", "h") " AND " WAITS("n") "))"},
    {offsetof(struct coalesce_store, older_held),
        "SELECT h.seq FROM outbox o JOIN outbox_held h ON h.dest = ?1"
        " AND " ALIKE("o", "h") " AND " WAITS(
            "h") " WHERE o.seq = ?2 AND NOT h.replay ORDER BY h.seq LIMIT 1"},
};
enum { STATEMENTS = sizeof(plan) / sizeof(plan[0]) };

int postbag__coalesce_open(
    struct coalesce_store *c, struct db *db, const char *dest)
{
    memset(c, 0, sizeof(*c));
    c->db = db;
    c->dest = dest;
    return postbag__prepare_all(db, c, plan, STATEMENTS);
}

void postbag__coalesce_close(struct coalesce_store *c)
{
    postbag__finalize_all(c, plan, STATEMENTS);
}

static int ask(
    struct coalesce_store *c, struct stmt *s, int64_t seq, int64_t *out)
{
    int err;

    postbag__bind_text(s, 1, c->dest);
    postbag__bind_i64(s, 2, seq);
    err = postbag__row(s);
    if (err != 1)
        return err;
    *out = postbag__col_i64(s, 0);
    postbag__reset(s);
    return 1;
}

int postbag__coalesce_newer(struct coalesce_store *c, int64_t seq)
{
    int64_t one;

    return ask(c, &c->newer, seq, &one);
}

int postbag__coalesce_newer_than_held(struct coalesce_store *c, int64_t seq)
{
    int64_t one;

    return ask(c, &c->newer_than_held, seq, &one);
}

int postbag__coalesce_older_held(
    struct coalesce_store *c, int64_t seq, int64_t *out)
{
    return ask(c, &c->older_held, seq, out);
}
