/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  The public face for tools, continued: commands that were given
 * up.  The caller's thread.
 */
#include "abi.h"
#include "admin.h"
#include "error.h"
#include "inbox_repair.h"

/* which may be NULL: all that are dead. */
static int begin(struct postbag_admin *a,
    const struct postbag_inbox_choice *which, struct postbag_inbox_choice *out)
{
    const struct postbag_inbox_choice all = {.struct_size = sizeof(all)};
    int err = postbag__admin_writable(a);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__adopt(out, sizeof(*out), which == NULL ? &all : which);
    if (err != POSTBAG_OK)
        return postbag__fail(
            &a->db.fault, err, "inbox: struct_size is not of this library");
    return postbag__begin(&a->db, DB_FULL);
}

static int end(struct postbag_admin *a,
    const struct postbag_inbox_choice *which, int err, int64_t count,
    int64_t *count_out)
{
    int is_named = which->arrival != 0 || which->id != NULL;

    if (err == POSTBAG_OK && count == 0 && is_named)
        err = postbag__fail(&a->db.fault, POSTBAG_ENOTFOUND,
            "there is no such command for which this can be done");
    if (err != POSTBAG_OK) {
        postbag__rollback(&a->db);
        return err;
    }
    err = postbag__commit(&a->db);
    if (err == POSTBAG_OK && count_out != NULL)
        *count_out = count;
    return err;
}

int postbag_admin_inbox_requeue(struct postbag_admin *a,
    const struct postbag_inbox_choice *which, int64_t *count_out)
{
    struct postbag_inbox_choice w;
    int64_t count = 0;
    int err = begin(a, which, &w);

    if (err != POSTBAG_OK)
        return err;
    err = postbag__inbox_requeue(&a->db, &w, &count);
    return end(a, &w, err, count, count_out);
}

int postbag_admin_inbox_discard(struct postbag_admin *a,
    const struct postbag_inbox_choice *which, int64_t *count_out)
{
    struct postbag_inbox_choice w;
    struct moment now;
    int64_t count = 0;
    int err = begin(a, which, &w);

    if (err != POSTBAG_OK)
        return err;
    now = postbag__moment_now(a->port, a->boot);
    err = postbag__inbox_discard(&a->db, &w, &now, &count);
    return end(a, &w, err, count, count_out);
}
