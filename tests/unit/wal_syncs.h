/* SPDX-License-Identifier: MIT */
/*
 * Counts the syncs of WAL files, and lets them fail: a VFS in front of
 * SQLite's own, for all connections of the program.  What unit tests cannot
 * see otherwise, whether something was on disk when it was said to be.
 */
#ifndef POSTBAG_TESTS_WAL_SYNCS_H
#define POSTBAG_TESTS_WAL_SYNCS_H

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Since the test last set it to 0. */
static unsigned wal_syncs;
/* Not 0: there is an error instead. */
static int wal_syncs_fail;

static sqlite3_vfs *wal_syncs_real;
static sqlite3_io_methods wal_syncs_methods;
static int (*wal_syncs_real_sync)(sqlite3_file *file, int flags);

static int wal_syncs_sync(sqlite3_file *file, int flags)
{
    wal_syncs++;
    return wal_syncs_fail ? SQLITE_IOERR_FSYNC
                          : wal_syncs_real_sync(file, flags);
}

static int wal_syncs_open(sqlite3_vfs *vfs, const char *name,
    sqlite3_file *file, int flags, int *flags_out)
{
    int rc =
        wal_syncs_real->xOpen(wal_syncs_real, name, file, flags, flags_out);

    (void)vfs;
    if (rc != SQLITE_OK || !(flags & SQLITE_OPEN_WAL))
        return rc;
    wal_syncs_real_sync = file->pMethods->xSync;
    wal_syncs_methods = *file->pMethods;
    wal_syncs_methods.xSync = wal_syncs_sync;
    file->pMethods = &wal_syncs_methods;
    return rc;
}

/* Once, before the program's first connection. */
static inline void wal_syncs_install(void)
{
    static sqlite3_vfs vfs;

    wal_syncs_real = sqlite3_vfs_find(NULL);
    vfs = *wal_syncs_real;
    vfs.zName = "wal-syncs";
    vfs.pNext = NULL;
    vfs.xOpen = wal_syncs_open;
    assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

#endif
