/* SPDX-License-Identifier: MIT */
/* The library, its ports and its transport get no memory: each of their
 * requests fails in its turn.  The linker puts these functions before libc's,
 * for all that is linked statically; SQLite and Paho are not. */
#include <stdlib.h>
#include <string.h>

#include "torture.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__wrap_strdup(const char *text);

static int fails(void)
{
    return fuse_ask(FUSE_OWN_MEMORY, 0) != 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size)
{
    return fails() ? NULL : __real_realloc(block, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

int main(int argc, char **argv)
{
    static const struct blow blows[] = {{.name = "our memory",
        .group = FUSE_OWN_MEMORY,
        .code = 1,
        .expect = POSTBAG_ENOMEM}};

    (void)argc;
    return torture_main(argv + 1, "F17_own_memory", blows, 1);
}
