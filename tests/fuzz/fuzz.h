/* SPDX-License-Identifier: MIT */
/*
 * What the fuzz targets share.  A target is one fuzz_<name>.c with the entry
 * point that libFuzzer calls; replay.c calls it for the files of a corpus.
 * What must hold and does not ends the program.
 */
#ifndef POSTBAG_TESTS_FUZZ_H
#define POSTBAG_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(what) \
    do { \
        if (!(what)) \
            fuzz_broken(__FILE__, __LINE__, #what); \
    } while (0)

_Noreturn void fuzz_broken(const char *file, int line, const char *what);

/* The input, taken piece by piece.  What it hands out are copies of their exact
 * size, so that a sanitizer sees one byte too much; feed_end frees them. */
enum { FEED_PIECES = 256 };
struct feed {
    const uint8_t *at;
    size_t left;
    void *pieces[FEED_PIECES];
    size_t count;
};

void feed_begin(struct feed *f, const uint8_t *data, size_t size);
void feed_end(struct feed *f);

/* 0 where nothing is left. */
uint8_t feed_byte(struct feed *f);
uint32_t feed_below(struct feed *f, uint32_t bound);
int64_t feed_i64(struct feed *f);
/* Up to the next zero byte, or all. */
char *feed_text(struct feed *f);
/* NULL for some bytes, else a text. */
char *feed_maybe(struct feed *f);
/* A length of one byte or, rarely, two; then so many bytes, if they are
 * there. */
uint8_t *feed_bytes(struct feed *f, size_t *len);

/* A folder of this process below TMPDIR, removed at its end; and a file in it.
 * Valid for good. */
const char *fuzz_path(const char *name);

#endif
