/* SPDX-License-Identifier: MIT */
/* Memory: libc's, in one place so that a test can make any call fail. */
#include "mem.h"

#include <stdlib.h>
#include <string.h>

void *postbag__alloc(size_t size)
{
    return calloc(1, size);
}

void *postbag__resize(void *ptr, size_t size)
{
    return realloc(ptr, size);
}

void postbag__free(void *ptr)
{
    free(ptr);
}

char *postbag__copy(const char *text)
{
    size_t size;
    char *copy;

    if (text == NULL)
        return NULL;
    size = strlen(text) + 1;
    copy = postbag__alloc(size);
    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}
