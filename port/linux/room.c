/* SPDX-License-Identifier: MIT */
/* What is left on a file system.  Any thread. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "linux_port.h"

/* 0 or errno. */
static int look(const char *path, struct statvfs *fs)
{
    while (statvfs(path, fs) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

/* The file need not be there yet. */
static int look_at_folder(const char *path, struct statvfs *fs)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int len = slash == NULL ? 0 : (int)(slash - path) + 1;
    int put = slash == NULL
                  ? snprintf(folder, sizeof(folder), ".")
                  : snprintf(folder, sizeof(folder), "%.*s", len, path);

    if (put < 0 || (size_t)put >= sizeof(folder))
        return ENAMETOOLONG;
    return look(folder, fs);
}

int postbag__linux_room(void *ctx, const char *path, struct postbag_room *out)
{
    struct statvfs fs;
    int cause = look(path, &fs);

    (void)ctx;
    if (cause == ENOENT)
        cause = look_at_folder(path, &fs);
    if (cause != 0)
        return postbag__linux_error(cause);
    /* f_bavail, not f_bfree: the rest is kept for root, and by ext4 for
       itself */
    out->free_bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    out->size_bytes = (int64_t)fs.f_blocks * (int64_t)fs.f_frsize;
    out->free_files = fs.f_files == 0 ? -1 : (int64_t)fs.f_favail;
    return POSTBAG_OK;
}
