/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  The public face for tools, continued: destinations come and go.
 * The caller's thread.
 */
#include "admin.h"
#include "dest_store.h"
#include "error.h"
#include "lease.h"
#include "mem.h"
#include "schema.h"

int postbag_admin_dest_add(
    struct postbag_admin *a, const char *name, enum postbag_from from)
{
    int err = postbag__admin_writable(a);

    if (err == POSTBAG_OK && (name == NULL || (unsigned)from > 1))
        err = postbag__fail(&a->db.fault, POSTBAG_EINVAL,
            "a destination needs a name, and begins now or with the oldest");
    return err == POSTBAG_OK ? postbag__dest_add(&a->db, name, from) : err;
}

static int lock_one(struct postbag_admin *a, const char *name, int is_second,
    struct postbag_lock **lock)
{
    char *path =
        postbag__lease_lock_path(postbag__db_path(&a->db), name, is_second);
    int err;

    if (path == NULL)
        return postbag__fail(&a->db.fault, POSTBAG_ENOMEM, "no memory");
    err = a->port->lock_file(a->port->ctx, path, lock);
    postbag__free(path);
    if (err == POSTBAG_EBUSY)
        return postbag__fail(&a->db.fault, POSTBAG_ESTATE,
            "a relay owns destination %s: stop it first", name);
    return err == POSTBAG_OK ? err
                             : postbag__fail(&a->db.fault, err,
                                   "the lock of the destination cannot be had");
}

static void unlock(struct postbag_admin *a, struct postbag_lock *locks[2])
{
    for (int i = 0; i < 2; i++)
        if (locks[i] != NULL)
            a->port->unlock_file(a->port->ctx, locks[i]);
}

/* Whoever holds the relay's locks keeps relays from owning the destination. */
static int lock_dest(
    struct postbag_admin *a, const char *name, struct postbag_lock *locks[2])
{
    int err = lock_one(a, name, 0, &locks[0]);

    return err == POSTBAG_OK ? lock_one(a, name, 1, &locks[1]) : err;
}

int postbag_admin_dest_remove(struct postbag_admin *a, const char *name)
{
    struct postbag_lock *locks[2] = {NULL, NULL};
    int err = postbag__admin_writable(a);

    if (err == POSTBAG_OK && name == NULL)
        err = postbag__fail(
            &a->db.fault, POSTBAG_EINVAL, "which destination? name is NULL");
    if (err == POSTBAG_OK)
        err = postbag__schema_find_dest(&a->db, name);
    if (err == POSTBAG_OK)
        err = lock_dest(a, name, locks);
    if (err == POSTBAG_OK)
        err = postbag__dest_remove(&a->db, name);
    unlock(a, locks);
    return err;
}
