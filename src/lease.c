/* SPDX-License-Identifier: MIT */
/* See lease.h.  Engine thread. */
#include "lease.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "mem.h"
#include "moment.h"

enum { GATE_MS = 50 };

static const int64_t look_us = 1000000;
static const int64_t again_us = 20000; /* the database was busy */

static char *path_with(
    const char *db_path, const char *middle, const char *dest, const char *end)
{
    size_t size =
        strlen(db_path) + strlen(middle) + strlen(dest) + strlen(end) + 1;
    char *path = postbag__alloc(size);

    if (path != NULL)
        (void)snprintf(path, size, "%s%s%s%s", db_path, middle, dest, end);
    return path;
}

char *postbag__lease_lock_path(
    const char *db_path, const char *dest, int is_second)
{
    return path_with(db_path, is_second ? "-relay2-" : "-relay-", dest, "");
}

static const struct stmt_plan plan[] = {
    {offsetof(struct lease, look),
        "SELECT d.epoch, d.owner IS NULL OR d.boot IS NOT ?2,"
        " ifnull(d.lease_until, 0), (SELECT sum(settled_rows)"
        "  FROM outbox_cursor c WHERE c.dest = d.name),"
        " (SELECT sum(acked) FROM outbox_cursor c WHERE c.dest = d.name),"
        " (SELECT ifnull(max(seq), 0) FROM outbox), d.owner IS NOT NULL"
        " FROM outbox_dest d WHERE d.name = ?1"},
    {offsetof(struct lease, take),
        "UPDATE outbox_dest SET epoch = epoch + 1, owner = ?2,"
        " boot = ?3, lease_until = ?4"
        " WHERE name = ?1 AND epoch = ?5"},
    {offsetof(struct lease, renew), "UPDATE outbox_dest SET lease_until = ?2"
                                    " WHERE name = ?1"},
    {offsetof(struct lease, check),
        "SELECT epoch FROM outbox_dest WHERE name = ?1"},
    {offsetof(struct lease, free),
        "UPDATE outbox_dest SET owner = NULL WHERE name = ?1"},
};
enum { STATEMENTS = sizeof(plan) / sizeof(plan[0]) };

int postbag__lease_open(struct lease *l, struct db *db, struct shared *shared,
    const struct log *log, const char *dest, uint32_t lease_ms)
{
    const struct postbag_port *port = shared->port;
    const char *db_path = postbag__db_path(db);
    int err;

    memset(l, 0, sizeof(*l));
    l->db = db;
    l->shared = shared;
    l->log = log;
    l->dest = dest;
    l->lease_ms = lease_ms;
    l->lock_path = postbag__lease_lock_path(db_path, dest, 0);
    l->second_path = postbag__lease_lock_path(db_path, dest, 1);
    l->standby_path = path_with(db_path, "-relay-", dest, ".standby");
    if (l->lock_path == NULL || l->second_path == NULL ||
        l->standby_path == NULL)
        return postbag__fail(&db->fault, POSTBAG_ENOMEM, "no memory");
    err = port->boot_id(port->ctx, l->boot);
    if (err == POSTBAG_OK)
        err = port->random(port->ctx, l->owner, sizeof(l->owner));
    if (err != POSTBAG_OK)
        return postbag__fail(&db->fault, err, "no boot id or no random bytes");
    return postbag__prepare_all(db, l, plan, STATEMENTS);
}

static void unlock(struct lease *l, struct postbag_lock **lock)
{
    if (*lock != NULL)
        l->shared->port->unlock_file(l->shared->port->ctx, *lock);
    *lock = NULL;
}

static void unlock_both(struct lease *l)
{
    unlock(l, &l->lock);
    unlock(l, &l->second);
}

void postbag__lease_close(struct lease *l)
{
    if (l->db == NULL)
        return;
    unlock_both(l);
    unlock(l, &l->standby_lock);
    postbag__finalize_all(l, plan, STATEMENTS);
    postbag__free(l->lock_path);
    postbag__free(l->second_path);
    postbag__free(l->standby_path);
    l->lock_path = NULL;
    l->second_path = NULL;
    l->standby_path = NULL;
}

/* ---- fenced transactions ---- */

/* The epoch now; in or outside a transaction. */
static int check_epoch(struct lease *l)
{
    int64_t epoch;
    int err;

    postbag__bind_text(&l->check, 1, l->dest);
    err = postbag__row(&l->check);
    if (err < 0)
        return err;
    epoch = err == 1 ? postbag__col_i64(&l->check, 0) : -1;
    postbag__reset(&l->check);
    if (epoch == l->epoch)
        return POSTBAG_OK;
    return postbag__fail(&l->db->fault, POSTBAG_EFENCED,
        "destination %s belongs to another relay now", l->dest);
}

