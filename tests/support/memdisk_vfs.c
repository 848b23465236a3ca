/* SPDX-License-Identifier: MIT */
/*
 * What SQLite asks of a disk in memory (memdisk.h): its methods.  They do what
 * those of SQLite's own VFS for Unix do, locks and answers too.
 */
#include <stdlib.h>
#include <string.h>

#include "memdisk_parts.h"

static sqlite3_vfs *theirs;

static struct handle *handle_of(sqlite3_file *f)
{
    return (struct handle *)(void *)f;
}

/* ---- bytes ------------------------------------------------------------- */

static int read_file(sqlite3_file *f, void *out, int len, sqlite3_int64 at)
{
    struct handle *h = handle_of(f);
    const struct bytes *b = &h->file->now;
    size_t there = (size_t)at < b->len ? b->len - (size_t)at : 0;
    int rc = handle_call(h, MEMDISK_READ);

    if (rc != SQLITE_OK)
        return rc;
    if (there >= (size_t)len) {
        memcpy(out, b->at + at, (size_t)len);
        return SQLITE_OK;
    }
    memset(out, 0, (size_t)len);
    if (there > 0)
        memcpy(out, b->at + at, there);
    return SQLITE_IOERR_SHORT_READ;
}

static size_t used(const struct memdisk *d)
{
    size_t bytes = 0;

    for (const struct file *f = d->files; f != NULL; f = f->next)
        bytes += f->is_there ? f->now.len : 0;
    return bytes;
}

/* How long the file may become. */
static size_t longest(const struct handle *h)
{
    const struct memdisk *d = h->disk;
    size_t all = d->room == 0 ? 0 : used(d);

    if (d->room == 0)
        return SIZE_MAX;
    return h->file->now.len + (d->room > all ? d->room - all : 0);
}

static void write_part(
    struct handle *h, const void *data, size_t len, size_t at)
{
    if (len == 0)
        return;
    memdisk_changing(h->disk, MEMDISK_WRITE);
    if (h->is_dead)
        return;
    file_write(h->file, at, data, len);
    h->disk->last = h->file;
}

static int write_file(
    sqlite3_file *f, const void *data, int bytes, sqlite3_int64 offset)
{
    struct handle *h = handle_of(f);
    size_t len = (size_t)bytes;
    size_t at = (size_t)offset;
    int rc = handle_call(h, MEMDISK_WRITE);
    size_t most;

    if (rc != SQLITE_OK) {
        if (!h->is_dead && h->disk->fail_is_half)
            write_part(h, data, len / 2, at);
        return rc;
    }
    most = longest(h);
    if (at + len > most) {
        write_part(h, data, most > at ? most - at : 0, at);
        return SQLITE_FULL;
    }
    write_part(h, data, len, at);
    return h->is_dead ? SQLITE_IOERR : SQLITE_OK;
}

static void resize(struct handle *h, size_t size)
{
    memdisk_changing(h->disk, MEMDISK_SIZE);
    if (!h->is_dead)
        file_resize(h->file, size);
}

static size_t in_chunks(const struct handle *h, sqlite3_int64 size)
{
    size_t chunk = h->chunk == 0 ? 1 : h->chunk;

    return ((size_t)size + chunk - 1) / chunk * chunk;
}

static int truncate_file(sqlite3_file *f, sqlite3_int64 size)
{
    struct handle *h = handle_of(f);
    int rc = handle_call(h, MEMDISK_SIZE);

    if (rc != SQLITE_OK)
        return rc;
    if (in_chunks(h, size) > longest(h))
        return SQLITE_IOERR_TRUNCATE;
    resize(h, in_chunks(h, size));
    return h->is_dead ? SQLITE_IOERR : SQLITE_OK;
}

