/* SPDX-License-Identifier: MIT */
/* Floor 0.  SHA-256 (FIPS 180-4): tells contents apart, hides nothing. */
#ifndef POSTBAG_SRC_SHA256_H
#define POSTBAG_SRC_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

struct sha256 {
    uint32_t state[8];
    uint64_t total; /* bytes so far */
    uint8_t block[64];
};

void postbag__sha256_begin(struct sha256 *h);
void postbag__sha256_add(struct sha256 *h, const void *bytes, size_t len);
/* A field of a record: its length goes before it, so that "ab", "c" and "a",
 * "bc" differ.  NULL counts as empty. */
void postbag__sha256_field(struct sha256 *h, const void *bytes, size_t len);
void postbag__sha256_end(struct sha256 *h, uint8_t out[SHA256_BYTES]);
/* Of one piece. */
void postbag__sha256(const void *bytes, size_t len, uint8_t out[SHA256_BYTES]);

#endif
