/* SPDX-License-Identifier: MIT */
/*
 * Files of a disk in memory (memdisk.h): their bytes as they stand, and what
 * changed since the last sync, each change with what it replaced.  So a sync
 * only forgets, and what a power cut leaves is made by undoing all of it and
 * doing some of it again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memdisk_parts.h"

void memdisk_stop(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fputs("memdisk: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    abort();
}

/* ---- bytes ------------------------------------------------------------- */

static void *at_least(void *list, size_t *room, size_t needed, size_t each)
{
    if (needed <= *room)
        return list;
    while (*room < needed)
        *room = *room == 0 ? 64 : *room * 2;
    list = realloc(list, *room * each);
    if (list == NULL)
        memdisk_stop("no memory");
    return list;
}

void bytes_resize(struct bytes *b, size_t len)
{
    b->at = at_least(b->at, &b->size, len, 1);
    if (len > b->len)
        memset(b->at + b->len, 0, len - b->len);
    b->len = len;
}

void bytes_put(struct bytes *b, size_t at, const void *data, size_t len)
{
    if (len == 0)
        return;
    if (at + len > b->len)
        bytes_resize(b, at + len);
    memcpy(b->at + at, data, len);
}

static void bytes_copy(struct bytes *to, const struct bytes *from)
{
    to->len = 0;
    bytes_put(to, 0, from->at, from->len);
}

/* ---- the files of a disk ----------------------------------------------- */

struct file *memdisk_file(const struct memdisk *d, const char *name)
{
    struct file *f = d->files;

    while (f != NULL && strcmp(f->name, name) != 0)
        f = f->next;
    return f;
}

struct file *memdisk_make_file(struct memdisk *d, const char *name)
{
    struct file *f = memdisk_file(d, name);

    if (f != NULL)
        return f;
    if (strlen(name) >= NAME_BYTES)
        memdisk_stop("the name is too long: %s", name);
    f = calloc(1, sizeof(*f));
    if (f == NULL)
        memdisk_stop("no memory");
    (void)snprintf(f->name, sizeof(f->name), "%s", name);
    f->next = d->files;
    d->files = f;
    return f;
}

void memdisk_free_files(struct memdisk *d)
{
    while (d->files != NULL) {
        struct file *f = d->files;

        d->files = f->next;
        free(f->now.at);
        free(f->kept.at);
        free(f->changes);
        free(f);
    }
}

/* ---- changes ----------------------------------------------------------- */

static size_t keep(struct file *f, const void *data, size_t len)
{
    size_t at = f->kept.len;

    bytes_put(&f->kept, at, data, len);
    return at;
}

/* A change of `len` bytes from `at` on; what stands there is kept. */
static struct change *note(
    struct file *f, enum change_kind kind, size_t at, size_t len)
{
    size_t there = at < f->now.len ? f->now.len - at : 0;
    struct change *c;

    f->changes =
        at_least(f->changes, &f->room, f->count + 1, sizeof(*f->changes));
    c = &f->changes[f->count++];
    *c = (struct change){.kind = kind, .at = at, .was_size = f->now.len};
    c->was_len = len < there ? len : there;
    c->was_at = keep(f, there > 0 ? f->now.at + at : NULL, c->was_len);
    return c;
}

void file_make(struct file *f)
{
    (void)note(f, MADE, 0, 0);
    f->is_there = 1;
    f->now.len = 0;
}

void file_write(struct file *f, size_t at, const void *data, size_t len)
{
    struct change *c = note(f, WRITTEN, at, len);

    c->len = len;
    c->fresh = keep(f, data, len);
    bytes_put(&f->now, at, data, len);
}

void file_resize(struct file *f, size_t size)
{
    (void)note(f, SIZED, size, SIZE_MAX);
    bytes_resize(&f->now, size);
}

void file_delete(struct file *f)
{
    (void)note(f, DELETED, 0, SIZE_MAX);
    f->is_there = 0;
    f->now.len = 0;
}

void file_sync(struct file *f)
{
    f->count = 0;
    f->kept.len = 0;
}