/* Without a chunk the hint is not taken, nor is it by SQLite's own. */
static int grow(struct handle *h, sqlite3_int64 size)
{
    int rc;

    if (h->chunk == 0 || in_chunks(h, size) <= h->file->now.len)
        return SQLITE_OK;
    rc = handle_call(h, MEMDISK_SIZE);
    if (rc != SQLITE_OK)
        return rc;
    if (in_chunks(h, size) > longest(h))
        return SQLITE_IOERR_WRITE;
    resize(h, in_chunks(h, size));
    return h->is_dead ? SQLITE_IOERR : SQLITE_OK;
}

static void sync_folder(struct memdisk *d)
{
    for (struct file *f = d->files; f != NULL; f = f->next)
        if (f->count > 0)
            file_sync_name(f);
}

static int sync_file(sqlite3_file *f, int flags)
{
    struct handle *h = handle_of(f);
    int rc = handle_call(h, MEMDISK_SYNC);

    (void)flags;
    if (rc != SQLITE_OK)
        return rc;
    memdisk_changing(h->disk, MEMDISK_SYNC);
    if (h->is_dead || h->disk->lies)
        return h->is_dead ? SQLITE_IOERR : SQLITE_OK;
    file_sync(h->file);
    if (h->is_new)
        sync_folder(h->disk);
    h->is_new = 0;
    return SQLITE_OK;
}

static int size_file(sqlite3_file *f, sqlite3_int64 *out)
{
    struct handle *h = handle_of(f);

    *out = (sqlite3_int64)h->file->now.len;
    return h->is_dead ? SQLITE_IOERR : SQLITE_OK;
}

/* ---- locks ------------------------------------------------------------- */

/* The highest that another one has. */
static int level_of_others(const struct handle *h)
{
    int level = SQLITE_LOCK_NONE;

    for (const struct handle *p = h->disk->handles; p != NULL; p = p->next)
        if (p != h && p->file == h->file && !p->is_dead && p->level > level)
            level = p->level;
    return level;
}

static int lock_file(sqlite3_file *f, int level)
{
    struct handle *h = handle_of(f);
    int rc = handle_call(h, MEMDISK_LOCK);
    int others;

    if (rc != SQLITE_OK || level <= h->level)
        return rc;
    others = level_of_others(h);
    if (others >= SQLITE_LOCK_PENDING ||
        (level > SQLITE_LOCK_SHARED && others >= SQLITE_LOCK_RESERVED))
        return SQLITE_BUSY;
    if (level == SQLITE_LOCK_EXCLUSIVE && others >= SQLITE_LOCK_SHARED) {
        h->level = SQLITE_LOCK_PENDING; /* no new ones come in */
        return SQLITE_BUSY;
    }
    h->level = level;
    return SQLITE_OK;
}

static int unlock_file(sqlite3_file *f, int level)
{
    struct handle *h = handle_of(f);

    if (handle_is_alive(h, MEMDISK_LOCK) && level < h->level)
        h->level = level;
    return SQLITE_OK;
}

static int is_reserved(sqlite3_file *f, int *out)
{
    struct handle *h = handle_of(f);
    int rc = handle_call(h, MEMDISK_LOCK);

    *out = rc == SQLITE_OK && (h->level >= SQLITE_LOCK_RESERVED ||
                                  level_of_others(h) >= SQLITE_LOCK_RESERVED);
    return rc;
}

/* ---- the rest of a file ------------------------------------------------ */

static int close_file(sqlite3_file *f)
{
    struct handle *h = handle_of(f);
    struct handle **at = &h->disk->handles;

    (void)shm_unmap(f, 0);
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    if (h->deletes && !h->is_dead) {
        memdisk_changing(h->disk, MEMDISK_DELETE);
        file_delete(h->file);
    }
    return SQLITE_OK;
}

/* Negative asks, others set. */
static int flag(int *flag, int *arg)
{
    if (*arg < 0)
        *arg = *flag;
    else
        *flag = *arg != 0;
    return SQLITE_OK;
}

