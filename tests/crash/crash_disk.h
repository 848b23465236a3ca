/* SPDX-License-Identifier: MIT */
/*
 * A disk whose power can be cut at any moment.  A VFS in front of SQLite's own
 * records what a database and its journals go through: made, written, cut to a
 * size, synced, deleted.  From that record it makes the files as they may be
 * after a power cut:
 *
 *     what was synced                is there
 *     what came after the last sync  is there, or is not, or in part, by
 *                                    sectors of 512 bytes; each file for
 *                                    itself, and nothing keeps its order
 *
 * The record stands in memory that child processes share: one that is killed
 * leaves what it had done.  The -shm file is memory, and gone after a power
 * cut.  Nothing is ever really synced, which would only take time.
 *
 * Not recorded: growth by SQLITE_FCNTL_SIZE_HINT, and syncs of folders (a file
 * is there after its first sync, as SQLite sees to for its journals).
 *
 * One thread.  What goes wrong here fails the test.
 */
#ifndef POSTBAG_TESTS_CRASH_DISK_H
#define POSTBAG_TESTS_CRASH_DISK_H

#include <stddef.h>
#include <stdint.h>

/* What is left of that which was not synced. */
enum crash_left {
    CRASH_NOTHING,
    CRASH_ALL,  /* as when only the process ends */
    CRASH_TORN, /* all, but of the last write only some sectors */
    CRASH_SOME, /* each change is there, is not, or (a write) in part */
    CRASH_LEFTS
};

/* A power cut after the first `events` of the record.  What is left by chance
 * hangs on the numbers here only. */
struct crash_cut {
    size_t events;
    enum crash_left left;
    unsigned draw; /* the same with other luck */
    uint64_t seed;
};

/* Once, before the program's first connection. */
void crash_disk_install(void);
/* Record the database at this path, anew.  As it stands now it is synced; no
 * connection to it is open.  The path is copied. */
void crash_disk_record(const char *path);
/* Events so far; the first ones are what stood there when it began. */
size_t crash_disk_events(void);

/* 1: the disk takes no sync for one, as some do that say they had; 0: it
 * does. */
void crash_disk_lie(int lies);
/* 1: the process ends, as by SIGKILL, instead of the next sync. */
void crash_disk_kill_in_sync(int kills);

/* The next cut, from one that is zero but for its seed on; of those that leave
 * the same only the latest.  draws: of each that has luck in it.  0: there are
 * no more. */
int crash_cut_next(struct crash_cut *cut, unsigned draws);
/* Files at path become what the cut leaves; nobody has them open. */
void crash_cut_make(const struct crash_cut *cut, const char *path);

#endif
