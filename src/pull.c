/* SPDX-License-Identifier: MIT */
/*
 * Floor 3.  Commands that the application pulls: what the worker does
 * (handling.c), on the caller's own connection and thread, and as far as it
 * can be in the caller's own transaction.
 *
 * A row is chosen by a look and marked by a later statement, with or without
 * the write lock in between: what decides is that the mark changes a row that
 * is still due, in the transaction of the effect.
 */
#include "postbag/pull.h"

#include <string.h>

#include "abi.h"
#include "command.h"
#include "config.h"
#include "error.h"
#include "inbox_store.h"
#include "printable.h"
#include "writer.h"

static struct inbox_now now_of(const struct postbag_writer *w)
{
    return postbag__inbox_now(w->port, w->boot);
}

/* ---- next -------------------------------------------------------------- */

/* A transaction of ours, unless the caller's is open. */
static int begin_own(struct postbag_writer *w, int *is_own)
{
    *is_own = !postbag__in_transaction(&w->db);
    return *is_own ? postbag_begin(w) : POSTBAG_OK;
}

static int end_own(struct postbag_writer *w, int is_own, int err)
{
    if (!is_own)
        return err;
    if (err == POSTBAG_OK)
        return postbag_commit(w);
    postbag_rollback(w);
    return err;
}

static int bury(struct postbag_writer *w, struct inbox_store *s,
    const struct inbox_row *row)
{
    struct inbox_now at = now_of(w);
    int is_own;
    int err = begin_own(w, &is_own);

    if (err != POSTBAG_OK)
        return err;
    if (row->damage.text[0] != '\0')
        err = postbag__inbox_damage_bury(
            &w->db, row->arrival, &row->damage, at.wall_ms);
    else
        err = postbag__inbox_dead(s, row->arrival, &at, 0, POSTBAG__EXPIRED);
    err = end_own(w, is_own, err);
    /* somebody else finished it meanwhile */
    return err == POSTBAG_ENOTFOUND ? POSTBAG_OK : err;
}

/* The next one; those that are damaged or expired are dead then. */
static int find(struct postbag_writer *w, struct inbox_store *s,
    const char *consumer, struct postbag_command *out)
{
    struct inbox_row row;
    int found = 1;
    int err = POSTBAG_OK;

    while (err == POSTBAG_OK && found) {
        struct inbox_now at = now_of(w);

        err = postbag__inbox_next(s, consumer, &at, &row, &found);
        if (err != POSTBAG_OK || !found)
            break;
        if (row.damage.text[0] == '\0' &&
            !postbag__inbox_is_expired(&row, &at)) {
            *out = row.command;
            err = postbag__command_copy(&w->pulled, out);
            return err == POSTBAG_OK ? err
                                     : postbag__fail(&w->db.fault, err,
                                           "no memory for a command");
        }
        postbag__inbox_release(s);
        err = bury(w, s, &row);
    }
    if (err != POSTBAG_OK)
        return err;
    return postbag__fail(
        &w->db.fault, POSTBAG_ENOTFOUND, "no command of the consumer is due");
}

int postbag_inbox_next(
    struct postbag_writer *w, const char *consumer, struct postbag_command *out)
{
    struct postbag_command found;
    struct inbox_store store;
    size_t size;
    int err;

    if (w == NULL || consumer == NULL || out == NULL)
        return POSTBAG_EINVAL;
    err = postbag__adopt(&found, sizeof(found), out);
    if (err != POSTBAG_OK)
        return postbag__fail(
            &w->db.fault, err, "next: struct_size is not of this library");
    size = out->struct_size;
    postbag__inbox_open(&store, &w->db);
    err = find(w, &store, consumer, &found);
    postbag__inbox_close(&store);
    if (err != POSTBAG_OK)
        return err;
    found.struct_size = size;
    memcpy(out, &found, size < sizeof(found) ? size : sizeof(found));
    return POSTBAG_OK;
}

/* ---- done -------------------------------------------------------------- */

int postbag_inbox_done(struct postbag_writer *w, int64_t arrival)
{
    struct inbox_store store;
    struct inbox_now at;
    int err;

    if (w == NULL)
        return POSTBAG_EINVAL;
    if (!postbag__in_transaction(&w->db))
        return postbag__fail(&w->db.fault, POSTBAG_ENOTXN,
            "a command is done in the open transaction of its effect");
    at = now_of(w);
    postbag__inbox_open(&store, &w->db);
    err = postbag__inbox_done(&store, arrival, &at, 1);
    postbag__inbox_close(&store);
    return err;
}

/* ---- put off ----------------------------------------------------------- */

static int take_options(
    struct postbag_put_off *how, struct postbag_fault *fault)
{
    int err = postbag__config_u32("retry_base_ms", &how->retry_base_ms, fault);

    if (err == POSTBAG_OK)
        err = postbag__config_u32("retry_cap_ms", &how->retry_cap_ms, fault);
    if (err == POSTBAG_OK)
        err = postbag__config_u32("max_attempts", &how->max_attempts, fault);
    return err;
}

static int count_attempts(
    struct postbag_writer *w, int64_t arrival, int64_t *out)
{
    struct stmt s;
    int err = postbag__prepare(&w->db, &s,
        "SELECT min(max(attempts, 0), 2147483646) FROM main.inbox"
        " WHERE arrival = ?1"
        " AND state = 'due'");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_i64(&s, 1, arrival);
    err = postbag__row(&s);
    if (err == 1)
        *out = postbag__col_i64(&s, 0);
    postbag__finalize(&s);
    if (err == POSTBAG_OK)
        return postbag__fail(
            &w->db.fault, POSTBAG_ENOTFOUND, "the command is not due");
    return err == 1 ? POSTBAG_OK : err;
}

/* In a transaction. */
static int put_off(struct postbag_writer *w, int64_t arrival,
    const struct postbag_put_off *how, int *is_dead)
{
    struct inbox_now at = now_of(w);
    struct inbox_store store;
    int64_t attempts = 0;
    char why[200];
    int err = count_attempts(w, arrival, &attempts);

    if (err != POSTBAG_OK)
        return err;
    attempts++;
    *is_dead = how->for_good || attempts >= how->max_attempts;
    postbag__printable(why, sizeof(why),
        how->why != NULL ? how->why : "the application put the command off");
    postbag__inbox_open(&store, &w->db);
    if (*is_dead)
        err = postbag__inbox_dead(&store, arrival, &at, 1, why);
    else
        err = postbag__inbox_retry(&store, arrival, &at,
            postbag__inbox_backoff_ms(
                w->port, attempts, how->retry_base_ms, how->retry_cap_ms),
            1, why);
    postbag__inbox_close(&store);
    return err;
}

int postbag_inbox_put_off(struct postbag_writer *w, int64_t arrival,
    const struct postbag_put_off *how, int *is_dead_out)
{
    const struct postbag_put_off defaults = {.struct_size = sizeof(defaults)};
    struct postbag_put_off mine;
    int is_dead = 0;
    int err;

    if (w == NULL)
        return POSTBAG_EINVAL;
    err = postbag__adopt(&mine, sizeof(mine), how == NULL ? &defaults : how);
    if (err != POSTBAG_OK)
        return postbag__fail(
            &w->db.fault, err, "put off: struct_size is not of this library");
    err = take_options(&mine, &w->db.fault);
    if (err == POSTBAG_OK)
        err = postbag_begin(w);
    if (err == POSTBAG_OK)
        err = end_own(w, 1, put_off(w, arrival, &mine, &is_dead));
    if (err == POSTBAG_OK && is_dead_out != NULL)
        *is_dead_out = is_dead;
    return err;
}
