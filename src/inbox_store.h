/* SPDX-License-Identifier: MIT */
/*
 * Floor 2.  The SQL of inbox rows, and nothing else.
 *
 *     accept --> due --> done          (deleted by age, inbox_purge.h)
 *       |         |
 *       +-------> dead                 (only an operator moves it)
 *
 * and, before that, deferred           (deferral.h)
 *
 * Statements are made when first used, so that the receiver does not pay for
 * the worker's.  Every call stands in a transaction of the caller, or reads.
 * One thread at a time, the one of the connection.
 */
#ifndef POSTBAG_SRC_INBOX_STORE_H
#define POSTBAG_SRC_INBOX_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "db.h"
#include "inbox_damage.h"
#include "moment.h"
#include "postbag/port.h"

/* In an UPDATE: what a row forgets when it becomes done.  Its pages are freed
 * instead of being written once more.  Identity, content hash and result stay,
 * to know a duplicate by and to answer it; the topic for people. */
#define POSTBAG__INBOX_SHRINK \
    " state = 'done', payload = NULL, content_type = NULL," \
    " response_topic = NULL, correlation_data = NULL, headers = NULL," \
    " expires_ms = NULL, due_boot = NULL, due_ms = NULL"

enum inbox_statement {
    INBOX_INSERT,
    INBOX_NEXT,
    INBOX_AGAIN,
    INBOX_EARLIEST,
    INBOX_DONE,
    INBOX_RETRY,
    INBOX_DEAD,
    INBOX_STATEMENTS
};

struct inbox_store {
    struct db *db;
    struct stmt stmts[INBOX_STATEMENTS];
};

/* A moment, as deadlines are kept: boot and time since boot. */
struct inbox_now {
    const uint8_t *boot; /* 16 bytes */
    int64_t mono_ms;
    int64_t wall_ms;
    int64_t furthest_ms; /* later retry times have come, see moment.h */
};
/* The greatest retry_cap_ms and version_defer_ms. */
#define POSTBAG__INBOX_DELAY_MS INT64_C(86400000)

/* boot: the port's, borrowed. */
struct inbox_now postbag__inbox_now(
    const struct postbag_port *port, const uint8_t *boot);
/* How long a command waits for its next try after so many failed ones; without
 * random bytes as long as it may be. */
uint32_t postbag__inbox_backoff_ms(const struct postbag_port *port,
    int64_t failures, uint32_t base_ms, uint32_t cap_ms);

/* What accept stores.  All borrowed for the call. */
struct inbox_arrival {
    const char *consumer;
    const char *source;
    const void *id;
    size_t id_len;
    int id_is_text;
    const uint8_t *content_hash; /* 32 bytes */
    const char *dead;            /* why it is born dead; NULL: it is due */
    const char *topic;
    const void *payload; /* NULL: not kept */
    size_t payload_len;
    int payload_is_text;
    const char *content_type;
    const char *key;
    int has_key_version;
    int64_t key_version;
    int has_previous_version; /* as order_store.h found it */
    int64_t previous_version;
    enum postbag_order order;
    const char *response_topic;
    const void *correlation;
    size_t correlation_len;
    const char *headers;
    int64_t expires_ms; /* how long it is valid from now on; 0: for ever */
    struct inbox_now now;
};

enum inbox_accepted { INBOX_NEW, INBOX_DUPLICATE, INBOX_CONFLICT };

/* One row for work.  Borrowed until postbag__inbox_release. */
struct inbox_row {
    int64_t arrival;
    int64_t attempts; /* so far */
    int is_tried;     /* and this one is charged ahead, by postbag__inbox_try */
    int64_t expires_ms; /* how long it was valid when it came; 0: for ever */
    struct moment came;
    struct inbox_damage damage; /* if so, of the command only the consumer */
    struct postbag_command command;
};

void postbag__inbox_open(struct inbox_store *s, struct db *db);
void postbag__inbox_close(struct inbox_store *s);

/* Consumer, source and id as ?1 to ?3. */
void postbag__inbox_bind_name(struct stmt *s, const struct inbox_arrival *a);
/*
 * Insert, or count a duplicate (seen + 1).  The constraint decides, in one
 * statement.  A duplicate changes its row, so that its commit has something to
 * sync.  INBOX_CONFLICT: the id is there with other content; nothing changed.
 */
POSTBAG_CHECK int postbag__inbox_accept(struct inbox_store *s,
    const struct inbox_arrival *a, enum inbox_accepted *out);

/*
 * The oldest row of a consumer that may be handled now: due, its retry time
 * come, no unfinished row of its key before it.  A retry time of another boot
 * has come.  *found 1: *row is valid until release.
 */
POSTBAG_CHECK int postbag__inbox_next(struct inbox_store *s,
    const char *consumer, const struct inbox_now *now, struct inbox_row *row,
    int *found);
/*
 * Charge an attempt ahead, with a retry time and why, as if it had failed: so
 * it reads if the process does not live to say more.  OK: row is released.
 */
POSTBAG_CHECK int postbag__inbox_try(struct inbox_store *s,
    struct inbox_row *row, const struct inbox_now *now, int64_t delay_ms,
    const char *error);
/* That row once more, in a later transaction, if it is still due and the first
 * of its key; attempts are those before one that was charged ahead. */
POSTBAG_CHECK int postbag__inbox_again(
    struct inbox_store *s, struct inbox_row *row, int *found);
void postbag__inbox_release(struct inbox_store *s);
/* Did it wait for longer than it was valid?  And why it is dead then. */
int postbag__inbox_is_expired(
    const struct inbox_row *row, const struct inbox_now *now);
#define POSTBAG__EXPIRED \
    "expired: it was valid for a shorter time than it waited"
/* The earliest retry time of a consumer that is still to come in this boot;
 * ENOTFOUND: none. */
POSTBAG_CHECK int postbag__inbox_earliest(struct inbox_store *s,
    const char *consumer, const struct inbox_now *now, int64_t *mono_ms_out);

/* Of a row that is due; else ENOTFOUND and nothing changed.  charge: attempts
 * to add: 1, or 0 where it does not count or is charged already, or -1 to take
 * that back. */
POSTBAG_CHECK int postbag__inbox_done(struct inbox_store *s, int64_t arrival,
    const struct inbox_now *now, int charge);
POSTBAG_CHECK int postbag__inbox_retry(struct inbox_store *s, int64_t arrival,
    const struct inbox_now *now, int64_t delay_ms, int charge,
    const char *error);
POSTBAG_CHECK int postbag__inbox_dead(struct inbox_store *s, int64_t arrival,
    const struct inbox_now *now, int charge, const char *error);

#endif
