/* SPDX-License-Identifier: MIT */
/*
 * Another connection takes a lock before the k-th call of a public function,
 * and leaves it after it, or only when the act is over.
 */
#include "scene.h"

enum lock_kind { LOCK_WRITE, LOCK_READ };

static struct sqlite3 *rival;
static int has_lock;

static int try_run(const char *sql)
{
    return sqlite3_exec(rival, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static void leave(void)
{
    if (rival != NULL)
        stage_close(rival);
    rival = NULL;
}

/* It stays connected, which costs less; but not beside who needs the database
 * for himself. */
static void take(const struct torture *t, const char *sql)
{
    if (has_lock || !stage_exists())
        return;
    if (rival == NULL)
        rival = stage_connect();
    has_lock = try_run(sql);
    if (!has_lock && (t->life->flags & LIFE_ALONE) != 0)
        leave();
}

static void let_go(const struct torture *t)
{
    if (has_lock)
        (void)try_run("ROLLBACK");
    has_lock = 0;
    if (fuse_blow() == NULL || (t->life->flags & LIFE_ALONE) != 0)
        leave();
}

static void before(struct torture *t)
{
    let_go(t); /* of a call that nothing comes after */
    if (fuse_ask(FUSE_LOCK, LOCK_WRITE))
        take(t, "BEGIN IMMEDIATE");
    if (fuse_ask(FUSE_LOCK, LOCK_READ))
        take(t, "BEGIN; SELECT count(*) FROM sqlite_schema");
}

static void after(struct torture *t)
{
    let_go(t);
}

int main(int argc, char **argv)
{
    static const struct blow blows[] = {{.name = "the write lock",
                                            .group = FUSE_LOCK,
                                            .call = LOCK_WRITE,
                                            .code = 1,
                                            .expect = POSTBAG_EBUSY},
        {.name = "a read lock",
            .group = FUSE_LOCK,
            .call = LOCK_READ,
            .code = 1,
            .expect = POSTBAG_EBUSY}};

    (void)argc;
    torture_before = before;
    torture_after = after;
    return torture_main(
        argv + 1, "F18_busy", blows, sizeof(blows) / sizeof(blows[0]));
}
