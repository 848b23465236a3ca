/* SPDX-License-Identifier: MIT */
/* Disks in memory: their processes, power, faults.  See memdisk.h. */
#include "memdisk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memdisk_parts.h"

static struct memdisk *disks;
static unsigned made;

/* ---- disks ------------------------------------------------------------- */

struct memdisk *memdisk_new(uint64_t seed)
{
    struct memdisk *d = calloc(1, sizeof(*d));

    if (d == NULL)
        memdisk_stop("no memory");
    d->number = ++made;
    d->sector = 512;
    d->next = disks;
    disks = d;
    memdisk_begin_luck(seed);
    memdisk_process(d, 0);
    return d;
}

static void nobody_has_it_open(const struct memdisk *d)
{
    if (d->handles != NULL)
        memdisk_stop("%s is open", d->handles->file->name);
}

void memdisk_free(struct memdisk *d)
{
    struct memdisk **at = &disks;

    nobody_has_it_open(d);
    while (*at != d)
        at = &(*at)->next;
    *at = d->next;
    memdisk_free_files(d);
    free(d->dead);
    free(d);
}

const char *memdisk_path(const struct memdisk *d, const char *name)
{
    static char path[NAME_BYTES + 32];

    (void)snprintf(path, sizeof(path), "/disk%u/%s", d->number, name);
    return path;
}

struct memdisk *memdisk_of(const char *path, const char **name_out)
{
    struct memdisk *d = disks;
    unsigned number = 0;
    int len = 0;

    if (path == NULL || sscanf(path, "/disk%u/%n", &number, &len) != 1 ||
        len == 0)
        return NULL;
    while (d != NULL && d->number != number)
        d = d->next;
    if (d == NULL)
        memdisk_stop("there is no disk of %s", path);
    *name_out = path + len;
    return d;
}

/* All of its numbers are free again. */
static void renew(struct memdisk *d)
{
    nobody_has_it_open(d);
    d->processes = 0;
    memdisk_process(d, 0);
    d->death.nth = 0;
    d->fail.nth = 0;
    d->last = NULL;
}

static void clear(struct memdisk *d)
{
    renew(d);
    for (struct file *f = d->files; f != NULL; f = f->next) {
        f->is_there = 0;
        f->now.len = 0;
        file_sync(f);
    }
}

void memdisk_copy(struct memdisk *to, const struct memdisk *from)
{
    clear(to);
    for (const struct file *f = from->files; f != NULL; f = f->next)
        file_copy(memdisk_make_file(to, f->name), f);
    if (from->last != NULL)
        to->last = memdisk_file(to, from->last->name);
}

/* ---- processes --------------------------------------------------------- */

void memdisk_process(struct memdisk *d, unsigned process)
{
    d->process = process;
    if (process < d->processes)
        return;
    d->dead = realloc(d->dead, process + 1);
    if (d->dead == NULL)
        memdisk_stop("no memory");
    memset(d->dead + d->processes, 0, process + 1 - d->processes);
    d->processes = process + 1;
}

void memdisk_revive(struct memdisk *d, unsigned process)
{
    if (process < d->processes)
        d->dead[process] = 0;
}

int memdisk_is_dead(const struct memdisk *d, unsigned process)
{
    return process < d->processes && d->dead[process];
}

void memdisk_kill(struct memdisk *d, unsigned process)
{
    if (process >= d->processes)
        memdisk_stop("there is no process %u", process);
    d->dead[process] = 1;
    for (struct handle *h = d->handles; h != NULL; h = h->next) {
        if (h->process != process || h->is_dead)
            continue;
        h->is_dead = 1;
        h->level = SQLITE_LOCK_NONE;
        shm_die(h);
    }
}

/* ---- calls ------------------------------------------------------------- */

/* Is it this call's turn?  Then the trap is shut. */
static int springs(struct trap *t, enum memdisk_call call)
{
    if (t->nth == 0 || (t->call != call && t->call != MEMDISK_ANY))
        return 0;
    return --t->nth == 0;
}

static int is_alive(struct memdisk *d, unsigned process, enum memdisk_call call)
{
    if (memdisk_is_dead(d, process))
        return 0;
    if ((d->death_of >= 0 && (unsigned)d->death_of != process) ||
        !springs(&d->death, call))
        return 1;
    memdisk_kill(d, process);
    if (d->died != NULL)
        d->died(d->died_ctx);
    return 0;
}

int memdisk_call(struct memdisk *d, unsigned process, enum memdisk_call call)
{
    if (!is_alive(d, process, call))
        return SQLITE_IOERR;
    d->calls[call]++;
    d->calls[MEMDISK_ANY]++;
    if (!springs(&d->fail, call))
        return SQLITE_OK;
    if (d->fail_is_for_good)
        d->fail.nth = 1;
    return d->fail_rc;
}

int handle_call(struct handle *h, enum memdisk_call call)
{
    int rc = SQLITE_IOERR;

    if (!h->is_dead)
        rc = memdisk_call(h->disk, h->process, call);
    return h->is_dead ? SQLITE_IOERR : rc;
}