static int control(sqlite3_file *f, int what, void *arg)
{
    struct handle *h = handle_of(f);

    switch (what) {
    case SQLITE_FCNTL_LOCKSTATE:
        *(int *)arg = h->level;
        return SQLITE_OK;
    case SQLITE_FCNTL_CHUNK_SIZE:
        h->chunk = (size_t) * (int *)arg;
        return SQLITE_OK;
    case SQLITE_FCNTL_SIZE_HINT:
        return grow(h, *(sqlite3_int64 *)arg);
    case SQLITE_FCNTL_PERSIST_WAL:
        return flag(&h->keeps_wal, arg);
    case SQLITE_FCNTL_POWERSAFE_OVERWRITE:
        return flag(&h->is_powersafe, arg);
    case SQLITE_FCNTL_HAS_MOVED:
        *(int *)arg = 0;
        return SQLITE_OK;
    case SQLITE_FCNTL_VFSNAME:
        *(char **)arg = sqlite3_mprintf("memdisk");
        return SQLITE_OK;
    default:
        return SQLITE_NOTFOUND;
    }
}

static int sector_size(sqlite3_file *f)
{
    (void)f;
    return SQLITE_SECTOR;
}

static int characteristics(sqlite3_file *f)
{
    return handle_of(f)->is_powersafe ? SQLITE_IOCAP_POWERSAFE_OVERWRITE : 0;
}

/* ---- files by name ----------------------------------------------------- */

/* A journal is of the process that its database's connection is of: SQLite
 * spells it by the same bytes. */
static const struct handle *database_of(
    const struct memdisk *d, const char *path)
{
    const struct handle *h = d->handles;

    while (h != NULL &&
           (h->spelt == NULL || (path != h->journal && path != h->wal)))
        h = h->next;
    return h;
}

static int caller_is_dead(const struct memdisk *d, const char *path)
{
    const struct handle *of = database_of(d, path);

    return of == NULL ? memdisk_is_dead(d, d->process) : of->is_dead;
}

/* A call that names a file. */
static int call_by_name(
    struct memdisk *d, const char *path, enum memdisk_call call)
{
    const struct handle *of = database_of(d, path);
    int rc = SQLITE_IOERR;

    if (!caller_is_dead(d, path))
        rc = memdisk_call(d, of == NULL ? d->process : of->process, call);
    return caller_is_dead(d, path) ? SQLITE_IOERR : rc;
}

/* 0: the one who asked has died meanwhile. */
static int change_by_name(
    struct memdisk *d, const char *path, enum memdisk_call how)
{
    memdisk_changing(d, how);
    return !caller_is_dead(d, path);
}

static struct handle *take_handle(sqlite3_file *out, struct memdisk *d,
    struct file *file, const char *path, int flags)
{
    static const sqlite3_io_methods methods = {
        .iVersion = 2,
        .xClose = close_file,
        .xRead = read_file,
        .xWrite = write_file,
        .xTruncate = truncate_file,
        .xSync = sync_file,
        .xFileSize = size_file,
        .xLock = lock_file,
        .xUnlock = unlock_file,
        .xCheckReservedLock = is_reserved,
        .xFileControl = control,
        .xSectorSize = sector_size,
        .xDeviceCharacteristics = characteristics,
        .xShmMap = shm_map,
        .xShmLock = shm_lock,
        .xShmBarrier = shm_barrier,
        .xShmUnmap = shm_unmap,
    };
    const struct handle *of = database_of(d, path);
    struct handle *h = handle_of(out);

    memset(h, 0, sizeof(*h));
    h->base.pMethods = &methods;
    h->disk = d;
    h->file = file;
    h->process = of == NULL ? d->process : of->process;
    h->deletes = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
    h->is_powersafe = 1;
    if ((flags & SQLITE_OPEN_MAIN_DB) != 0) {
        h->spelt = path;
        h->journal = sqlite3_filename_journal(path);
        h->wal = sqlite3_filename_wal(path);
    }
    h->next = d->handles;
    d->handles = h;
    return h;
}

