/* SPDX-License-Identifier: MIT */
/* Floor 0.  What others say, as text that can be kept, logged and shown. */
#ifndef POSTBAG_SRC_PRINTABLE_H
#define POSTBAG_SRC_PRINTABLE_H

#include <stddef.h>

/* Copy a text: at most size - 1 bytes of it, cut between characters.  Bytes
 * that are not UTF-8, and those of characters that drive a terminal or hide
 * what stands there, become '?'. */
void postbag__printable(char *out, size_t size, const char *text);

#endif
