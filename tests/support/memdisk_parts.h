/* SPDX-License-Identifier: MIT */
/* Between the parts of memdisk*.c: a disk, its files, and who has them open.
 * See memdisk.h. */
#ifndef POSTBAG_TESTS_MEMDISK_PARTS_H
#define POSTBAG_TESTS_MEMDISK_PARTS_H

#include <sqlite3.h>

#include "memdisk.h"

enum {
    NAME_BYTES = 64,
    SHM_REGIONS = 16,  /* of a WAL of 65,000 frames */
    SHM_BYTES = 32768, /* SQLite's WALINDEX_PGSZ */
    SHM_LOCKS = SQLITE_SHM_NLOCK,
    SQLITE_SECTOR = 4096
};

struct bytes {
    unsigned char *at;
    size_t len, size;
};

/* How a file was changed, so that it can be undone and done again.  Offsets are
 * those of file.kept. */
enum change_kind { MADE, WRITTEN, SIZED, DELETED };

struct change {
    enum change_kind kind;
    size_t at; /* SIZED: the new size */
    size_t len, fresh;
    size_t was_len, was_at; /* what it replaced, from `at` on */
    size_t was_size;        /* of the file before */
};

struct shm {
    int count;
    int regions[SHM_REGIONS];
};

struct file {
    struct file *next;
    char name[NAME_BYTES];
    int is_there;
    struct bytes now;
    /* since the last sync */
    struct change *changes;
    size_t count, room;
    struct bytes kept;
    struct shm shm;
};

/* An open file, as SQLite holds it. */
struct handle {
    sqlite3_file base; /* first: SQLite's */
    struct memdisk *disk;
    struct file *file;
    struct handle *next;
    unsigned process;
    int is_dead;
    int deletes; /* when it is closed */
    int is_new;  /* a journal whose name is not synced */
    /* a database's: how SQLite spells it and its journals */
    const char *spelt, *journal, *wal;
    int level; /* SQLITE_LOCK_NONE ... */
    int keeps_wal, is_powersafe;
    size_t chunk;
    /* the -shm */
    int is_mapped;
    unsigned shared, exclusive; /* locks, by bits */
    volatile void *views[SHM_REGIONS];
    int has_own_views; /* of a dead one */
};

/* What happens to a call: its nth from now on. */
struct trap {
    enum memdisk_call call;
    uint64_t nth; /* 0: it is not set */
};

struct memdisk {
    struct memdisk *next;
    unsigned number;
    struct file *files;
    struct handle *handles;
    unsigned process;
    unsigned char *dead; /* by process */
    size_t processes;
    uint64_t calls[MEMDISK_CALLS];
    uint64_t changes;
    size_t room, sector;
    int lies;
    /* memdisk_fail */
    struct trap fail;
    int fail_rc, fail_is_for_good, fail_is_half;
    /* memdisk_die_at */
    struct trap death;
    int death_of;
    void (*died)(void *ctx);
    void *died_ctx;
    void (*changing)(void *ctx, enum memdisk_call how);
    void *changing_ctx;
    struct file *last; /* was changed last, by a write */
};

/* ---- memdisk_files.c: bytes, and what happened to them ---- */

__attribute__((noreturn, format(printf, 1, 2))) void memdisk_stop(
    const char *format, ...);
/* NULL: there never was one. */
struct file *memdisk_file(const struct memdisk *d, const char *name);
struct file *memdisk_make_file(struct memdisk *d, const char *name);
void memdisk_free_files(struct memdisk *d);
/* Change it, and keep how. */
void file_make(struct file *f);
void file_write(struct file *f, size_t at, const void *data, size_t len);
void file_resize(struct file *f, size_t size);
void file_delete(struct file *f);
void file_sync(struct file *f);
/* As a sync of the folder: if it was deleted, that stays so. */
void file_sync_name(struct file *f);
void bytes_resize(struct bytes *b, size_t len);
void bytes_put(struct bytes *b, size_t at, const void *data, size_t len);
/* The file of another disk becomes this one, with its changes. */
void file_copy(struct file *to, const struct file *from);
/* `to` becomes what a power cut leaves of `from`; they may be the same.
 * is_last: the last write was to it. */
void file_cut(struct file *to, const struct file *from, enum memdisk_left left,
    uint64_t seed, size_t sector, int is_last);

/* ---- memdisk.c ---- */

/* The disk and the name on it that a path means; NULL: none of ours. */
struct memdisk *memdisk_of(const char *path, const char **name_out);
/* Count a call, and say what comes of it: SQLITE_OK, or an error without it
 * being done. */
int memdisk_call(struct memdisk *d, unsigned process, enum memdisk_call call);
/* The same of a call of an open file: a connection stays dead when its
 * process's number has become another's. */
int handle_call(struct handle *h, enum memdisk_call call);
/* The same of a call that cannot fail by itself; 0: its caller is dead. */
int handle_is_alive(struct handle *h, enum memdisk_call call);
void memdisk_changing(struct memdisk *d, enum memdisk_call how);

/* ---- memdisk_time.c ---- */

uint64_t memdisk_draw(uint64_t *state);
/* What SQLite's generator begins with. */
void memdisk_begin_luck(uint64_t seed);
void memdisk_take_time(struct sqlite3_vfs *vfs);

/* ---- memdisk_shm.c ---- */

int shm_map(
    sqlite3_file *f, int region, int size, int extend, volatile void **out);
int shm_lock(sqlite3_file *f, int first, int count, int flags);
void shm_barrier(sqlite3_file *f);
int shm_unmap(sqlite3_file *f, int deletes);
/* What it has mapped becomes its own, its locks are free. */
void shm_die(struct handle *h);

#endif