int postbag__lease_begin(struct lease *l, enum db_sync sync)
{
    int err = postbag__gate_enter(l->shared, GATE_MS);

    if (err != POSTBAG_OK)
        return postbag__fail(&l->db->fault, err, "no turn at the gate yet");
    err = postbag__begin(l->db, sync);
    if (err == POSTBAG_OK) {
        err = check_epoch(l);
        if (err == POSTBAG_OK)
            return POSTBAG_OK;
    }
    postbag__lease_rollback(l);
    return err;
}

int postbag__lease_commit(struct lease *l)
{
    int err = postbag__commit(l->db);

    postbag__gate_leave(l->shared);
    return err;
}

void postbag__lease_rollback(struct lease *l)
{
    postbag__rollback(l->db);
    postbag__gate_leave(l->shared);
}

/* ---- taking over ---- */

struct look {
    int64_t epoch, until_ms, settled, acked, put;
    int owner_is_gone, has_owner;
};

static int look(struct lease *l, struct look *out)
{
    int err;

    postbag__bind_text(&l->look, 1, l->dest);
    postbag__bind_blob(&l->look, 2, l->boot, sizeof(l->boot));
    err = postbag__row(&l->look);
    if (err == POSTBAG_OK)
        return postbag__fail(&l->db->fault, POSTBAG_ENOTFOUND,
            "destination %s was removed", l->dest);
    if (err != 1)
        return err;
    out->epoch = postbag__col_i64(&l->look, 0);
    out->owner_is_gone = postbag__col_i64(&l->look, 1) != 0;
    out->until_ms = postbag__col_i64(&l->look, 2);
    out->settled = postbag__col_i64(&l->look, 3);
    out->acked = postbag__col_i64(&l->look, 4);
    out->put = postbag__col_i64(&l->look, 5);
    out->has_owner = postbag__col_i64(&l->look, 6) != 0;
    postbag__reset(&l->look);
    return POSTBAG_OK;
}

static int try_lock(
    struct lease *l, const char *path, struct postbag_lock **lock)
{
    const struct postbag_port *port = l->shared->port;

    if (*lock != NULL)
        return POSTBAG_EBUSY; /* ours already: says nothing new */
    return port->lock_file(port->ctx, path, lock);
}

static int keep(struct lease *l, const char *path, struct postbag_lock **lock)
{
    return *lock != NULL ? POSTBAG_OK : try_lock(l, path, lock);
}

/* Nobody else has either: nobody is alive who owns it, or who is about to take
 * over.  Kept, if a try to take over finds the database busy. */
static int lock_both(struct lease *l)
{
    int err = keep(l, l->lock_path, &l->lock);

    if (err == POSTBAG_OK)
        err = keep(l, l->second_path, &l->second);
    if (err != POSTBAG_OK)
        unlock_both(l);
    return err;
}

/* An owner has one: the second, while a silent one that it replaced still has
 * the first.  So it looks alive when that one dies. */
static void lock_one(struct lease *l)
{
    if (keep(l, l->lock_path, &l->lock) == POSTBAG_OK)
        unlock(l, &l->second);
    else
        (void)keep(l, l->second_path, &l->second);
}

/* Has work waited for one lease without a cursor moving?  Writers that drop
 * rows raise the settled counts, too: that is not the owner's doing. */
static int has_waited(struct lease *l, const struct look *seen, int64_t now_ms)
{
    if (seen->put <= seen->settled || seen->acked != l->seen_acked ||
        l->unmoved_since_ms == 0)
        l->unmoved_since_ms = now_ms;
    l->seen_acked = seen->acked;
    return now_ms - l->unmoved_since_ms >= (int64_t)l->lease_ms;
}

static int may_take(struct lease *l, const struct look *seen, int64_t now_ms)
{
    int waited = has_waited(l, seen, now_ms);
    int64_t furthest = postbag__moment_furthest(now_ms, l->lease_ms);
    int expired = seen->until_ms <= now_ms || seen->until_ms > furthest;
    int err = lock_both(l);

    if (err == POSTBAG_OK || (err != POSTBAG_EBUSY && seen->owner_is_gone))
        return 1;
    return (expired || seen->owner_is_gone) && waited;
}

