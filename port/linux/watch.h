/* SPDX-License-Identifier: MIT */
/* Notice writes to one file with inotify; see watch.c. */
#ifndef POSTBAG_LINUX_WATCH_H
#define POSTBAG_LINUX_WATCH_H

#include <stdbool.h>

struct watch {
    int fd;           /* -1: nothing was ever watched */
    int file_wd;      /* -1: not watched */
    int folder_wd;    /* -1: not watched */
    char *path;       /* NULL: nothing is watched */
    char *folder;     /* of path */
    const char *name; /* last part of path, within path */
};

void postbag__linux_watch_init(struct watch *w);
void postbag__linux_watch_free(struct watch *w);
/* POSTBAG_OK, ENOMEM, EIO; on failure nothing is watched. */
int postbag__linux_watch_set(struct watch *w, const char *path);
/* Before each sleep: watch again what could not be watched in between.
   true: the file is back, and may have been written. */
bool postbag__linux_watch_ready(struct watch *w);
/* Take what stands in the queue.  true: the file was written, or may have
   been. */
bool postbag__linux_watch_drain(struct watch *w);

#endif
