/* SPDX-License-Identifier: MIT */
/*
 * One command:
 *
 *     gate -> BEGIN IMMEDIATE -> choose -> (charge ahead) -> (slow) -> handler
 *        DONE    mark done, COMMIT (FULL): effects, mark and replies at once
 *        RETRY   ROLLBACK, then attempts + 1 and a retry time, or dead;
 *                no attempt is charged where the outbox was full
 *        REJECT  ROLLBACK, then dead
 *
 * A row that may end the process is charged before, see handling_trial.c.  A
 * slow part runs between two transactions, see handling_slow.c.
 *
 * The row is chosen under the write lock, so no other worker can have taken
 * it or an earlier one of its key.  While the handler runs, SQLite refuses to
 * end the transaction; should an error of the storage have ended it, nothing
 * that the handler writes after that can commit.
 */
#include "handling.h"

#include <string.h>

#include "error.h"
#include "reply.h"
#include "writer.h"

/* What became of one run of a handler; why: where it was not DONE. */
struct outcome {
    enum postbag_outcome is;
    int is_free; /* to be tried again, and no attempt is charged */
    struct postbag_fault why;
    const char *status; /* for the sender; NULL: by what it is */
};

static void hook(const struct handling *h, const char *point)
{
    if (h->port->hook != NULL)
        h->port->hook(h->port->ctx, point);
}

struct inbox_now postbag__handling_now(const struct handling *h)
{
    struct inbox_now now = postbag__inbox_now(h->port, h->boot);

    now.furthest_ms = postbag__moment_furthest(now.mono_ms, h->retry_cap_ms);
    return now;
}

/* ---- open and close ---------------------------------------------------- */

int postbag__handling_open(
    struct handling *h, const char *db_path, struct shared *shared)
{
    const struct postbag_port *port = h->port;
    int err;

    h->shared = shared;
    err = postbag__db_open(
        &h->db, db_path, DB_WRITE, DB_FULL, HANDLING_LOCK_WAIT_MS);
    /* here the application's own triggers and views run, which may call what
       SQLite does not let an untrusted schema call, as json_object */
    if (err == POSTBAG_OK)
        err = postbag__exec(&h->db, "PRAGMA trusted_schema=ON");
    if (err != POSTBAG_OK)
        return err;
    err = port->boot_id(port->ctx, h->boot);
    if (err != POSTBAG_OK)
        return postbag__fail(&h->db.fault, err, "the port has no boot id");
    postbag__inbox_open(&h->inbox, &h->db);
    err = postbag__deferral_open(&h->deferral, &h->db);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__writer_open(
        &h->writer, h->db.handle, port, shared, &h->db.fault);
    if (err != POSTBAG_OK)
        return err;
    h->writer->reply_topics = h->reply_topics;
    postbag__deny_transactions(&h->db, &h->denied);
    return POSTBAG_OK;
}

void postbag__handling_close(struct handling *h)
{
    postbag_writer_close(h->writer);
    postbag__inbox_close(&h->inbox);
    postbag__deferral_close(&h->deferral);
    postbag__db_close(&h->db);
    postbag__arena_free(&h->slow);
}

/* ---- the turn ---------------------------------------------------------- */

int postbag__handling_enter(struct handling *h, uint32_t wait_ms)
{
    int err = postbag__gate_enter(h->shared, wait_ms);

    if (err != POSTBAG_OK)
        return postbag__fail(&h->db.fault, err, "no turn at the gate");
    h->has_turn = 1;
    return POSTBAG_OK;
}

void postbag__handling_leave(struct handling *h)
{
    if (h->has_turn)
        postbag__gate_leave(h->shared);
    h->has_turn = 0;
}

/* ---- what a handler's run comes to ------------------------------------- */

uint32_t postbag__handling_backoff_ms(
    const struct handling *h, int64_t failures, uint32_t base, uint32_t cap)
{
    return postbag__inbox_backoff_ms(h->port, failures, base, cap);
}

/* An error that another try of the same command may not meet, and that is
 * none of the handler's making. */
static int is_of_storage(int err)
{
    return err == POSTBAG_EBUSY || err == POSTBAG_EIO ||
           err == POSTBAG_ENOSPC || err == POSTBAG_ENOMEM ||
           err == POSTBAG_ECORRUPT || err == POSTBAG_EFULL;
}

static int is_dead(const struct handling *h, const struct inbox_row *row,
    const struct outcome *o)
{
    return o->is == POSTBAG_REJECT ||
           (!o->is_free && row->attempts + 1 >= (int64_t)h->max_attempts);
}

static int change_row(
    struct handling *h, const struct inbox_row *row, const struct outcome *o)
{
    struct inbox_now at = postbag__handling_now(h);
    int64_t failures = o->is_free ? h->hindered : row->attempts + 1;
    int charge = !o->is_free - row->is_tried;

    if (row->damage.text[0] != '\0')
        return postbag__inbox_damage_bury(
            &h->db, row->arrival, &row->damage, at.wall_ms);
    if (is_dead(h, row, o))
        return postbag__inbox_dead(
            &h->inbox, row->arrival, &at, charge, o->why.text);
    return postbag__inbox_retry(&h->inbox, row->arrival, &at,
        postbag__handling_backoff_ms(
            h, failures, h->retry_base_ms, h->retry_cap_ms),
        charge, o->why.text);
}

