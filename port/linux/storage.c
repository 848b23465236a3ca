/* SPDX-License-Identifier: MIT */
/*
 * Can SQLite's WAL live at a path?  It shares memory between processes by
 * mapping a file, which no network file system keeps coherent between hosts,
 * and needs locks that hold.  FUSE is let through: what stands behind it
 * cannot be seen, and much of it is local.  Any thread.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "linux_port.h"

/* Links followed at the end of a path, as many as the kernel would. */
#define MAX_LINKS 40

static const uint32_t network_magic[] = {
    0x00006969, /* NFS */
    0x0000517B, /* SMB */
    0xFF534D42, /* CIFS */
    0xFE534D42, /* SMB 2 and 3 */
    0x01021997, /* 9p */
    0x73757245, /* Coda */
    0x5346414F, /* OpenAFS */
    0x6B414653, /* kAFS */
    0x00C36400, /* Ceph */
};

static int check_one(const char *path)
{
    struct statfs fs;
    size_t i;

    while (statfs(path, &fs) != 0)
        if (errno != EINTR)
            return postbag__linux_error(errno);
    for (i = 0; i < sizeof(network_magic) / sizeof(network_magic[0]); i++)
        if ((uint32_t)fs.f_type == network_magic[i])
            return POSTBAG_ESTORAGE;
    return POSTBAG_OK;
}

/* Put the target of the link at path into path.  0: it is no link, or there
   is nothing; 1: followed; negative: error. */
static int follow(char path[PATH_MAX])
{
    char target[PATH_MAX];
    char joined[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int folder_len = slash == NULL ? 0 : (int)(slash - path) + 1;
    ssize_t got = readlink(path, target, sizeof(target) - 1);
    int len;

    if (got < 0)
        return errno == EINVAL || errno == ENOENT ? 0
                                                  : postbag__linux_error(errno);
    target[got] = '\0';
    if (target[0] == '/')
        folder_len = 0;
    len = snprintf(joined, sizeof(joined), "%.*s%s", folder_len, path, target);
    if (len < 0 || (size_t)len >= sizeof(joined))
        return POSTBAG_EIO;
    memcpy(path, joined, (size_t)len + 1);
    return 1;
}

/* The folder of the file that path ends at: there the WAL will be, also when
   the file itself is mounted from elsewhere. */
static int check_folder(char path[PATH_MAX])
{
    char *slash = strrchr(path, '/');

    if (slash == NULL)
        return check_one(".");
    slash[1] = '\0';
    return check_one(path);
}

int postbag__linux_storage_check(void *ctx, const char *path)
{
    char real[PATH_MAX];
    int links = 0;
    int err;

    (void)ctx;
    if (strlen(path) >= sizeof(real))
        return POSTBAG_EIO;
    memcpy(real, path, strlen(path) + 1);
    do {
        err = follow(real);
    } while (err == 1 && ++links < MAX_LINKS);
    if (err != 0)
        return err < 0 ? err : POSTBAG_EIO;
    if (access(real, F_OK) == 0) {
        err = check_one(real);
        if (err != POSTBAG_OK)
            return err;
    }
    return check_folder(real);
}
