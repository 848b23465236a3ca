/* SPDX-License-Identifier: MIT */
/* See engine.h: the step.  Opening and closing are in engine_open.c. */
#include "engine.h"

#include <assert.h>

#include "mem.h"

enum { AGAIN_US = 2 * 1000, TROUBLE_US = 500 * 1000 };
enum { TELL_US = 10 * 1000000, MOVED_US = 10 * 1000000 };
/* Damage does not mend: it is told, and its pages are tried, less often. */
enum { TELL_DAMAGE_US = 60 * 1000000, DAMAGED_US = 5 * 1000000 };

/* Tell an error once, then again only after a while or when it changes: a full
 * disk must not fill the log too. */
static void complain(
    struct engine *e, int64_t now_us, const char *what, int err)
{
    int64_t pause_us = err == POSTBAG_ECORRUPT ? TELL_DAMAGE_US : TELL_US;

    if (err == POSTBAG_OK || err == POSTBAG_EBUSY)
        return;
    if (err == POSTBAG_ECORRUPT)
        e->damage_us = now_us;
    if (err == e->last_error && now_us - e->told_us < pause_us)
        return;
    e->last_error = err;
    e->told_us = now_us;
    if (err == POSTBAG_ECORRUPT)
        postbag__log(&e->log, POSTBAG_LOG_ERROR, err,
            "%s: %s: run postbag doctor", what,
            e->db.fault.code == err ? e->db.fault.text
                                    : postbag_error_text(err));
    else if (e->db.fault.code == err)
        postbag__log_fault(&e->log, POSTBAG_LOG_ERROR, what, &e->db.fault);
    else
        postbag__log(&e->log, POSTBAG_LOG_ERROR, err, "%s: %s", what,
            postbag_error_text(err));
}

/* ---- mailbox and links ---- */

/* The first error; a row whose fate could not be recorded is sent again, but
 * not in a loop.  While the database is busy, the letter and those behind it
 * wait for the next step; not at the end of a connection, where only those that
 * need no write are settled. */
static int drain(struct engine *e, int64_t now_us, int is_end)
{
    int first = POSTBAG_OK;

    while (e->has_letter || postbag__mailbox_take(&e->mailbox, &e->letter)) {
        int err = postbag__sender_settle(&e->sender, &e->letter, now_us);

        e->has_letter = err == POSTBAG_EBUSY && !is_end;
        if (err != POSTBAG_OK && err != POSTBAG_EBUSY)
            e->sender.retry_us = now_us + TROUBLE_US;
        if (first == POSTBAG_OK)
            first = err;
        if (e->has_letter)
            break;
    }
    return first;
}

/* How the other side ended the outbound connection. */
static enum suspicion_end their_end(const struct engine *e)
{
    switch (e->outbound.verdict) {
    case LINK_AGAIN:
        return SUSPICION_HANG_UP;
    case LINK_BLAMES_ROWS:
        return SUSPICION_BLAME;
    case LINK_QUOTA:
        return SUSPICION_QUOTA;
    case LINK_SLOW:
    case LINK_OTHER_SERVER:
    case LINK_TAKEN_OVER:
        break;
    }
    return SUSPICION_NO_ROWS;
}

/* disconnect has settled everything. */
static int outbound_down(
    struct engine *e, int64_t now_us, enum suspicion_end end)
{
    uint32_t in_flight = e->sender.window.used;
    int err = drain(e, now_us, 1);

    if (end == SUSPICION_BLAME && in_flight > 0)
        postbag__log(&e->log, POSTBAG_LOG_WARNING, e->outbound.error_code,
            "the reason may be one of the %lu messages in flight",
            (unsigned long)in_flight);
    if (err == POSTBAG_OK)
        err = postbag__sender_judge(&e->sender, end);
    postbag__sender_link_down(&e->sender);
    return err;
}

/* What is in flight gets some time for its PUBACKs. */
static int may_leave(const struct engine *e, int64_t now_us)
{
    return e->outbound.is_leaving &&
           (e->sender.window.used == 0 || now_us >= e->outbound.next_us);
}

