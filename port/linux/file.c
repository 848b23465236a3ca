/* SPDX-License-Identifier: MIT */
/*
 * Replace a file in one step: write a new one beside it, rename it over the
 * old.  No fsync: what is written this way is live state, worthless after a
 * reboot, or a note that may be missed.  Any thread; of two at once the later
 * wins.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "linux_port.h"

#define FOLDER_MODE (S_IRWXU | S_IRGRP | S_IXGRP | S_IROTH | S_IXOTH)
#define FILE_MODE (S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH)

/* All functions here return 0 or errno. */

static int make_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    size_t len;

    if (slash == NULL || slash == path)
        return ENOENT;
    len = (size_t)(slash - path);
    if (len >= sizeof(folder))
        return ENAMETOOLONG;
    memcpy(folder, path, len);
    folder[len] = '\0';
    if (mkdir(folder, FOLDER_MODE) != 0 && errno != EEXIST)
        return errno;
    return 0;
}

static int name_new(char name[PATH_MAX], const char *path)
{
    int len = snprintf(name, PATH_MAX, "%s.XXXXXX", path);

    return len < 0 || len >= PATH_MAX ? ENAMETOOLONG : 0;
}

/* Leaves the name of the new file in name. */
static int open_new(const char *path, char name[PATH_MAX], int *fd_out)
{
    int cause = name_new(name, path);

    if (cause != 0)
        return cause;
    *fd_out = mkostemp(name, O_CLOEXEC);
    if (*fd_out >= 0)
        return 0;
    if (errno != ENOENT)
        return errno;
    cause = make_folder_of(path);
    if (cause == 0)
        cause = name_new(name, path);
    if (cause != 0)
        return cause;
    *fd_out = mkostemp(name, O_CLOEXEC);
    return *fd_out >= 0 ? 0 : errno;
}

static int write_all(int fd, const char *at, size_t len)
{
    while (len > 0) {
        ssize_t put = write(fd, at, len);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        at += put;
        len -= (size_t)put;
    }
    return 0;
}

static int fill(int fd, const void *buf, size_t len)
{
    int cause = write_all(fd, buf, len);

    if (cause == 0 && fchmod(fd, FILE_MODE) != 0)
        cause = errno;
    if (close(fd) != 0 && cause == 0)
        cause = errno;
    return cause;
}

int postbag__linux_replace_file(
    void *ctx, const char *path, const void *buf, size_t len)
{
    char name[PATH_MAX];
    int fd = -1;
    int cause = open_new(path, name, &fd);

    (void)ctx;
    if (cause != 0)
        return postbag__linux_error(cause);
    cause = fill(fd, buf, len);
    if (cause == 0 && rename(name, path) != 0)
        cause = errno;
    if (cause == 0)
        return POSTBAG_OK;
    /* What cannot be removed either is a small file more in a tmpfs. */
    (void)unlink(name);
    return postbag__linux_error(cause);
}
