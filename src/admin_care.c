/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  The public face for tools, continued: what looks after a database
 * as a whole.  The caller's thread.
 */
#include "abi.h"
#include "admin.h"
#include "error.h"
#include "status_store.h"
#include "verify.h"

/* ---- verify ---- */

static int tell_dropped(
    struct db *db, const char *dest, const struct postbag_verify *v)
{
    struct stmt s;
    int result = 0;
    int err = postbag__prepare(db, &s,
        "SELECT reason, sum(n), sum(bytes) FROM outbox_lost WHERE dest = ?1"
        " GROUP BY reason ORDER BY reason");

    if (err != POSTBAG_OK)
        return err;
    postbag__bind_text(&s, 1, dest);
    while (result == 0 && (err = postbag__row(&s)) == 1)
        result = v->dropped(v->ctx, dest, postbag__col_text(&s, 0),
            postbag__col_i64(&s, 1), postbag__col_i64(&s, 2));
    postbag__finalize(&s);
    return err < 0 ? err : result;
}

static int tell_ledger(
    struct postbag_admin *a, const char *dest, const struct postbag_verify *v)
{
    struct postbag_status status = {.struct_size = sizeof(status)};
    struct moment now;
    int err;

    postbag__admin_clocks(a, &now);
    err = postbag__status_read(&a->db, dest, &now, &status);
    if (err < 0)
        return postbag__verify_unreadable(&a->db, v, "ledger", dest, err);
    if (err == POSTBAG_OK && v->ledger != NULL)
        err = v->ledger(v->ctx, dest, &status);
    if (err == POSTBAG_OK && v->dropped != NULL)
        err = tell_dropped(&a->db, dest, v);
    return err;
}

static int tell_ledgers(struct postbag_admin *a, const struct postbag_verify *v)
{
    struct stmt s;
    int result = 0;
    int err = postbag__prepare(
        &a->db, &s, "SELECT name FROM outbox_dest ORDER BY name");

    if (err != POSTBAG_OK)
        return err;
    while (result == 0 && (err = postbag__row(&s)) == 1)
        result = tell_ledger(a, postbag__col_text(&s, 0), v);
    postbag__finalize(&s);
    return err < 0 ? err : result;
}

int postbag_admin_verify(
    struct postbag_admin *a, const struct postbag_verify *verify)
{
    struct postbag_verify v;
    int err = postbag__adopt(&v, sizeof(v), verify);

    if (err != POSTBAG_OK)
        return postbag__fail(
            &a->db.fault, err, "verify: struct_size is not of this library");
    err = postbag__pin(&a->db);
    if (err != POSTBAG_OK)
        return err;
    err = postbag__verify(&a->db, &v);
    if (err == POSTBAG_OK)
        err = tell_ledgers(a, &v);
    postbag__rollback(&a->db);
    return err;
}
