/* SPDX-License-Identifier: MIT */
/* Floor 0.  RFC 4648, section 4, encoding only. */
#ifndef POSTBAG_SRC_BASE64_H
#define POSTBAG_SRC_BASE64_H

#include <stddef.h>

/* Characters of the encoding, without NUL. */
size_t postbag__base64_length(size_t len);
/* Writes base64_length(len) characters and a NUL. */
void postbag__base64(char *out, const void *bytes, size_t len);

#endif
