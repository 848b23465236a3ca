/* SPDX-License-Identifier: MIT */
/* See crash_disk.h. */
#include "crash_disk.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

enum {
    SECTOR = 512,
    PATH_BYTES = 160,
    EVENTS = 20000,
    DATA_BYTES = 64 * 1024 * 1024, /* taken as it is used */
    FILE_BYTES = 8 * 1024 * 1024   /* of one file that a cut leaves */
};

static const char *const suffixes[] = {"", "-wal", "-journal", "-shm"};
enum { SHM = 3, FILES = SHM, NO_FILE = FILES };

enum kind { MADE, WRITTEN, SIZED, SYNCED, DELETED };

struct event {
    enum kind kind;
    unsigned file;
    size_t at; /* SIZED: the new size */
    size_t len;
    size_t data; /* where it stands in record.data */
};

struct record {
    size_t begun;
    size_t count;
    size_t used;
    struct event events[EVENTS];
    unsigned char data[DATA_BYTES];
};

static struct record *record;
static char recorded[PATH_BYTES];
static int disk_lies;
static int kills_in_sync;
static sqlite3_vfs *real;

/* ---- the record -------------------------------------------------------- */

/* Which file of the recorded database this is. */
static unsigned file_of(const char *name)
{
    size_t len = strlen(recorded);
    unsigned file = 0;

    if (len == 0 || name == NULL || strncmp(name, recorded, len) != 0)
        return NO_FILE;
    while (file < FILES && strcmp(name + len, suffixes[file]) != 0)
        file++;
    return file;
}

static void note(
    enum kind kind, unsigned file, size_t at, const void *data, size_t len)
{
    if (file == NO_FILE)
        return;
    assert_true(record->count < EVENTS);
    assert_true(len <= DATA_BYTES - record->used);
    record->events[record->count++] =
        (struct event){kind, file, at, len, record->used};
    if (len > 0)
        memcpy(record->data + record->used, data, len);
    record->used += len;
}

/* ---- the files of the VFS ---------------------------------------------- */

/* SQLite's own file with some methods of ours; the first member is what it
 * points to. */
struct open_file {
    sqlite3_io_methods ours;
    const sqlite3_io_methods *theirs;
    unsigned file;
};

static struct open_file *open_file(const sqlite3_file *f)
{
    return (struct open_file *)(uintptr_t)f->pMethods;
}

static int close_file(sqlite3_file *f)
{
    struct open_file *o = open_file(f);
    int rc = o->theirs->xClose(f);

    sqlite3_free(o);
    return rc;
}

static int write_file(
    sqlite3_file *f, const void *data, int len, sqlite3_int64 at)
{
    const struct open_file *o = open_file(f);
    int rc = o->theirs->xWrite(f, data, len, at);

    if (rc == SQLITE_OK)
        note(WRITTEN, o->file, (size_t)at, data, (size_t)len);
    return rc;
}

static int size_file(sqlite3_file *f, sqlite3_int64 size)
{
    const struct open_file *o = open_file(f);
    int rc = o->theirs->xTruncate(f, size);

    if (rc == SQLITE_OK)
        note(SIZED, o->file, (size_t)size, NULL, 0);
    return rc;
}

static int sync_file(sqlite3_file *f, int flags)
{
    (void)flags;
    if (kills_in_sync)
        (void)raise(SIGKILL);
    if (!disk_lies)
        note(SYNCED, open_file(f)->file, 0, NULL, 0);
    return SQLITE_OK;
}

static int is_there(const char *name)
{
    return access(name, F_OK) == 0;
}

