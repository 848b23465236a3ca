/* SPDX-License-Identifier: MIT */
/* Floor 0.  The only place that asks for memory. */
#ifndef POSTBAG_SRC_MEM_H
#define POSTBAG_SRC_MEM_H

#include <stddef.h>

/* Zeroed; NULL when there is none. */
void *postbag__alloc(size_t size);
/* As realloc; the old block stays when there is none. */
void *postbag__resize(void *ptr, size_t size);
void postbag__free(void *ptr);
/* A copy of text; NULL for NULL or when there is no memory. */
char *postbag__copy(const char *text);

#endif
