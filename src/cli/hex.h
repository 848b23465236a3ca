/* SPDX-License-Identifier: MIT */
/* Bytes as text. */
#ifndef POSTBAG_CLI_HEX_H
#define POSTBAG_CLI_HEX_H

#include <stddef.h>
#include <stdio.h>

/* As many bytes as fit; fills and returns out. */
const char *hex_of(char *out, size_t size, const void *bytes, size_t len);

/* To a stream, without a line end. */
void hex_print(FILE *to, const void *bytes, size_t len);
void base64_print(FILE *to, const void *bytes, size_t len);

#endif