static int open_file(sqlite3_vfs *vfs, const char *path, sqlite3_file *out,
    int flags, int *flags_out)
{
    const char *name;
    struct memdisk *d = memdisk_of(path, &name);
    struct handle *h;
    struct file *file;
    int is_new = 0;
    int rc;

    (void)vfs;
    if (d == NULL)
        return theirs->xOpen(theirs, path, out, flags, flags_out);
    out->pMethods = NULL;
    rc = call_by_name(d, path, MEMDISK_OPEN);
    if (rc != SQLITE_OK)
        return rc;
    file = memdisk_make_file(d, name);
    if (file->is_there ? (flags & SQLITE_OPEN_EXCLUSIVE) != 0
                       : (flags & SQLITE_OPEN_CREATE) == 0)
        return SQLITE_CANTOPEN;
    if (!file->is_there) {
        if (!change_by_name(d, path, MEMDISK_OPEN))
            return SQLITE_IOERR;
        file_make(file);
        is_new = (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL |
                              SQLITE_OPEN_SUPER_JOURNAL)) != 0;
    }
    h = take_handle(out, d, file, path, flags);
    h->is_new = is_new;
    if (flags_out != NULL)
        *flags_out = flags;
    return SQLITE_OK;
}

static int delete_file(sqlite3_vfs *vfs, const char *path, int syncs_folder)
{
    const char *name;
    struct memdisk *d = memdisk_of(path, &name);
    struct file *file;
    int rc;

    (void)vfs;
    if (d == NULL)
        return theirs->xDelete(theirs, path, syncs_folder);
    rc = call_by_name(d, path, MEMDISK_DELETE);
    if (rc != SQLITE_OK)
        return rc;
    file = memdisk_file(d, name);
    if (file == NULL || !file->is_there)
        return SQLITE_IOERR_DELETE_NOENT;
    if (!change_by_name(d, path, MEMDISK_DELETE))
        return SQLITE_IOERR;
    file_delete(file);
    if (!syncs_folder || d->lies)
        return SQLITE_OK;
    if (!change_by_name(d, path, MEMDISK_SYNC))
        return SQLITE_IOERR;
    sync_folder(d);
    return SQLITE_OK;
}

/* To SQLite an empty file is none. */
static int access_file(sqlite3_vfs *vfs, const char *path, int how, int *out)
{
    const char *name;
    struct memdisk *d = memdisk_of(path, &name);
    const struct file *file;
    int rc;

    (void)vfs;
    if (d == NULL)
        return theirs->xAccess(theirs, path, how, out);
    rc = call_by_name(d, path, MEMDISK_ACCESS);
    file = memdisk_file(d, name);
    *out = rc == SQLITE_OK && file != NULL && file->is_there &&
           (how != SQLITE_ACCESS_EXISTS || file->now.len > 0);
    return rc;
}

static int full_path(sqlite3_vfs *vfs, const char *path, int size, char *out)
{
    const char *name;

    (void)vfs;
    if (memdisk_of(path, &name) == NULL)
        return theirs->xFullPathname(theirs, path, size, out);
    if (strlen(path) >= (size_t)size)
        return SQLITE_CANTOPEN;
    memcpy(out, path, strlen(path) + 1);
    return SQLITE_OK;
}

void memdisk_install(void)
{
    static sqlite3_vfs vfs;

    if (theirs != NULL)
        return;
    theirs = sqlite3_vfs_find(NULL);
    if (theirs == NULL)
        memdisk_stop("SQLite has no VFS");
    vfs = *theirs;
    vfs.zName = "memdisk";
    vfs.pNext = NULL;
    if (vfs.szOsFile < (int)sizeof(struct handle))
        vfs.szOsFile = (int)sizeof(struct handle);
    vfs.xOpen = open_file;
    vfs.xDelete = delete_file;
    vfs.xAccess = access_file;
    vfs.xFullPathname = full_path;
    memdisk_take_time(&vfs);
    if (sqlite3_vfs_register(&vfs, 1) != SQLITE_OK)
        memdisk_stop("the VFS cannot be registered");
}