static int step_outbound(struct engine *e, int64_t now_us)
{
    enum link_change change = LINK_SAME;
    int err = drain(e, now_us, 0);
    const char *why = NULL;
    int down = POSTBAG_OK;
    enum suspicion_end end;

    if (!e->has_letter) /* the broker is waited for, not the database */
        why = postbag__sender_gives_up(&e->sender, now_us);
    if (why != NULL) {
        end = e->sender.is_confused ? SUSPICION_NO_ROWS : SUSPICION_SILENCE;
        postbag__link_fail(&e->outbound, now_us, why);
        change = LINK_WENT_DOWN;
    } else {
        change = postbag__link_step(&e->outbound, now_us);
        end = their_end(e);
    }
    if (may_leave(e, now_us)) {
        postbag__link_leave(&e->outbound, now_us);
        end = SUSPICION_NO_ROWS;
        change = LINK_WENT_DOWN;
    }
    if (change == LINK_CAME_UP)
        postbag__sender_link_up(&e->sender, now_us);
    if (change == LINK_WENT_DOWN)
        down = outbound_down(e, now_us, end);
    return err == POSTBAG_OK ? down : err;
}

static void subscribe(struct engine *e, int64_t now_us)
{
    const char **filters = postbag__consumers_filters(e->consumers);

    if (filters != NULL)
        postbag__link_subscribe(
            &e->inbound, now_us, filters, e->consumers->count);
    else
        postbag__link_fail(&e->inbound, now_us, "no memory to subscribe");
    postbag__free(filters);
}

static void step_inbound(struct engine *e, int64_t now_us)
{
    if (postbag__link_step(&e->inbound, now_us) == LINK_CAME_UP)
        subscribe(e, now_us);
    if (e->inbound.is_leaving) /* there is nothing to wait for */
        postbag__link_leave(&e->inbound, now_us);
}

static void stop_links(struct engine *e, int64_t now_us)
{
    postbag__link_stop(&e->outbound);
    complain(e, now_us, "record what became of a message",
        outbound_down(e, now_us, SUSPICION_NO_ROWS));
    postbag__link_stop(&e->inbound);
}

/* ---- duties of the owner ---- */

static void lose(struct engine *e, int64_t now_us)
{
    stop_links(e, now_us);
    postbag__sender_abandon(&e->sender);
    postbag__lease_lose(&e->lease, now_us);
    postbag__log(&e->log, POSTBAG_LOG_WARNING, POSTBAG_EFENCED,
        "another relay took destination %s over; standing by", e->config->dest);
}

/* The destination is ours: begin where the database says. */
static int take_office(struct engine *e, int64_t now_us)
{
    int err = postbag__sender_load(&e->sender);

    if (err != POSTBAG_OK) {
        postbag__lease_lose(&e->lease, now_us);
        return err;
    }
    postbag__detach_begin(&e->detach, now_us);
    postbag__link_start(&e->outbound, now_us);
    if (e->receiver != NULL)
        postbag__link_start(&e->inbound, now_us);
    return POSTBAG_OK;
}

static int step_lease(struct engine *e, int64_t now_us)
{
    int has_work = postbag__sender_has_work(&e->sender);
    int err = postbag__lease_step(&e->lease, now_us, has_work);

    /* off: not in office yet, or stopped and started again */
    if (err == POSTBAG_OK && e->lease.is_owner && e->outbound.state == LINK_OFF)
        return take_office(e, now_us);
    return err;
}

/* The database being busy for one duty does not keep the next from trying. */
static int worse(int a, int b)
{
    return a == POSTBAG_OK || a == POSTBAG_EBUSY ? (b == POSTBAG_OK ? a : b)
                                                 : a;
}

static int serve(struct engine *e, int64_t now_us)
{
    int err = step_lease(e, now_us);

    if (err != POSTBAG_OK)
        return err;
    if (!e->lease.is_owner) {
        /* they are off, and only note what they are told */
        (void)postbag__link_step(&e->outbound, now_us);
        (void)postbag__link_step(&e->inbound, now_us);
        return err;
    }
    assert(!postbag__in_transaction(&e->db));
    err = step_outbound(e, now_us);
    step_inbound(e, now_us);
    if (err == POSTBAG_EFENCED)
        return err;
    if (!e->is_draining) {
        err = worse(err, postbag__sender_sweep(&e->sender, now_us));
        err = worse(err, postbag__sender_fill(&e->sender, now_us));
    }
    err = worse(err, postbag__sender_save(&e->sender, now_us, e->is_draining));
    err = worse(err, postbag__detach_step(&e->detach, now_us));
    postbag__witness_step(&e->witness, now_us, e->sender.newest, 0);
    return err;
}

/* ---- the step ---- */

static int look(struct engine *e, int64_t now_us, unsigned reasons)
{
    int changed = 0;
    int err = postbag__watch_step(&e->watch, now_us, reasons, &changed);

    if (err == POSTBAG_OK && (changed || e->sender.must_look))
        err = postbag__sender_look(&e->sender);
    if (err == POSTBAG_OK)
        e->sender.must_look = 0;
    if (err != POSTBAG_OK)
        postbag__watch_forget(&e->watch, now_us + TROUBLE_US);
    complain(e, now_us, "look for new rows", err);
    return changed;
}