int handle_is_alive(struct handle *h, enum memdisk_call call)
{
    return !h->is_dead && is_alive(h->disk, h->process, call) && !h->is_dead;
}

void memdisk_die_at(struct memdisk *d, int process, enum memdisk_call call,
    uint64_t nth, void (*died)(void *ctx), void *ctx)
{
    d->death = (struct trap){call, nth};
    d->death_of = process;
    d->died = died;
    d->died_ctx = ctx;
}

void memdisk_fail(struct memdisk *d, enum memdisk_call call, uint64_t nth,
    int rc, int for_good, int is_half)
{
    d->fail = (struct trap){call, nth};
    d->fail_rc = rc;
    d->fail_is_for_good = for_good;
    d->fail_is_half = is_half;
}

uint64_t memdisk_calls(const struct memdisk *d, enum memdisk_call call)
{
    return d->calls[call];
}

void memdisk_room(struct memdisk *d, size_t bytes)
{
    d->room = bytes;
}

void memdisk_lie(struct memdisk *d, int lies)
{
    d->lies = lies;
}

void memdisk_sector(struct memdisk *d, unsigned bytes)
{
    d->sector = bytes;
}

/* ---- watching ---------------------------------------------------------- */

void memdisk_watch(struct memdisk *d,
    void (*changing)(void *ctx, enum memdisk_call how), void *ctx)
{
    d->changing = changing;
    d->changing_ctx = ctx;
}

void memdisk_changing(struct memdisk *d, enum memdisk_call how)
{
    if (d->changing != NULL)
        d->changing(d->changing_ctx, how);
    d->changes++;
    d->last = NULL;
}

uint64_t memdisk_changes(const struct memdisk *d)
{
    return d->changes;
}

size_t memdisk_pending(const struct memdisk *d)
{
    size_t count = 0;

    for (const struct file *f = d->files; f != NULL; f = f->next)
        count += f->count;
    return count;
}

int memdisk_can_be_torn(const struct memdisk *d)
{
    const struct change *c;

    if (d->last == NULL || d->last->count == 0)
        return 0;
    c = &d->last->changes[d->last->count - 1];
    return c->at / d->sector != (c->at + c->len - 1) / d->sector;
}

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9fb21c651e98df25);
    return h ^ (h >> 32);
}

static uint64_t mix_bytes(uint64_t h, const unsigned char *at, size_t len)
{
    uint64_t word = 0;

    for (; len >= sizeof(word); at += sizeof(word), len -= sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        h = mix(h, word);
    }
    word = 0;
    for (size_t i = 0; i < len; i++)
        word = word << 8 | at[i];
    return mix(h, word ^ (uint64_t)len << 56);
}

/* Files stand in any order. */
uint64_t memdisk_print(const struct memdisk *d)
{
    uint64_t sum = 0;

    for (const struct file *f = d->files; f != NULL; f = f->next) {
        uint64_t h = mix(f->now.len, 1);

        if (!f->is_there)
            continue;
        h = mix_bytes(h, (const unsigned char *)f->name, strlen(f->name));
        sum += mix_bytes(h, f->now.at, f->now.len);
    }
    return sum;
}

/* ---- power ------------------------------------------------------------- */

void memdisk_image(const struct memdisk *d, enum memdisk_left left,
    uint64_t seed, struct memdisk *out)
{
    clear(out);
    for (const struct file *f = d->files; f != NULL; f = f->next)
        file_cut(memdisk_make_file(out, f->name), f, left, seed, d->sector,
            f == d->last);
}

void memdisk_cut(struct memdisk *d, enum memdisk_left left, uint64_t seed)
{
    for (unsigned i = 0; i < d->processes; i++)
        memdisk_kill(d, i);
    for (struct file *f = d->files; f != NULL; f = f->next)
        file_cut(f, f, left, seed, d->sector, f == d->last);
    d->last = NULL;
}

/* ---- contents ---------------------------------------------------------- */

unsigned char *memdisk_bytes(
    struct memdisk *d, const char *name, size_t *len_out)
{
    struct file *f = memdisk_file(d, name);

    *len_out = 0;
    if (f == NULL || !f->is_there)
        return NULL;
    bytes_resize(&f->now, f->now.len + 1); /* so that there is a pointer */
    f->now.len--;
    *len_out = f->now.len;
    return f->now.at;
}

void memdisk_put(
    struct memdisk *d, const char *name, const void *bytes, size_t len)
{
    struct file *f = memdisk_make_file(d, name);

    for (const struct handle *h = d->handles; h != NULL; h = h->next)
        if (h->file == f && !h->is_dead)
            memdisk_stop("%s is open", name);
    f->is_there = bytes != NULL;
    f->now.len = 0;
    if (bytes != NULL)
        bytes_put(&f->now, 0, bytes, len);
    file_sync(f);
    if (d->last == f)
        d->last = NULL;
}
