/* SPDX-License-Identifier: MIT */
/*
 * Locks on small files of ours.  Any thread.
 *
 * Open-file-description locks: they belong to our descriptor, so two holders
 * in one process exclude each other and no other code's close() drops them.
 * The kernel frees them with the last copy of the descriptor; a child that
 * was forked without exec keeps a copy while it lives.
 *
 * The file stays when the lock is gone.  Were it unlinked, one process could
 * hold the lock of the old file and another that of a new one.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "linux_port.h"

struct postbag_lock {
    int fd;
};

/* 0, or errno */
static int set_lock(int fd, short type)
{
    /* from 0 for 0 bytes: the whole file */
    struct flock range = {.l_type = type, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_SETLK, &range) == 0 ? 0 : errno;
}

int postbag__linux_lock_file(
    void *ctx, const char *path, struct postbag_lock **out)
{
    struct postbag_lock *l = malloc(sizeof(*l));
    int err;
    int cause;

    (void)ctx;
    if (l == NULL)
        return POSTBAG_ENOMEM;
    l->fd = open(
        path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (l->fd < 0) {
        err = postbag__linux_error(errno);
        goto out;
    }
    cause = set_lock(l->fd, F_WRLCK);
    if (cause == 0) {
        *out = l;
        return POSTBAG_OK;
    }
    err = cause == EAGAIN || cause == EACCES ? POSTBAG_EBUSY
                                             : postbag__linux_error(cause);
    (void)close(l->fd);
out:
    free(l);
    return err;
}

void postbag__linux_unlock_file(void *ctx, struct postbag_lock *l)
{
    (void)ctx;
    if (l == NULL)
        return;
    /* close() alone would leave it to a forked child's copy. */
    (void)set_lock(l->fd, F_UNLCK);
    (void)close(l->fd);
    free(l);
}
