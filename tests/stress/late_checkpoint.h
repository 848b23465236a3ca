/* SPDX-License-Identifier: MIT */
/*
 * A VFS, the system's own but for one thing: a checkpoint is late at the
 * worst place.
 *
 * The WAL-reset bug needs a commit that starts the WAL afresh after a
 * checkpoint has read the WAL's header and before it looks how far the last
 * one came.  Between the two lies one call of the VFS, xUnfetch for the whole
 * file, made if the header is news to the connection.  Here it takes the time
 * of some commits.
 */
#ifndef POSTBAG_TEST_LATE_CHECKPOINT_H
#define POSTBAG_TEST_LATE_CHECKPOINT_H

/* The default VFS from here on; before any database is opened, and before
   there are threads.  Returns a code of SQLite. */
int late_checkpoint_install(void);

#endif
