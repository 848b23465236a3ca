/* SPDX-License-Identifier: MIT */
/*
 * Another connection takes a lock before the k-th call of a public function,
 * and leaves it after it, or only when the act is over.
 */
#include "scene.h"

enum lock_kind { LOCK_WRITE, LOCK_READ };

static struct sqlite3 *rival;

static int try_run(const char *sql)
{
    return sqlite3_exec(rival, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static void take(const char *sql)
{
    if (rival != NULL || !stage_exists())
        return;
    rival = stage_connect();
    if (!try_run(sql)) {
        stage_close(rival);
        rival = NULL;
    }
}

static void let_go(void)
{
    if (rival == NULL)
        return;
    (void)try_run("ROLLBACK");
    stage_close(rival);
    rival = NULL;
}

static void before(struct torture *t)
{
    (void)t;
    let_go(); /* of a call that nothing comes after */
    if (fuse_ask(FUSE_LOCK, LOCK_WRITE))
        take("BEGIN IMMEDIATE");
    if (fuse_ask(FUSE_LOCK, LOCK_READ))
        take("BEGIN; SELECT count(*) FROM sqlite_schema");
}

static void after(struct torture *t)
{
    (void)t;
    let_go();
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
