/* SPDX-License-Identifier: MIT */
/* Room for a database, taken in advance: for installers and for firmware. */
#ifndef POSTBAG_PREPARE_H
#define POSTBAG_PREPARE_H

#include "postbag/admin.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Lay the files of a database out in advance, so that neither puts nor the
 * relay need room on the disk later: before anybody opens it, once, say when
 * the device is installed.  Creates what is not there, as postbag_admin_init.
 * Does what it can in files that are written in place (ext4, xfs, tmpfs); on
 * a file system that writes anew elsewhere (UBIFS, F2FS, btrfs) it promises
 * nothing: there use option min_free_bytes.
 *
 * What is free on the file system is looked at before anything is laid out
 * (room of the port).  Where it runs out on the way all the same, what is free
 * in the database is given back, as by postbag_admin_vacuum.
 *
 * Puts stay within db_bytes if max_bytes (options.h) and your own tables do.
 * The WAL and the -shm file are deleted when the last connection closes, if it
 * is not one of Postbag's: close yours before postbag_close, or set
 * SQLITE_FCNTL_PERSIST_WAL on it.
 * @param config     writable is not looked at
 * @param db_bytes   size of the database's file, the free pages in it included;
 *                   not less than what is in it and wal_bytes together, since
 *                   the WAL is laid out by writing pages of the file
 * @param wal_bytes  of the WAL; 0: 4 MiB, four times checkpoint_frames of 4 KiB
 * @param why        may be NULL; filled on failure
 * @return POSTBAG_OK, EINVAL (a size is negative), EBUSY (somebody has it
 *         open), ENOSPC (there is no such room, the fault says how much is
 *         needed; if it ran out on the way, a table outbox_filler may be left,
 *         which the next call removes), and as postbag_admin_init
 * Thread: any.  Blocks: on SQLite, with fsyncs; writes db_bytes three times.
 */
POSTBAG_API POSTBAG_CHECK int postbag_prepare(
    const struct postbag_admin_config *config, int64_t db_bytes,
    int64_t wal_bytes, struct postbag_fault *why);

#ifdef __cplusplus
}
#endif

#endif
