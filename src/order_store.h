/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  SQL of table inbox_key: which version of each key a consumer has
 * taken last.  In the transaction that stores the command:
 *
 *     check --> postbag__inbox_accept --> take, if it is new and not dead
 *
 * One thread at a time, the one of the connection.
 */
#ifndef POSTBAG_SRC_ORDER_STORE_H
#define POSTBAG_SRC_ORDER_STORE_H

#include "db.h"
#include "inbox_store.h"
#include "order.h"

/* A SELECT of the version that this one is compared with; consumer is ?1, key
 * ?2.  The last one taken, or, if discarded ones follow it without a gap, the
 * last of these below this version. */
#define POSTBAG__ORDER_LAST(version) \
    "WITH RECURSIVE come(v) AS (SELECT last_version FROM main.inbox_key" \
    "  WHERE consumer = ?1 AND key = ?2" \
    " UNION ALL SELECT v + 1 FROM come WHERE v + 1 < " version \
    "  AND EXISTS (SELECT 1 FROM main.inbox WHERE consumer = ?1 AND key = ?2" \
    "   AND key_version = v + 1 AND state = 'done' AND error = 'discarded'))" \
    " SELECT v FROM come ORDER BY v DESC LIMIT 1"

struct order_store {
    struct stmt last;
    struct stmt take;
};

POSTBAG_CHECK int postbag__order_open(struct order_store *s, struct db *db);
void postbag__order_close(struct order_store *s);

/* Fills a->order and a->previous_version, and a->dead where the rules refuse.
 * What has no key or version, or is dead already, has no order. */
POSTBAG_CHECK int postbag__order_check(struct order_store *s,
    const struct order_rules *rules, struct inbox_arrival *a);
/* This is what the next one is compared with.  arrival 0: the row that was
 * inserted last. */
POSTBAG_CHECK int postbag__order_take(struct order_store *s,
    const char *consumer, const char *key, int64_t version, int64_t arrival);

#endif
