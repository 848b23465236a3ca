/* SPDX-License-Identifier: MIT */
/*
 * Notice writes to one file, made by any process, with inotify.
 *
 *               the file is gone (deleted, moved away)
 *     file ---------------------------------------------> folder
 *     watched <------------------------------------------ watched
 *               a file of that name appears
 *
 * An inotify watch follows the inode, not the name.  So when the inode behind
 * the name may have changed, the name is watched again; the kernel answers
 * with the old watch if it is still the same file.  The folder is watched only
 * while there is no file: databases and journals beside it would keep waking
 * us.
 *
 * The file is never opened: closing a descriptor of it would drop the POSIX
 * locks that SQLite holds in this process.
 *
 * Used by wake.c on the thread that waits.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "linux_port.h"
#include "watch.h"

#define QUEUE_BYTES 4096

/* IN_ATTRIB, not IN_DELETE_SELF: unlink() changes the link count at once, but
   the inode lives on while somebody holds it open. */
#define FILE_EVENTS (IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF)
#define FOLDER_EVENTS (IN_CREATE | IN_MOVED_TO | IN_ONLYDIR)

void postbag__linux_watch_init(struct watch *w)
{
    *w = (struct watch){.fd = -1, .file_wd = -1, .folder_wd = -1};
}

static void forget(struct watch *w, int *wd)
{
    /* EINVAL when the kernel has dropped it already */
    if (*wd >= 0)
        (void)inotify_rm_watch(w->fd, *wd);
    *wd = -1;
}

static void clear(struct watch *w)
{
    forget(w, &w->file_wd);
    forget(w, &w->folder_wd);
    free(w->path);
    free(w->folder);
    w->path = NULL;
    w->folder = NULL;
    w->name = NULL;
}

void postbag__linux_watch_free(struct watch *w)
{
    clear(w);
    if (w->fd >= 0)
        (void)close(w->fd);
    w->fd = -1;
}

static int keep_path(struct watch *w, const char *path)
{
    const char *slash = strrchr(path, '/');

    w->path = strdup(path);
    if (slash == NULL)
        w->folder = strdup(".");
    else
        w->folder = strndup(path, (size_t)(slash - path) + 1);
    if (w->path == NULL || w->folder == NULL)
        return POSTBAG_ENOMEM;
    w->name = slash == NULL ? w->path : w->path + (slash - path) + 1;
    return POSTBAG_OK;
}

/* 0, or errno: ENOENT when there is no file. */
static int watch_file(struct watch *w)
{
    int wd = inotify_add_watch(w->fd, w->path, FILE_EVENTS);
    int cause = wd < 0 ? errno : 0;

    if (w->file_wd != wd)
        forget(w, &w->file_wd);
    w->file_wd = wd;
    return cause;
}

/* Watch whatever is behind the name now.  false: neither file nor folder can
   be watched, and neither is. */
static bool arm(struct watch *w)
{
    int cause = watch_file(w);

    if (cause == ENOENT) {
        w->folder_wd = inotify_add_watch(w->fd, w->folder, FOLDER_EVENTS);
        /* it may have come between the two calls */
        cause = watch_file(w);
        if (cause == ENOENT)
            return w->folder_wd >= 0;
    }
    forget(w, &w->folder_wd);
    return cause == 0;
}

int postbag__linux_watch_set(struct watch *w, const char *path)
{
    int err;

    clear(w);
    if (w->fd < 0)
        w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->fd < 0)
        return POSTBAG_EIO;
    err = keep_path(w, path);
    if (err == POSTBAG_OK && !arm(w))
        err = POSTBAG_EIO;
    if (err != POSTBAG_OK)
        clear(w);
    return err;
}

bool postbag__linux_watch_ready(struct watch *w)
{
    if (w->path == NULL || w->file_wd >= 0 || w->folder_wd >= 0)
        return false;
    return arm(w) && w->file_wd >= 0;
}

/* true: the file was written, or may have been. */
static bool take(struct watch *w, const struct inotify_event *e)
{
    if (e->mask & IN_Q_OVERFLOW) {
        (void)arm(w);
        return true;
    }
    if (e->wd == w->file_wd) {
        if (e->mask & IN_IGNORED)
            w->file_wd = -1;
        if (e->mask != IN_MODIFY)
            (void)arm(w);
        return true;
    }
    if (e->wd != w->folder_wd)
        return false; /* left from a watch that was given up */
    if (e->mask & IN_IGNORED)
        w->folder_wd = -1;
    if (e->len == 0 || strcmp(e->name, w->name) != 0)
        return false;
    (void)arm(w);
    return true;
}

bool postbag__linux_watch_drain(struct watch *w)
{
    _Alignas(struct inotify_event) char queue[QUEUE_BYTES];
    bool changed = false;
    ssize_t got;

    if (w->path == NULL)
        return false;
    /* A short read has emptied the queue.  Not until EAGAIN: against a fast
       writer that could take for ever. */
    do {
        ssize_t at = 0;

        got = read(w->fd, queue, sizeof(queue));
        while (at < got) {
            const struct inotify_event *e = (const void *)(queue + at);

            changed = take(w, e) || changed;
            at += (ssize_t)(sizeof(*e) + e->len);
        }
    } while (got > QUEUE_BYTES / 2);
    return changed;
}