/* What is committed to a new file of that name is out of our reach, and what
 * we would record in the old one nobody reads.  1: so it is. */
static int look_at_file(struct engine *e, int64_t now_us)
{
    int had_moved = e->has_moved;

    if (now_us < e->moved_us)
        return had_moved;
    e->moved_us = now_us + MOVED_US;
    e->has_moved = postbag__db_has_moved(&e->db);
    if (e->has_moved == had_moved)
        return had_moved;
    if (e->has_moved) {
        stop_links(e, now_us);
        postbag__log(&e->log, POSTBAG_LOG_ERROR, POSTBAG_ESTORAGE,
            "the database was moved, deleted or replaced under the relay:"
            " nothing is sent; restart the relay");
    } else {
        postbag__log(&e->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
            "the database is back in its place");
    }
    return e->has_moved;
}

/* Sending is bound to stop where the cursor cannot be saved; say so. */
static void watch_writes(struct engine *e, int64_t now_us, int err, int wrote)
{
    int64_t since_us = e->standstill.since_us;

    switch (postbag__standstill_note(&e->standstill, now_us, err, wrote)) {
    case STANDSTILL_SAME:
        break;
    case STANDSTILL_BEGAN:
        postbag__log(&e->log, POSTBAG_LOG_WARNING, err,
            "the cursor cannot be saved (%s): sending stops until it can",
            err == POSTBAG_EBUSY ? "another process keeps the database locked"
                                 : postbag_error_text(err));
        break;
    case STANDSTILL_OVER:
        postbag__log(&e->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
            "the cursor is saved again, after %lld s",
            (long long)((now_us - since_us) / 1000000));
        break;
    }
}

static const char *link_name(const struct link *l)
{
    switch (l->state) {
    case LINK_OFF:
        return "off";
    case LINK_WAITING:
        return "down";
    case LINK_CONNECTING:
        return "connecting";
    case LINK_UP:
        return "up";
    }
    return "?";
}

/* Without its subscriptions a connection brings nothing. */
static const char *inbound_name(const struct link *l)
{
    return l->state == LINK_UP && l->suback_us != 0 ? "subscribing"
                                                    : link_name(l);
}

/* What could not be read is tried again and again, so it is no longer so when
 * it was not met for a while. */
static int is_damaged(const struct engine *e, int64_t now_us)
{
    return e->damage_us != 0 && now_us - e->damage_us < TELL_DAMAGE_US;
}

static const char *stalled(const struct engine *e, int64_t now_us)
{
    if (e->has_moved)
        return "replaced";
    if (is_damaged(e, now_us))
        return "corrupt";
    return postbag__standstill_name(&e->standstill);
}

