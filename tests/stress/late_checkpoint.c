/* SPDX-License-Identifier: MIT */
/* See late_checkpoint.h. */
#include "late_checkpoint.h"

#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdint.h>
#include <time.h>

/* Some commits' worth on the storage these runs use. */
enum { DELAY_NS = 300 * 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sqlite3_vfs vfs;
static sqlite3_io_methods methods;
static int (*real_open)(
    sqlite3_vfs *, sqlite3_filename, sqlite3_file *, int, int *);
static int (*real_unfetch)(sqlite3_file *, sqlite3_int64, void *);

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* All pages at once (page NULL): only a checkpoint asks for that here. */
static int late_unfetch(sqlite3_file *file, sqlite3_int64 offset, void *page)
{
    int64_t end = now_ns() + DELAY_NS;

    while (page == NULL && now_ns() < end)
        sched_yield();
    return real_unfetch(file, offset, page);
}

static int open_file(sqlite3_vfs *v, sqlite3_filename name, sqlite3_file *file,
    int flags, int *out_flags)
{
    int rc = real_open(v, name, file, flags, out_flags);

    if (rc != SQLITE_OK || !(flags & SQLITE_OPEN_MAIN_DB))
        return rc;
    /* every database file of the default VFS has the same functions */
    pthread_mutex_lock(&lock);
    if (real_unfetch == NULL) {
        methods = *file->pMethods;
        real_unfetch = methods.xUnfetch;
        methods.xUnfetch = late_unfetch;
    }
    pthread_mutex_unlock(&lock);
    file->pMethods = &methods;
    return rc;
}

int late_checkpoint_install(void)
{
    sqlite3_vfs *real = sqlite3_vfs_find(NULL);

    if (real == NULL)
        return SQLITE_ERROR;
    vfs = *real;
    vfs.pNext = NULL;
    vfs.zName = "late-checkpoint";
    real_open = vfs.xOpen;
    vfs.xOpen = open_file;
    return sqlite3_vfs_register(&vfs, 1);
}