static int open_vfs_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *f,
    int flags, int *flags_out)
{
    unsigned file = file_of(name);
    int is_new = file != NO_FILE && !is_there(name);
    int rc = real->xOpen(real, name, f, flags, flags_out);
    struct open_file *o;

    (void)vfs;
    if (rc != SQLITE_OK)
        return rc;
    o = sqlite3_malloc(sizeof(*o));
    assert_non_null(o);
    o->ours = *f->pMethods;
    o->ours.xClose = close_file;
    o->ours.xWrite = write_file;
    o->ours.xTruncate = size_file;
    o->ours.xSync = sync_file;
    o->theirs = f->pMethods;
    o->file = file;
    f->pMethods = &o->ours;
    if (is_new)
        note(MADE, file, 0, NULL, 0);
    return rc;
}

static int delete_file(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    int rc = real->xDelete(real, name, 0);

    (void)vfs;
    if (rc != SQLITE_OK)
        return rc;
    note(DELETED, file_of(name), 0, NULL, 0);
    if (sync_folder && !disk_lies)
        note(SYNCED, file_of(name), 0, NULL, 0);
    return rc;
}

void crash_disk_install(void)
{
    static sqlite3_vfs vfs;
    void *shared = mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_true(shared != MAP_FAILED);
    record = shared;
    real = sqlite3_vfs_find(NULL);
    vfs = *real;
    vfs.zName = "crash-disk";
    vfs.pNext = NULL;
    vfs.xOpen = open_vfs_file;
    vfs.xDelete = delete_file;
    assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

/* ---- what the test says ------------------------------------------------ */

static const char *name_of(const char *path, unsigned file)
{
    static char name[PATH_BYTES + 16];

    (void)snprintf(name, sizeof(name), "%s%s", path, suffixes[file]);
    return name;
}

/* A file as it stands becomes the first events of the record. */
static void note_as_is(unsigned file)
{
    int fd = open(name_of(recorded, file), O_RDONLY | O_CLOEXEC);
    struct stat is;
    void *bytes;

    if (fd < 0)
        return;
    assert_int_equal(fstat(fd, &is), 0);
    bytes = malloc((size_t)is.st_size + 1);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, (size_t)is.st_size), is.st_size);
    assert_int_equal(close(fd), 0);
    note(MADE, file, 0, NULL, 0);
    note(WRITTEN, file, 0, bytes, (size_t)is.st_size);
    note(SYNCED, file, 0, NULL, 0);
    free(bytes);
}

void crash_disk_record(const char *path)
{
    assert_true(strlen(path) < sizeof(recorded));
    (void)snprintf(recorded, sizeof(recorded), "%s", path);
    record->count = 0;
    record->used = 0;
    for (unsigned file = 0; file < FILES; file++)
        note_as_is(file);
    record->begun = record->count;
}

size_t crash_disk_events(void)
{
    return record->count;
}

void crash_disk_lie(int lies)
{
    disk_lies = lies;
}

void crash_disk_kill_in_sync(int kills)
{
    kills_in_sync = kills;
}

/* ---- what a cut leaves ------------------------------------------------- */

/* A file while it is made. */
struct image {
    int is_there;
    size_t len;
    unsigned char bytes[FILE_BYTES];
};

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void resize(struct image *i, size_t len)
{
    assert_true(len <= FILE_BYTES);
    if (len > i->len)
        memset(i->bytes + i->len, 0, len - i->len);
    i->len = len;
}

static void put(struct image *i, size_t at, const unsigned char *data, size_t n)
{
    if (at + n > i->len)
        resize(i, at + n);
    memcpy(i->bytes + at, data, n);
}

static void apply(struct image *i, const struct event *e)
{
    if (e->kind == MADE || e->kind == DELETED) {
        i->is_there = e->kind == MADE;
        resize(i, 0);
    } else if (e->kind == WRITTEN) {
        put(i, e->at, record->data + e->data, e->len);
    } else if (e->kind == SIZED) {
        resize(i, e->at);
    }
}

