/* SPDX-License-Identifier: MIT */
/* See fuzz.h. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void fuzz_broken(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

/* ---- the input --------------------------------------------------------- */

void feed_begin(struct feed *f, const uint8_t *data, size_t size)
{
    memset(f, 0, sizeof(*f));
    f->at = data;
    f->left = size;
}

void feed_end(struct feed *f)
{
    while (f->count > 0)
        free(f->pieces[--f->count]);
}

static void *keep(struct feed *f, void *piece)
{
    MUST(piece != NULL && f->count < FEED_PIECES);
    f->pieces[f->count++] = piece;
    return piece;
}

static void skip(struct feed *f, size_t len)
{
    f->at += len;
    f->left -= len;
}

uint8_t feed_byte(struct feed *f)
{
    uint8_t byte = f->left > 0 ? f->at[0] : 0;

    skip(f, f->left > 0);
    return byte;
}

uint32_t feed_below(struct feed *f, uint32_t bound)
{
    return bound <= 256 ? feed_byte(f) % bound
                        : ((uint32_t)feed_byte(f) << 8 | feed_byte(f)) % bound;
}

int64_t feed_i64(struct feed *f)
{
    uint8_t bytes = feed_byte(f) % 9;
    uint64_t n = 0;

    for (uint8_t i = 0; i < bytes; i++)
        n = n << 8 | feed_byte(f);
    return (int64_t)n;
}

char *feed_text(struct feed *f)
{
    const uint8_t *end = f->left == 0 ? NULL : memchr(f->at, 0, f->left);
    size_t len = end == NULL ? f->left : (size_t)(end - f->at);
    char *text = keep(f, malloc(len + 1));

    if (len > 0)
        memcpy(text, f->at, len);
    text[len] = '\0';
    skip(f, len + (end != NULL));
    return text;
}

char *feed_maybe(struct feed *f)
{
    return feed_byte(f) % 4 == 0 ? NULL : feed_text(f);
}

uint8_t *feed_bytes(struct feed *f, size_t *len)
{
    size_t wanted = feed_byte(f);
    uint8_t *bytes;

    if (wanted > 250)
        wanted = wanted << 4 | (feed_byte(f) & 15);
    *len = wanted < f->left ? wanted : f->left;
    bytes = keep(f, malloc(*len > 0 ? *len : 1));
    if (*len > 0)
        memcpy(bytes, f->at, *len);
    skip(f, *len);
    return bytes;
}

/* ---- files ------------------------------------------------------------- */

enum { FUZZ_PATHS = 4 };
static char folder[128];

static void remove_folder(void)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    char path[512];

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            (void)unlink(path);
    }
    if (dir != NULL)
        (void)closedir(dir);
    (void)rmdir(folder);
}

const char *fuzz_path(const char *name)
{
    static char paths[FUZZ_PATHS][sizeof(folder) + 32];
    const char *base = getenv("TMPDIR");
    size_t len;
    int i = 0;

    if (folder[0] == '\0') {
        (void)snprintf(folder, sizeof(folder), "%s/postbag-fuzz-XXXXXX",
            base == NULL ? "/tmp" : base);
        MUST(mkdtemp(folder) != NULL);
        MUST(atexit(remove_folder) == 0);
    }
    len = strlen(folder) + 1;
    while (i < FUZZ_PATHS && paths[i][0] != '\0' &&
           strcmp(paths[i] + len, name) != 0)
        i++;
    MUST(i < FUZZ_PATHS);
    (void)snprintf(paths[i], sizeof(paths[i]), "%s/%s", folder, name);
    return paths[i];
}
