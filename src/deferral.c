/* SPDX-License-Identifier: MIT */
/* What waits is bounded in time and in rows: nothing waits for ever. */
#include "deferral.h"

#include "error.h"
#include "inbox_damage.h"
#include "mem.h"

#define LAST_BEFORE_I POSTBAG__ORDER_LAST("i.key_version")

static const char *const sql[DEFERRAL_STATEMENTS] = {
    [DEFERRAL_PARK] =
        "UPDATE main.inbox SET state = 'deferred', due_boot = ?1, due_ms = ?2"
        " WHERE arrival = last_insert_rowid()",
    [DEFERRAL_JOIN] =
        "UPDATE main.inbox AS i SET state = 'deferred', due_boot = w.due_boot,"
        " due_ms = w.due_ms FROM (SELECT due_boot, due_ms FROM main.inbox"
        "  WHERE consumer = ?1 AND key = ?2 AND state = 'deferred'"
        "  AND key_version <= ?3 ORDER BY key_version DESC LIMIT 1) AS w"
        " WHERE i.arrival = last_insert_rowid() RETURNING 1",
    /* in a full inbox any number is too many: the missing one must get in */
    [DEFERRAL_COUNT] =
        "SELECT iif((SELECT max_rows > 0 AND open_rows >= max_rows"
        "  OR max_bytes > 0 AND open_bytes >= max_bytes FROM main.inbox_sum),"
        "  1000000000, count(*)) FROM main.inbox"
        " WHERE consumer = ?1 AND state = 'deferred'",
    [DEFERRAL_LOWEST] =
        "SELECT arrival, key_version, (" LAST_BEFORE_I
        ")," POSTBAG__INBOX_DAMAGE " FROM main.inbox i"
        " WHERE consumer = ?1 AND key = ?2 AND state = 'deferred'"
        " ORDER BY key_version, arrival LIMIT 1",
    [DEFERRAL_FREE] =
        "UPDATE main.inbox SET state = iif(?2 IS NULL, 'due', 'dead'),"
        " error = ?2, processed_ms = iif(?2 IS NULL, NULL, ?3),"
        " previous_version = ?4, due_boot = NULL, due_ms = NULL,"
        " arrival = (SELECT max(arrival) + 1 FROM main.inbox)"
        " WHERE arrival = ?1 RETURNING arrival",
    [DEFERRAL_OVERDUE] =
        "SELECT key, arrival," POSTBAG__INBOX_DAMAGE " FROM main.inbox"
        " WHERE consumer = ?1 AND state = 'deferred'"
        " AND (due_boot IS NOT ?2 OR due_ms <= ?3 OR due_ms > ?4) LIMIT 1",
};

int postbag__deferral_open(struct deferral *d, struct db *db)
{
    int err = postbag__order_open(&d->order, db);

    d->db = db;
    for (int i = 0; i < DEFERRAL_STATEMENTS && err == POSTBAG_OK; i++)
        err = postbag__prepare(db, &d->stmts[i], sql[i]);
    return err;
}

void postbag__deferral_close(struct deferral *d)
{
    postbag__order_close(&d->order);
    for (int i = 0; i < DEFERRAL_STATEMENTS; i++)
        postbag__finalize(&d->stmts[i]);
}

/* ---- rows that go on --------------------------------------------------- */

struct waiting {
    int64_t arrival, version, last;
    int has_last;
    struct inbox_damage damage;
};

static int find_lowest(struct deferral *d, const char *consumer,
    const char *key, struct waiting *out, int *found)
{
    struct stmt *lowest = &d->stmts[DEFERRAL_LOWEST];
    int err;

    postbag__bind_text(lowest, 1, consumer);
    postbag__bind_text(lowest, 2, key);
    err = postbag__row(lowest);
    *found = err == 1;
    if (err != 1)
        return err;
    out->arrival = postbag__col_i64(lowest, 0);
    out->version = postbag__col_i64(lowest, 1);
    out->has_last = !postbag__col_is_null(lowest, 2);
    out->last = postbag__col_i64(lowest, 2);
    postbag__inbox_damage_read(lowest, 3, &out->damage);
    postbag__reset(lowest);
    return POSTBAG_OK;
}

static int let_go(struct deferral *d, const char *consumer, const char *key,
    const struct waiting *row, const char *dead, int64_t wall_ms)
{
    struct stmt *go = &d->stmts[DEFERRAL_FREE];
    int64_t arrival = 0;
    int err;

    postbag__bind_i64(go, 1, row->arrival);
    postbag__bind_text(go, 2, dead);
    postbag__bind_i64(go, 3, wall_ms);
    if (row->has_last)
        postbag__bind_i64(go, 4, row->last);
    else
        postbag__bind_null(go, 4);
    err = postbag__row(go);
    if (err == 1) {
        arrival = postbag__col_i64(go, 0);
        err = postbag__run(go);
    }
    if (err != POSTBAG_OK || dead != NULL)
        return err;
    return postbag__order_take(&d->order, consumer, key, row->version, arrival);
}

/* Lowest version first, over so many gaps at most.  A gap that was waited for
 * is accepted, whatever the rule is now. */
