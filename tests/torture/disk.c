/* SPDX-License-Identifier: MIT */
/* Each call of the VFS fails in its turn, with the codes that it may have. */
#include <sqlite3.h>

#include "memdisk.h"
#include "scene.h"

static uint64_t calls_before;
static const struct blow *blow;
static struct moment_of when;

static enum memdisk_call kind(void)
{
    return (enum memdisk_call)blow->call;
}

static void arm(const struct blow *what, const struct moment_of *then)
{
    blow = what;
    when = *then;
    calls_before = memdisk_calls(stage_disk(), kind());
    memdisk_fail(stage_disk(), kind(), when.nth, what->code, when.for_good,
        what->is_half);
}

static uint64_t struck(void)
{
    uint64_t calls = memdisk_calls(stage_disk(), kind()) - calls_before;

    if (calls < when.nth)
        return 0;
    return when.for_good ? calls - when.nth + 1 : 1;
}

static void disarm(void)
{
    memdisk_fail(stage_disk(), kind(), 0, 0, 0, 0);
}

#define DISK(call_, code_, expect_) \
    { \
        .name = #call_ " " #code_, .group = FUSE_DISK, \
        .call = MEMDISK_##call_, .code = SQLITE_##code_, \
        .expect = POSTBAG_##expect_ \
    }
#define HALF(call_, code_, expect_) \
    { \
        .name = "half of a " #call_ " " #code_, .group = FUSE_DISK, \
        .call = MEMDISK_##call_, .code = SQLITE_##code_, \
        .expect = POSTBAG_##expect_, .is_half = 1 \
    }

int main(int argc, char **argv)
{
    static const struct fuse_hooks hooks = {
        .arm = arm, .struck = struck, .disarm = disarm};
    static const struct blow blows[] = {DISK(READ, IOERR_READ, EIO),
        DISK(WRITE, IOERR_WRITE, EIO), DISK(WRITE, FULL, ENOSPC),
        HALF(WRITE, IOERR_WRITE, EIO), HALF(WRITE, FULL, ENOSPC),
        DISK(SIZE, IOERR_TRUNCATE, EIO), DISK(SYNC, IOERR_FSYNC, EIO),
        DISK(DELETE, IOERR_DELETE, EIO), DISK(ACCESS, IOERR_ACCESS, EIO),
        DISK(OPEN, CANTOPEN, EIO), DISK(LOCK, IOERR_LOCK, EIO),
        DISK(LOCK, BUSY, EBUSY), DISK(SHM, IOERR_SHMMAP, EIO),
        DISK(SHM, IOERR_SHMSIZE, ENOSPC), DISK(SHM, NOMEM, ENOMEM)};

    (void)argc;
    stage_use_memdisk();
    fuse_hook(&hooks);
    return torture_main(
        argv + 1, "F16_io", blows, sizeof(blows) / sizeof(blows[0]));
}
