/* SPDX-License-Identifier: MIT */
/*
 * A disk in memory, below the real SQLite: a VFS of ours whose processes can
 * be killed, whose power can be cut and whose calls can fail, at any moment,
 * and which does the same again from the same seed.
 *
 * What a power cut leaves of a file:
 *
 *     what was synced                is there
 *     what came after the last sync  is there, or is not, or in part, by
 *                                    sectors; each file for itself, and
 *                                    nothing keeps its order
 *
 * A file's name is there after the file's first sync.  That of a deleted one is
 * gone for good when the folder is synced, which SQLite does with the first
 * sync of a new journal or WAL, and where it says so.  The room that SQLite
 * asks for ahead (SQLITE_FCNTL_SIZE_HINT) is a change of the file's size as any
 * other.  The -shm is memory: of a file's connections while there are any, gone
 * with the last of them and after a power cut.
 *
 * A process is a number: connections belong to the one that was current when
 * they were opened.  The calls of a dead one fail with SQLITE_IOERR and change
 * nothing, what it has mapped of a -shm is its own from then on, its locks are
 * free.  So a test kills the code under test in the middle of whatever it does,
 * lets it run on to its end in a void, closes it, and nothing leaks.
 *
 * Also SQLite's clock, its randomness and its sleep come from here.  SQLite has
 * one of each for all files.  One thread.  What goes wrong here ends the test
 * program.
 */
#ifndef POSTBAG_TESTS_MEMDISK_H
#define POSTBAG_TESTS_MEMDISK_H

#include <stddef.h>
#include <stdint.h>

struct memdisk;

/* What is left of that which was not synced. */
enum memdisk_left {
    MEMDISK_NOTHING,
    MEMDISK_ALL,  /* as when only processes end */
    MEMDISK_TORN, /* all, but of the last write only some sectors */
    MEMDISK_SOME, /* each change is there, is not, or (a write) in part */
    MEMDISK_LEFTS
};

/* The calls that a disk can be asked for, for memdisk_fail and its counts. */
enum memdisk_call {
    MEMDISK_OPEN,
    MEMDISK_READ,
    MEMDISK_WRITE,
    MEMDISK_SIZE, /* truncate */
    MEMDISK_SYNC,
    MEMDISK_DELETE,
    MEMDISK_ACCESS,
    MEMDISK_LOCK,
    MEMDISK_SHM, /* map, lock, barrier */
    MEMDISK_ANY,
    MEMDISK_CALLS
};

/* Once, before the program's first connection: becomes SQLite's default VFS.
 * Paths that begin with "/disk" are ours; others go to SQLite's own. */
void memdisk_install(void);

/* An empty disk.  SQLite's random numbers begin anew, from this seed. */
struct memdisk *memdisk_new(uint64_t seed);
/* No connection to it is open, not even a dead one. */
void memdisk_free(struct memdisk *d);
/* "/disk7/NAME": what SQLite and Postbag are given; until the next call. */
const char *memdisk_path(const struct memdisk *d, const char *name);
/* Files on it become those of another one, as they stand there, with what a
 * power cut may take back; processes are as new.  Nobody has it open. */
void memdisk_copy(struct memdisk *to, const struct memdisk *from);

/* ---- Processes and power ----------------------------------------------- */

/* Connections that are opened from now on are of this process (0 at first); its
 * journals go with the connection.  Those of a dead one cannot be opened. */
void memdisk_process(struct memdisk *d, unsigned process);
/* Another process of that number: the connections of the old one stay dead. */
void memdisk_revive(struct memdisk *d, unsigned process);
/* SIGKILL. */
void memdisk_kill(struct memdisk *d, unsigned process);
int memdisk_is_dead(const struct memdisk *d, unsigned process);
/* All processes that there were die, and of the files is there what a power cut
 * leaves.  The luck hangs on the seed only. */
void memdisk_cut(struct memdisk *d, enum memdisk_left left, uint64_t seed);
/* The nth call of this kind from now on, of this process or, if it is negative,
 * of any: the process that makes it dies before what it asks for is done.  0:
 * none.  died: called then, from within the call; may be NULL.  memdisk_cut may
 * be called from within it, and this. */
void memdisk_die_at(struct memdisk *d, int process, enum memdisk_call call,
    uint64_t nth, void (*died)(void *ctx), void *ctx);

/* ---- Failing calls ----------------------------------------------------- */

/* The nth call of this kind from now on, and if for_good is set all later
 * ones, answer rc (SQLITE_IOERR_WRITE, SQLITE_FULL, SQLITE_NOMEM ...) and do
 * nothing; of a write that fails half may be done (is_half).  nth 0: none.
 * Letting go of a lock never fails, nor does a barrier; they do not count. */
void memdisk_fail(struct memdisk *d, enum memdisk_call call, uint64_t nth,
    int rc, int for_good, int is_half);
/* Calls so far; failed ones too, but not those of the dead. */
uint64_t memdisk_calls(const struct memdisk *d, enum memdisk_call call);
/* Most bytes of all files but the -shm; of a write beyond only what fits is
 * done, and it answers SQLITE_FULL.  0: no end. */
void memdisk_room(struct memdisk *d, size_t bytes);
/* 1: the disk takes no sync for one, as some do that say they had. */
void memdisk_lie(struct memdisk *d, int lies);
/* Bytes in a sector, by which writes are torn: 512, as at first, or 4096.
 * SQLite hears 4096, as from its own VFS. */
void memdisk_sector(struct memdisk *d, unsigned bytes);

/* ---- Watching ---------------------------------------------------------- */

/* Called before each change (of a file made: MEMDISK_OPEN), from within the
 * call: what was promised by then is promised for the disk as it stands.  NULL:
 * no more.  It may kill, cut, and open connections to other disks. */
void memdisk_watch(struct memdisk *d,
    void (*changing)(void *ctx, enum memdisk_call how), void *ctx);
/* Changes so far. */
uint64_t memdisk_changes(const struct memdisk *d);
/* Changes that a power cut may take back. */
size_t memdisk_pending(const struct memdisk *d);
/* Was the last change a write to more than one sector? */
int memdisk_can_be_torn(const struct memdisk *d);
/* Another disk becomes what a power cut would leave of this one now. */
void memdisk_image(const struct memdisk *d, enum memdisk_left left,
    uint64_t seed, struct memdisk *out);
/* A number of all files' names and contents: equal where they are. */
uint64_t memdisk_print(const struct memdisk *d);

/* ---- Time -------------------------------------------------------------- */

/* What SQLite's clock reads from now on, and what its sleeps do
 * (microseconds), for files on all disks.  NULLs, as at first: it stands at
 * 2027-01-15, and sleeping does nothing. */
void memdisk_clock(int64_t (*wall_ms)(void *ctx),
    void (*sleep_us)(void *ctx, int us), void *ctx);

/* ---- Contents ---------------------------------------------------------- */

/* A file's bytes, to damage or to look at; NULL: there is none.  Borrowed until
 * the next change. */
unsigned char *memdisk_bytes(
    struct memdisk *d, const char *name, size_t *len_out);
/* Put a file there, synced; replaces one of that name, and nobody has it
 * open.  bytes NULL: it is deleted. */
void memdisk_put(
    struct memdisk *d, const char *name, const void *bytes, size_t len);

#endif