/* Each sector of a write, or not. */
static void apply_torn(struct image *i, const struct event *e, uint64_t *luck)
{
    size_t end = e->at + e->len;
    size_t next;

    for (size_t at = e->at; at < end; at = next) {
        next = (at / SECTOR + 1) * SECTOR;
        if (next > end)
            next = end;
        if (draw(luck) % 2 == 0)
            put(i, at, record->data + e->data + (at - e->at), next - at);
    }
}

static void apply_by_luck(
    struct image *i, const struct event *e, uint64_t *luck)
{
    uint64_t of_three = draw(luck) % 3;

    if (of_three == 0)
        return;
    if (of_three == 1 && e->kind == WRITTEN)
        apply_torn(i, e, luck);
    else
        apply(i, e);
}

/* Events of the file up to its last sync before the cut. */
static size_t synced(const struct crash_cut *cut, unsigned file)
{
    for (size_t n = cut->events; n > 0; n--) {
        const struct event *e = &record->events[n - 1];

        if (e->file == file && e->kind == SYNCED)
            return n;
    }
    return 0;
}

static void leave(const struct crash_cut *cut, unsigned file, struct image *i)
{
    size_t sure = synced(cut, file);
    uint64_t luck =
        cut->seed + cut->events * 1000003u + cut->draw * 101u + file;

    i->is_there = 0;
    i->len = 0;
    for (size_t n = 0; n < cut->events; n++) {
        const struct event *e = &record->events[n];

        if (e->file != file || (n >= sure && cut->left == CRASH_NOTHING))
            continue;
        if (n >= sure && cut->left == CRASH_SOME)
            apply_by_luck(i, e, &luck);
        else if (n + 1 == cut->events && cut->left == CRASH_TORN)
            apply_torn(i, e, &luck);
        else
            apply(i, e);
    }
}

static void write_image(const struct image *i, const char *name)
{
    int fd;

    if (!i->is_there) {
        (void)unlink(name);
        return;
    }
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, i->bytes, i->len), i->len);
    assert_int_equal(close(fd), 0);
}

void crash_cut_make(const struct crash_cut *cut, const char *path)
{
    static struct image image;

    assert_true(cut->events >= record->begun && cut->events <= record->count);
    for (unsigned file = 0; file < FILES; file++) {
        leave(cut, file, &image);
        write_image(&image, name_of(path, file));
    }
    (void)unlink(name_of(path, SHM));
}

/* ---- all cuts ---------------------------------------------------------- */

/* Changes that a cut may take back. */
static size_t pending(const struct crash_cut *cut)
{
    size_t count = 0;

    for (unsigned file = 0; file < FILES; file++)
        for (size_t n = synced(cut, file); n < cut->events; n++)
            count += record->events[n].file == file;
    return count;
}

/* Of cuts that leave the same, the latest: by then most had been promised. */
static int is_new(const struct crash_cut *cut)
{
    const struct event *last = &record->events[cut->events - 1];
    int is_end = cut->events == record->count;

    switch (cut->left) {
    case CRASH_NOTHING:
        return cut->draw == 0 && (is_end || last[1].kind == SYNCED);
    case CRASH_ALL:
        return cut->draw == 0 && (is_end || last[1].kind != SYNCED);
    case CRASH_TORN:
        return last->kind == WRITTEN &&
               last->at / SECTOR != (last->at + last->len - 1) / SECTOR;
    case CRASH_SOME:
        return pending(cut) > 1;
    case CRASH_LEFTS:
        break;
    }
    return 0;
}

static void step(struct crash_cut *cut, unsigned draws)
{
    if (cut->events == 0) {
        cut->events = record->begun > 0 ? record->begun : 1;
        return;
    }
    if (++cut->draw < draws)
        return;
    cut->draw = 0;
    if (++cut->left < CRASH_LEFTS)
        return;
    cut->left = CRASH_NOTHING;
    cut->events++;
}

int crash_cut_next(struct crash_cut *cut, unsigned draws)
{
    do
        step(cut, draws);
    while (cut->events <= record->count && !is_new(cut));
    return cut->events <= record->count;
}