static void report(struct engine *e, int64_t now_us)
{
    struct receiver_counts counts = {0};
    const struct link *out = &e->outbound;
    struct live_facts facts = {
        .is_owner = e->lease.is_owner,
        .is_held_full = e->sender.bound.is_reached,
        .link = link_name(out),
        .inbound = inbound_name(&e->inbound),
        .error = out->state == LINK_UP ? "" : out->error,
        .stalled = stalled(e, now_us),
        .link_attempts = out->failures,
        .in_flight = e->sender.window.used,
        .delivered = e->sender.delivered,
        .last_puback_ms = e->sender.last_puback_ms,
        .put_seq = e->sender.newest,
        .wal_frames = e->housekeeper.frames,
        .bulk_rate = e->sender.options.bulk_rate,
        .bulk_bytes_rate = e->sender.options.bulk_bytes_rate,
        .pace_all = e->sender.options.pace_all,
        .server = out->state == LINK_UP ? out->info.server + 1 : 0,
        /* also while it is down: they may be the reason */
        .own_certificate_end_s = out->info.own_certificate_end_s,
        .server_certificate_end_s = out->info.server_certificate_end_s,
    };

    if (!e->lease.is_owner)
        return; /* the file is the owner's */
    if (out->state == LINK_WAITING)
        facts.next_try_ms = postbag__link_deadline(out) / 1000;
    if (e->receiver != NULL)
        postbag__receiver_counts(e->receiver, &counts);
    facts.accepted = counts.accepted;
    facts.duplicates = counts.duplicates;
    facts.nacks = counts.nacks;
    postbag__live_step(&e->live, &e->log, now_us, &facts);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_deadline(struct engine *e, int64_t now_us)
{
    int has_work = postbag__sender_has_work(&e->sender);
    int64_t at = postbag__watch_deadline(&e->watch);

    at = earlier(at, postbag__lease_deadline(&e->lease, has_work));
    at = earlier(at, postbag__housekeeper_deadline(&e->housekeeper));
    at = earlier(at, postbag__live_deadline(&e->live, now_us));
    at = earlier(at, postbag__alarm_deadline(&e->alarm));
    if (e->sender.newly_dead != 0 || e->sender.overflowed != 0)
        at = earlier(at, e->dead_us);
    if (e->sender.newly_over != 0)
        at = earlier(at, e->over_us);
    if (e->receiver != NULL)
        at = earlier(at, e->refused_us);
    if (!e->lease.is_owner)
        return at;
    at = earlier(at, postbag__link_deadline(&e->outbound));
    at = earlier(at, postbag__link_deadline(&e->inbound));
    at = earlier(at, postbag__detach_deadline(&e->detach));
    if (e->is_draining)
        return at; /* nothing is sent, and a stop has its own patience */
    return earlier(at, postbag__sender_deadline(&e->sender, now_us));
}

/* Other lanes are served as ever; what is damaged is no work to hurry for. */
static int64_t after_damage(
    struct engine *e, int64_t now_us, int64_t next_us, int has_sent)
{
    if (has_sent || e->damage_pause_us == 0)
        e->damage_pause_us = TROUBLE_US;
    if (has_sent)
        return next_us;
    e->damage_pause_us = earlier(2 * e->damage_pause_us, DAMAGED_US);
    return now_us + e->damage_pause_us;
}

int postbag__engine_step(
    struct engine *e, unsigned reasons, int64_t *next_us_out)
{
    int64_t now_us = e->port->mono_us(e->port->ctx);
    int is_gone = look_at_file(e, now_us);
    int changed = is_gone ? 0 : look(e, now_us, reasons);
    uint32_t commits = e->db.commits;
    uint64_t sends = e->sender.window.sends;
    int has_sent;
    int err;
    int house;

    if (is_gone) {
        report(e, now_us);
        *next_us_out = e->moved_us;
        return POSTBAG_ESTORAGE;
    }
    err = serve(e, now_us);
    has_sent = e->sender.window.sends != sends;
    watch_writes(
        e, now_us, err, e->db.commits != commits || !e->lease.is_owner);
    if (err == POSTBAG_EFENCED)
        lose(e, now_us);
    else
        complain(e, now_us, "relay", err);
    if (err == POSTBAG_ENOSPC)
        postbag__housekeeper_note_full(&e->housekeeper);
    postbag__engine_tell(e, now_us);
    if (e->receiver != NULL)
        e->refused_us = postbag__receiver_tell(e->receiver, now_us);
    changed |= e->db.commits != e->commits;
    e->commits = e->db.commits;
    postbag__housekeeper_note_damage(&e->housekeeper, is_damaged(e, now_us));
    house = postbag__housekeeper_step(&e->housekeeper, now_us, changed);
    complain(e, now_us, "keep house", house);
    complain(e, now_us, "see how full the outbox is",
        postbag__alarm_step(&e->alarm, now_us, changed));
    report(e, now_us);
    *next_us_out = next_deadline(e, now_us);
    if (err == POSTBAG_EBUSY)
        *next_us_out = now_us + AGAIN_US; /* what is overdue, too */
    else if (err == POSTBAG_ECORRUPT)
        *next_us_out = after_damage(e, now_us, *next_us_out, has_sent);
    else if (err != POSTBAG_OK && err != POSTBAG_EFENCED)
        *next_us_out = now_us + TROUBLE_US;
    return err == POSTBAG_OK ? house : err;
}

int postbag__engine_is_drained(const struct engine *e)
{
    return e->sender.window.used == 0 && e->sender.unsaved_us == 0;
}

void postbag__engine_shut(struct engine *e)
{
    int64_t now_us = e->port->mono_us(e->port->ctx);
    int err = POSTBAG_OK;

    stop_links(e, now_us);
    e->dead_us = 0; /* the last word, whenever the last one was */
    e->over_us = 0;
    postbag__engine_tell(e, now_us);
    e->live.next_us = 0;
    report(e, now_us); /* as the owner, which we are no longer then */
    if (e->lease.is_owner) {
        err = postbag__sender_release(&e->sender);
        postbag__witness_step(&e->witness, now_us, e->sender.newest, 1);
    }
    complain(e, now_us, "save the cursor at the end", err);
    complain(e, now_us, "let plain SQL in at the end",
        postbag__housekeeper_shut(&e->housekeeper));
}