static void tell(const struct handling *h, const struct inbox_row *row,
    const struct outcome *o, int dead)
{
    int is_news = dead || (o->is_free && h->hindered == 1);

    postbag__log(&h->log, is_news ? POSTBAG_LOG_WARNING : POSTBAG_LOG_DEBUG,
        o->why.code, "command %lld of consumer %s, attempt %lld%s: %s",
        (long long)row->arrival, row->command.consumer,
        (long long)row->attempts + 1,
        dead         ? ", is dead"
        : o->is_free ? ", does not count and is made again"
                     : "",
        o->why.text);
}

static const char *status_of(const struct outcome *o)
{
    if (o->status != NULL)
        return o->status;
    return o->is == POSTBAG_REJECT ? "rejected" : "failed";
}

/*
 * A reply that cannot be put (the outbox is full, its topic is not allowed) is
 * missed by the sender only: the command is dead all the same.  Else it would
 * be handled again, for a reply.
 */
static int tell_sender(
    struct handling *h, const struct inbox_row *row, const struct outcome *o)
{
    int err = postbag__reply_dead(h->writer, row->arrival, status_of(o));

    if (err == POSTBAG_OK)
        return err;
    postbag__log_fault(&h->log, POSTBAG_LOG_WARNING,
        "a command is dead, but its sender cannot be told",
        &h->writer->db.fault);
    if (postbag__in_transaction(&h->db))
        return POSTBAG_OK;
    /* SQLite has rolled the mark back with it */
    err = postbag__begin(&h->db, DB_FULL);
    return err == POSTBAG_OK ? change_row(h, row, o) : err;
}

/* A dead row lets later ones of its key pass, so it must be on disk.  A retry
 * time that a power cut takes back only makes the next try earlier. */
static int put_off(
    struct handling *h, const struct inbox_row *row, const struct outcome *o)
{
    int dead = is_dead(h, row, o);
    int err;

    postbag__rollback(&h->db);
    h->writer->newest = 0;
    err = postbag__begin(&h->db, dead ? DB_FULL : DB_NORMAL);
    if (err != POSTBAG_OK)
        return err;
    err = change_row(h, row, o);
    if (err == POSTBAG_OK && dead && h->reply_dead)
        err = tell_sender(h, row, o);
    if (err == POSTBAG_OK)
        err = postbag__commit(&h->db);
    else
        postbag__rollback(&h->db);
    if (err == POSTBAG_ENOTFOUND) /* somebody else finished it meanwhile */
        return POSTBAG_OK;
    if (err == POSTBAG_OK) {
        h->charged = 0;
        tell(h, row, o, dead);
    }
    return err;
}

static int mark_done(struct handling *h, const struct inbox_row *row)
{
    struct inbox_now at = postbag__handling_now(h);
    int err = postbag__inbox_done(&h->inbox, row->arrival, &at, !row->is_tried);

    hook(h, "handle.marked");
    if (err == POSTBAG_OK)
        err = postbag__commit(&h->db);
    hook(h, "handle.committed");
    if (err == POSTBAG_OK)
        h->charged = 0;
    return err;
}

/* ---- the handler ------------------------------------------------------- */

/*
 * Was it the storage or a limit?  Either a call of ours met it, or the last
 * statement of the handler's own, as one whose trigger puts a message.
 */
static const struct postbag_fault *what_failed(struct handling *h)
{
    const struct postbag_fault *writers = &h->writer->db.fault;

    if (!is_of_storage(writers->code) &&
        is_of_storage(postbag__db_last(&h->db)))
        return &h->db.fault;
    return writers;
}

static void explain(struct outcome *o, const struct postbag_fault *writers)
{
    if (writers->code != POSTBAG_OK)
        o->why = *writers;
    else if (o->is == POSTBAG_REJECT)
        (void)postbag__fail(
            &o->why, POSTBAG_OK, "the handler rejected the command");
    else
        (void)postbag__fail(
            &o->why, POSTBAG_OK, "the handler asked for another try");
}

static struct outcome call(
    struct handling *h, const struct consumer *who, const struct inbox_row *row)
{
    struct outcome o = {.is = POSTBAG_RETRY};
    const struct postbag_fault *fault;

    memset(&h->writer->db.fault, 0, sizeof(h->writer->db.fault));
    h->writer->newest = 0;
    h->denied = 1;
    o.is = who->handler(who->ctx, &row->command, h->writer);
    h->denied = 0;
    fault = what_failed(h);
    if (o.is != POSTBAG_DONE)
        explain(&o, fault);
    if (!postbag__in_transaction(&h->db)) {
        o.is = POSTBAG_RETRY;
        (void)postbag__fail(&o.why, POSTBAG_ENOTXN,
            "the transaction was rolled back while the handler ran%s%s",
            fault->code == POSTBAG_OK ? "" : ": ", fault->text);
    }
    o.is_free = o.is == POSTBAG_RETRY && is_of_storage(fault->code);
    h->hindered = o.is_free ? h->hindered + 1 : 0;
    return o;
}