static int take(struct lease *l, const struct look *seen, int64_t now_ms)
{
    int64_t until = now_ms + (int64_t)l->lease_ms;
    int err = postbag__gate_enter(l->shared, GATE_MS);

    if (err != POSTBAG_OK)
        return postbag__fail(&l->db->fault, err, "no turn at the gate yet");
    err = postbag__begin(l->db, DB_FULL);
    if (err == POSTBAG_OK) {
        postbag__bind_text(&l->take, 1, l->dest);
        postbag__bind_blob(&l->take, 2, l->owner, sizeof(l->owner));
        postbag__bind_blob(&l->take, 3, l->boot, sizeof(l->boot));
        postbag__bind_i64(&l->take, 4, until);
        postbag__bind_i64(&l->take, 5, seen->epoch);
        err = postbag__run(&l->take);
    }
    if (err == POSTBAG_OK && postbag__changes(l->db) != 1) {
        unlock_both(l); /* for the other */
        err = postbag__fail(
            &l->db->fault, POSTBAG_EBUSY, "another relay was faster");
    }
    if (err != POSTBAG_OK) {
        postbag__lease_rollback(l);
        return err;
    }
    err = postbag__lease_commit(l);
    if (err != POSTBAG_OK)
        return err;
    l->is_owner = 1;
    l->is_told = 0;
    l->is_inherited = seen->has_owner;
    l->epoch = seen->epoch + 1;
    l->until_ms = until;
    lock_one(l);
    unlock(l, &l->standby_lock);
    postbag__log(l->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
        "relay owns destination %s, epoch %lld", l->dest, (long long)l->epoch);
    return POSTBAG_OK;
}

static void tell_of_standby(struct lease *l)
{
    if (!l->is_told)
        postbag__log(l->log, POSTBAG_LOG_NOTICE, POSTBAG_OK,
            "standing by: another relay owns destination %s", l->dest);
    l->is_told = 1;
}

static int contend(struct lease *l, int64_t now_us)
{
    struct look seen = {0};
    int err = look(l, &seen);

    l->next_us = now_us + look_us;
    if (err != POSTBAG_OK)
        return err;
    if (may_take(l, &seen, now_us / 1000)) {
        err = take(l, &seen, now_us / 1000);
        if (err == POSTBAG_EBUSY)
            l->next_us = now_us + again_us;
        return err == POSTBAG_EBUSY ? POSTBAG_OK : err;
    }
    /* another standby may hold it already, which serves as well */
    (void)try_lock(l, l->standby_path, &l->standby_lock);
    tell_of_standby(l);
    return POSTBAG_OK;
}

/* ---- keeping ---- */

static int somebody_stands_by(struct lease *l)
{
    struct postbag_lock *probe = NULL;

    if (try_lock(l, l->standby_path, &probe) != POSTBAG_OK)
        return 1;
    unlock(l, &probe);
    return 0;
}

static int renew(struct lease *l, int64_t now_us)
{
    int64_t until = now_us / 1000 + (int64_t)l->lease_ms;
    int err;

    l->next_us = now_us + (int64_t)l->lease_ms * 1000 / 4;
    if (!somebody_stands_by(l))
        return POSTBAG_OK;
    err = postbag__lease_begin(l, DB_NORMAL);
    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&l->renew, 1, l->dest);
    postbag__bind_i64(&l->renew, 2, until);
    err = postbag__run(&l->renew);
    if (err != POSTBAG_OK) {
        postbag__lease_rollback(l);
        return err;
    }
    err = postbag__lease_commit(l);
    if (err == POSTBAG_OK)
        l->until_ms = until;
    return err;
}

int postbag__lease_step(struct lease *l, int64_t now_us, int has_work)
{
    if (now_us < l->next_us)
        return POSTBAG_OK;
    if (!l->is_owner)
        return contend(l, now_us);
    if (l->lock == NULL) { /* held by an owner that was only silent */
        l->next_us = now_us + look_us;
        lock_one(l);
    }
    if (has_work && now_us / 1000 >= l->until_ms - (int64_t)l->lease_ms / 2)
        return renew(l, now_us);
    return POSTBAG_OK;
}

int64_t postbag__lease_deadline(const struct lease *l, int has_work)
{
    int64_t half_us;

    if (!l->is_owner || l->lock == NULL)
        return l->next_us;
    if (!has_work)
        return INT64_MAX;
    half_us = (l->until_ms - (int64_t)l->lease_ms / 2) * 1000;
    return half_us > l->next_us ? half_us : l->next_us;
}

int postbag__lease_verify(struct lease *l, int64_t now_us)
{
    if (now_us / 1000 < l->until_ms)
        return POSTBAG_OK;
    return check_epoch(l);
}

void postbag__lease_lose(struct lease *l, int64_t now_us)
{
    l->is_owner = 0;
    l->unmoved_since_ms = 0;
    /* time for the new owner to take the lock, or it would look dead */
    l->next_us = now_us + 2 * look_us;
    unlock_both(l);
}

int postbag__lease_free(struct lease *l)
{
    postbag__bind_text(&l->free, 1, l->dest);
    return postbag__run(&l->free);
}

void postbag__lease_freed(struct lease *l)
{
    l->is_owner = 0;
    l->unmoved_since_ms = 0;
    l->next_us = 0;
    unlock_both(l); /* or it would seem free to us alone */
}