static int go_on(struct deferral *d, const struct consumer *who,
    const char *key, int64_t wall_ms, int64_t gaps)
{
    struct waiting row;
    int found;
    int err = find_lowest(d, who->name, key, &row, &found);

    while (err == POSTBAG_OK && found) {
        enum postbag_order order =
            postbag__order_of(&row.version, row.has_last ? &row.last : NULL);

        if (row.damage.text[0] != '\0')
            err = postbag__inbox_damage_bury(
                d->db, row.arrival, &row.damage, wall_ms);
        else if (order == POSTBAG_ORDER_GAP && gaps-- == 0)
            break;
        else
            err = let_go(d, who->name, key, &row,
                order == POSTBAG_ORDER_GAP
                    ? NULL
                    : postbag__order_refusal(&who->versions, order),
                wall_ms);
        if (err == POSTBAG_OK)
            err = find_lowest(d, who->name, key, &row, &found);
    }
    return err;
}

/* ---- accept ------------------------------------------------------------ */

int postbag__deferral_check(
    struct deferral *d, const struct consumer *who, struct inbox_arrival *a)
{
    return postbag__order_check(&d->order, &who->versions, a);
}

static int count(struct deferral *d, const char *consumer, int64_t *out)
{
    struct stmt *s = &d->stmts[DEFERRAL_COUNT];
    int err;

    postbag__bind_text(s, 1, consumer);
    err = postbag__row(s);
    if (err != 1)
        return err;
    *out = postbag__col_i64(s, 0);
    postbag__reset(s);
    return POSTBAG_OK;
}

static int park(struct deferral *d, const struct consumer *who,
    const struct inbox_arrival *a)
{
    struct stmt *s = &d->stmts[DEFERRAL_PARK];

    postbag__bind_blob(s, 1, a->now.boot, 16);
    postbag__bind_i64(s, 2, a->now.mono_ms + who->versions.defer_ms);
    return postbag__run(s);
}

/* A gap that need not wait does not overtake those that do, since another rule
 * held when they came.  It waits for no longer than they. */
static int join(struct deferral *d, const struct consumer *who,
    const struct inbox_arrival *a, int *waits)
{
    struct stmt *s = &d->stmts[DEFERRAL_JOIN];
    int err;

    postbag__bind_text(s, 1, who->name);
    postbag__bind_text(s, 2, a->key);
    postbag__bind_i64(s, 3, a->key_version);
    err = postbag__row(s);
    *waits = err == 1;
    return err == 1 ? postbag__run(s) : err;
}

/* Where too many wait this key no longer does. */
static int limit(struct deferral *d, const struct consumer *who,
    const struct inbox_arrival *a)
{
    int64_t waiting = 0;
    int err = count(d, who->name, &waiting);

    if (err != POSTBAG_OK || waiting <= who->versions.defer_rows)
        return err;
    return go_on(d, who, a->key, a->now.wall_ms, waiting);
}

int postbag__deferral_stored(struct deferral *d, const struct consumer *who,
    const struct inbox_arrival *a)
{
    int waits = a->order == POSTBAG_ORDER_GAP;
    int err = POSTBAG_OK;

    if (a->order == POSTBAG_ORDER_NONE)
        return err;
    if (waits)
        err = who->versions.gap == ORDER_DEFER ? park(d, who, a)
                                               : join(d, who, a, &waits);
    if (err == POSTBAG_OK && waits)
        return limit(d, who, a);
    if (err == POSTBAG_OK)
        err = postbag__order_take(
            &d->order, who->name, a->key, a->key_version, 0);
    return err == POSTBAG_OK ? go_on(d, who, a->key, a->now.wall_ms, 0) : err;
}

/* ---- time -------------------------------------------------------------- */

/* 1: the statement stands on the row.  Reset it. */
static int find_overdue(
    struct deferral *d, const struct consumer *who, const struct inbox_now *now)
{
    struct stmt *s = &d->stmts[DEFERRAL_OVERDUE];
    /* some may wait since another rule held */
    int64_t most_ms = who->versions.gap == ORDER_DEFER
                          ? (int64_t)who->versions.defer_ms
                          : POSTBAG__INBOX_DELAY_MS;

    postbag__bind_text(s, 1, who->name);
    postbag__bind_blob(s, 2, now->boot, 16);
    postbag__bind_i64(s, 3, now->mono_ms);
    postbag__bind_i64(s, 4, postbag__moment_furthest(now->mono_ms, most_ms));
    return postbag__row(s);
}

int postbag__deferral_is_overdue(struct deferral *d, const struct consumer *who,
    const struct inbox_now *now, int *is_out)
{
    int err = find_overdue(d, who, now);

    postbag__reset(&d->stmts[DEFERRAL_OVERDUE]);
    *is_out = err == 1;
    return err < 0 ? err : POSTBAG_OK;
}

int postbag__deferral_give_up(
    struct deferral *d, const struct consumer *who, const struct inbox_now *now)
{
    struct stmt *s = &d->stmts[DEFERRAL_OVERDUE];
    int err = find_overdue(d, who, now);
    struct inbox_damage damage;
    int64_t arrival;
    char *key;

    if (err != 1)
        return err;
    arrival = postbag__col_i64(s, 1);
    postbag__inbox_damage_read(s, 2, &damage);
    if (damage.text[0] != '\0') {
        postbag__reset(s);
        return postbag__inbox_damage_bury(
            d->db, arrival, &damage, now->wall_ms);
    }
    key = postbag__copy(postbag__col_text(s, 0));
    postbag__reset(s);
    if (key == NULL)
        return postbag__fail(
            &d->db->fault, POSTBAG_ENOMEM, "no memory for a command's key");
    err = go_on(d, who, key, now->wall_ms, 1);
    postbag__free(key);
    return err;
}