/* Call the handler for a row in a transaction, which is over when this
 * returns. */
static int handle(
    struct handling *h, const struct consumer *who, const struct inbox_row *row)
{
    int err = POSTBAG_OK;
    struct outcome o;

    hook(h, "handle.begun");
    o = call(h, who, row);
    /* from here on the command's texts are gone, but for the consumer's name */
    postbag__inbox_release(&h->inbox);
    if (postbag__reset_all(&h->db) > 0)
        postbag__log(&h->log, POSTBAG_LOG_WARNING, POSTBAG_OK,
            "the handler of consumer %s left a statement open: reset",
            row->command.consumer);
    if (o.is == POSTBAG_DONE) {
        err = mark_done(h, row);
        if (err == POSTBAG_OK)
            return err;
        /* what the handler wrote cannot commit (a deferred constraint) */
        o.is = POSTBAG_RETRY;
        o.why = h->db.fault;
    }
    if (is_of_storage(err)) {
        postbag__rollback(&h->db);
        h->writer->newest = 0;
        return err;
    }
    return put_off(h, row, &o);
}

static int bury(
    struct handling *h, struct inbox_row *row, const struct objection *why)
{
    struct outcome o = {
        .is = POSTBAG_REJECT, .is_free = 1, .status = why->status};

    (void)postbag__fail(&o.why, POSTBAG_OK, "%s", why->text);
    postbag__inbox_release(&h->inbox);
    return put_off(h, row, &o);
}

/* Nothing comes of the row in this transaction. */
static int give_back(struct handling *h, int err)
{
    postbag__inbox_release(&h->inbox);
    postbag__rollback(&h->db);
    return err;
}

/* A slow part that went wrong ends like a handler that did. */
static int handle_in_two(
    struct handling *h, const struct consumer *who, struct inbox_row *row)
{
    struct outcome o = {.is = POSTBAG_RETRY};
    int found;
    int err = postbag__handling_slow(h, who, row, &o.is, &found);

    if (err != POSTBAG_OK || !found)
        return give_back(h, err);
    if (o.is == POSTBAG_DONE)
        return handle(h, who, row);
    (void)postbag__fail(&o.why, POSTBAG_OK, "the slow part %s",
        o.is == POSTBAG_REJECT ? "rejected the command"
                               : "asked for another try");
    postbag__inbox_release(&h->inbox);
    return put_off(h, row, &o);
}

/* In a transaction, which is over when this returns. */
static int take_next(struct handling *h, const struct consumer *who,
    unsigned char *is_proven, int *did_out)
{
    struct inbox_now at = postbag__handling_now(h);
    struct objection objection;
    struct inbox_row row;
    int found;
    int err = postbag__inbox_next(&h->inbox, who->name, &at, &row, &found);

    if (err == POSTBAG_OK && found &&
        postbag__handling_objects(h, &row, &at, &objection)) {
        *did_out = 1;
        return bury(h, &row, &objection);
    }
    if (err == POSTBAG_OK && found)
        err = postbag__handling_charge(h, &row, *is_proven, &found);
    if (err != POSTBAG_OK || !found)
        return give_back(h, err);
    *did_out = 1;
    err =
        who->slow == NULL ? handle(h, who, &row) : handle_in_two(h, who, &row);
    if (row.attempts == 0)
        *is_proven = 1;
    return err;
}

int postbag__handling_run(struct handling *h, const struct consumer *who,
    unsigned char *is_proven, int *did_out)
{
    int err = postbag__handling_enter(h, HANDLING_LOCK_WAIT_MS);

    if (err != POSTBAG_OK)
        return err;
    h->writer->newest = 0;
    err = postbag__handling_forgive(h);
    if (err == POSTBAG_OK)
        err = postbag__begin(&h->db, DB_FULL);
    if (err == POSTBAG_OK)
        err = take_next(h, who, is_proven, did_out);
    postbag__handling_leave(h);
    if (err == POSTBAG_OK)
        postbag__writer_committed(h->writer, 1);
    return err;
}

/* ---- what waits for a missing version ---------------------------------- */

/* A power cut may take this back: it is overdue again. */
static int give_up(struct handling *h, const struct consumer *who)
{
    struct inbox_now at = postbag__handling_now(h);
    int err = postbag__begin(&h->db, DB_NORMAL);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__deferral_give_up(&h->deferral, who, &at);
    if (err == POSTBAG_OK)
        return postbag__commit(&h->db);
    postbag__rollback(&h->db);
    return err;
}

int postbag__handling_end_wait(struct handling *h, const struct consumer *who)
{
    struct inbox_now at = postbag__handling_now(h);
    int is_overdue;
    int err = postbag__deferral_is_overdue(&h->deferral, who, &at, &is_overdue);

    if (err != POSTBAG_OK || !is_overdue)
        return err;
    err = postbag__handling_enter(h, HANDLING_LOCK_WAIT_MS);
    if (err != POSTBAG_OK)
        return err;
    err = give_up(h, who);
    postbag__handling_leave(h);
    return err;
}