void file_sync_name(struct file *f)
{
    size_t sure = f->count;

    while (sure > 0 && f->changes[sure - 1].kind != DELETED)
        sure--;
    f->count -= sure;
    memmove(f->changes, f->changes + sure, f->count * sizeof(*f->changes));
}

void file_copy(struct file *to, const struct file *from)
{
    to->is_there = from->is_there;
    bytes_copy(&to->now, &from->now);
    bytes_copy(&to->kept, &from->kept);
    to->changes =
        at_least(to->changes, &to->room, from->count, sizeof(*to->changes));
    if (from->count > 0)
        memcpy(to->changes, from->changes, from->count * sizeof(*to->changes));
    to->count = from->count;
}

/* ---- what a power cut leaves ------------------------------------------- */

/* A file while it is made. */
struct image {
    const struct file *of;
    int is_there;
    struct bytes *bytes;
    size_t sector;
    uint64_t luck;
};

static void undo(struct image *i, const struct change *c)
{
    if (c->kind == MADE || c->kind == DELETED)
        i->is_there = c->kind == DELETED;
    bytes_resize(i->bytes, c->was_size);
    bytes_put(i->bytes, c->at, i->of->kept.at + c->was_at, c->was_len);
}

static void put(struct image *i, const struct change *c, size_t from, size_t to)
{
    bytes_put(
        i->bytes, c->at + from, i->of->kept.at + c->fresh + from, to - from);
}

static void apply(struct image *i, const struct change *c)
{
    if (c->kind == MADE || c->kind == DELETED) {
        i->is_there = c->kind == MADE;
        bytes_resize(i->bytes, 0);
    } else if (c->kind == WRITTEN) {
        put(i, c, 0, c->len);
    } else {
        bytes_resize(i->bytes, c->at);
    }
}

/* Each sector of a write, or not. */
static void apply_torn(struct image *i, const struct change *c)
{
    size_t next;

    for (size_t at = 0; at < c->len; at = next) {
        next = ((c->at + at) / i->sector + 1) * i->sector - c->at;
        if (next > c->len)
            next = c->len;
        if (memdisk_draw(&i->luck) % 2 == 0)
            put(i, c, at, next);
    }
}

static void apply_by_luck(struct image *i, const struct change *c)
{
    uint64_t of_three = memdisk_draw(&i->luck) % 3;

    if (of_three == 1 && c->kind == WRITTEN)
        apply_torn(i, c);
    else if (of_three != 0)
        apply(i, c);
}

/* The name in it: what is left of a file does not hang on that of others. */
static uint64_t luck_of(const struct file *f, uint64_t seed)
{
    for (const char *c = f->name; *c != '\0'; c++)
        seed = (seed ^ (unsigned char)*c) * UINT64_C(1099511628211);
    return seed;
}

/* All changes but the last `tail`. */
static void leave_some(struct image *i, enum memdisk_left left, int is_last)
{
    const struct file *f = i->of;
    size_t tail = left == MEMDISK_TORN ? 1 : f->count;

    if (left == MEMDISK_ALL || f->count == 0 ||
        (left == MEMDISK_TORN && !is_last))
        return;
    for (size_t n = f->count; n > f->count - tail; n--)
        undo(i, &f->changes[n - 1]);
    for (size_t n = f->count - tail; n < f->count; n++) {
        if (left == MEMDISK_TORN)
            apply_torn(i, &f->changes[n]);
        else if (left == MEMDISK_SOME)
            apply_by_luck(i, &f->changes[n]);
    }
}

void file_cut(struct file *to, const struct file *from, enum memdisk_left left,
    uint64_t seed, size_t sector, int is_last)
{
    struct image i = {.of = from,
        .is_there = from->is_there,
        .bytes = &to->now,
        .sector = sector,
        .luck = luck_of(from, seed)};

    if (to != from)
        bytes_copy(&to->now, &from->now);
    leave_some(&i, left, is_last);
    to->is_there = i.is_there;
    if (!to->is_there)
        to->now.len = 0;
    file_sync(to);
}
