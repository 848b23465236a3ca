/* SPDX-License-Identifier: MIT */
/* A row of inbox_key goes with the command that it is of, or with the last one
 * that waits, by triggers (schema_inbox.c), so that there are never more of
 * them than commands. */
#include "order_store.h"

static const char last_sql[] = POSTBAG__ORDER_LAST("?3");

static const char take_sql[] =
    "INSERT INTO main.inbox_key(consumer, key, last_version, arrival)"
    " VALUES (?1, ?2, ?3, coalesce(nullif(?4, 0), last_insert_rowid()))"
    " ON CONFLICT(consumer, key) DO UPDATE SET"
    " last_version = excluded.last_version, arrival = excluded.arrival";

int postbag__order_open(struct order_store *s, struct db *db)
{
    int err = postbag__prepare(db, &s->last, last_sql);

    return err == POSTBAG_OK ? postbag__prepare(db, &s->take, take_sql) : err;
}

void postbag__order_close(struct order_store *s)
{
    postbag__finalize(&s->last);
    postbag__finalize(&s->take);
}

int postbag__order_check(struct order_store *s, const struct order_rules *rules,
    struct inbox_arrival *a)
{
    const int64_t *previous = NULL;
    int err;

    a->order = POSTBAG_ORDER_NONE;
    if (a->key == NULL || !a->has_key_version || a->dead != NULL)
        return POSTBAG_OK;
    postbag__bind_text(&s->last, 1, a->consumer);
    postbag__bind_text(&s->last, 2, a->key);
    postbag__bind_i64(&s->last, 3, a->key_version);
    err = postbag__row(&s->last);
    if (err == 1) {
        a->has_previous_version = 1;
        a->previous_version = postbag__col_i64(&s->last, 0);
        previous = &a->previous_version;
        err = POSTBAG_OK;
    }
    postbag__reset(&s->last);
    a->order = postbag__order_of(&a->key_version, previous);
    a->dead = postbag__order_refusal(rules, a->order);
    return err;
}

int postbag__order_take(struct order_store *s, const char *consumer,
    const char *key, int64_t version, int64_t arrival)
{
    postbag__bind_text(&s->take, 1, consumer);
    postbag__bind_text(&s->take, 2, key);
    postbag__bind_i64(&s->take, 3, version);
    postbag__bind_i64(&s->take, 4, arrival);
    return postbag__run(&s->take);
}
