/* SPDX-License-Identifier: MIT */
/*
 * The -shm of a disk in memory (memdisk.h).  SQLite writes to it without
 * asking, so each connection has a mapping of its own to the same memory:
 * that of a process that dies is made a copy, and no longer changes what
 * others see.
 *
 * The memory is one file without a name, in slots.  What is given back is kept
 * for the next one, with a mapping: a power cut's images open and close
 * databases by the million.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memdisk_parts.h"

/* ---- slots ------------------------------------------------------------- */

enum {
    SLOT_BYTES = 65536, /* also where pages of memory are as large */
    SLOTS = 4096,
    SPARES = 4
};

/* One region of a -shm; mappings of it that nobody uses. */
struct slot {
    volatile void *spares[SPARES];
    int spare_count;
};

static struct slot slots[SLOTS];
static int unused[SLOTS];
static int unused_count, slot_count;

static int memory(void)
{
    static int fd = -1;

    if (fd < 0) {
        fd = memfd_create("memdisk-shm", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)SLOTS * SLOT_BYTES) != 0)
            memdisk_stop("no memory for a -shm");
    }
    return fd;
}

static volatile void *take_view(int slot)
{
    struct slot *s = &slots[slot];
    void *view;

    if (s->spare_count > 0)
        return s->spares[--s->spare_count];
    view = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory(),
        (off_t)slot * SLOT_BYTES);
    if (view == MAP_FAILED)
        memdisk_stop("a -shm cannot be mapped");
    return view;
}

static void unmap(volatile void *view)
{
    if (munmap((void *)(uintptr_t)view, SHM_BYTES) != 0)
        memdisk_stop("a -shm cannot be unmapped");
}

static void give_view(int slot, volatile void *view)
{
    struct slot *s = &slots[slot];

    if (s->spare_count < SPARES)
        s->spares[s->spare_count++] = view;
    else
        unmap(view);
}

/* All zeros. */
static int take_slot(void)
{
    volatile void *view;
    int slot;

    if (unused_count == 0 && slot_count == SLOTS)
        memdisk_stop("too many -shm");
    slot = unused_count > 0 ? unused[--unused_count] : slot_count++;
    view = take_view(slot);
    memset((void *)(uintptr_t)view, 0, SHM_BYTES);
    give_view(slot, view);
    return slot;
}

/* ---- mapping ----------------------------------------------------------- */

static struct handle *handle_of(sqlite3_file *f)
{
    return (struct handle *)(void *)f;
}

/* Of the living that have this file open, h too. */
static struct handle *next_peer(const struct handle *h, struct handle *after)
{
    struct handle *p = after == NULL ? h->disk->handles : after->next;

    while (p != NULL && (p->file != h->file || p->is_dead))
        p = p->next;
    return p;
}

int shm_map(
    sqlite3_file *f, int region, int size, int extend, volatile void **out)
{
    struct handle *h = handle_of(f);
    struct shm *s = &h->file->shm;
    int rc = handle_call(h, MEMDISK_SHM);

    *out = NULL;
    if (rc != SQLITE_OK)
        return rc;
    if (size != SHM_BYTES || region >= SHM_REGIONS)
        memdisk_stop("region %d of %d bytes of a -shm", region, size);
    h->is_mapped = 1;
    while (extend && s->count <= region)
        s->regions[s->count++] = take_slot();
    if (region >= s->count)
        return SQLITE_OK;
    if (h->views[region] == NULL)
        h->views[region] = take_view(s->regions[region]);
    *out = h->views[region];
    return SQLITE_OK;
}

static void drop_views(struct handle *h)
{
    for (int i = 0; i < SHM_REGIONS; i++) {
        if (h->views[i] == NULL)
            continue;
        if (h->has_own_views)
            unmap(h->views[i]);
        else
            give_view(h->file->shm.regions[i], h->views[i]);
        h->views[i] = NULL;
    }
}

/* h has let go of it: was it the last? */
static void drop_memory(struct handle *h)
{
    struct shm *s = &h->file->shm;
    struct handle *p = next_peer(h, NULL);

    h->is_mapped = 0;
    h->shared = 0;
    h->exclusive = 0;
    while (p != NULL && !p->is_mapped)
        p = next_peer(h, p);
    if (p != NULL)
        return;
    while (s->count > 0)
        unused[unused_count++] = s->regions[--s->count];
}

/* There is no -shm that could be deleted. */
int shm_unmap(sqlite3_file *f, int deletes)
{
    struct handle *h = handle_of(f);

    (void)deletes;
    drop_views(h);
    if (!h->is_dead && h->is_mapped)
        drop_memory(h);
    return SQLITE_OK;
}

static void make_own(volatile void *view)
{
    unsigned char was[SHM_BYTES];
    void *at = (void *)(uintptr_t)view;

    memcpy(was, at, sizeof(was));
    if (mmap(at, SHM_BYTES, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        memdisk_stop("a -shm cannot be copied");
    memcpy(at, was, sizeof(was));
}

void shm_die(struct handle *h)
{
    for (int i = 0; i < SHM_REGIONS; i++)
        if (h->views[i] != NULL)
            make_own(h->views[i]);
    h->has_own_views = 1;
    if (h->is_mapped)
        drop_memory(h);
}

/* ---- locks ------------------------------------------------------------- */

static int is_held(struct handle *h, unsigned wanted, int also_shared)
{
    for (struct handle *p = next_peer(h, NULL); p != NULL; p = next_peer(h, p))
        if (p != h &&
            (wanted & (p->exclusive | (also_shared ? p->shared : 0))) != 0)
            return 1;
    return 0;
}

static int take(struct handle *h, unsigned wanted, int is_shared)
{
    int rc = handle_call(h, MEMDISK_SHM);

    if (rc != SQLITE_OK)
        return rc;
    if (!h->is_mapped)
        return SQLITE_IOERR_SHMLOCK;
    if (is_held(h, wanted, !is_shared))
        return SQLITE_BUSY;
    *(is_shared ? &h->shared : &h->exclusive) |= wanted;
    return SQLITE_OK;
}

int shm_lock(sqlite3_file *f, int first, int count, int flags)
{
    struct handle *h = handle_of(f);
    unsigned wanted = ((1u << count) - 1u) << first;

    if (first < 0 || first + count > SHM_LOCKS)
        memdisk_stop("lock %d of a -shm", first + count);
    if ((flags & SQLITE_SHM_LOCK) != 0)
        return take(h, wanted, (flags & SQLITE_SHM_SHARED) != 0);
    if (handle_is_alive(h, MEMDISK_SHM)) {
        h->shared &= ~wanted;
        h->exclusive &= ~wanted;
    }
    return SQLITE_OK;
}

/* Nothing is put off here; but this is where a process may die between two
 * things that it writes to the -shm. */
void shm_barrier(sqlite3_file *f)
{
    (void)handle_is_alive(handle_of(f), MEMDISK_SHM);
}
