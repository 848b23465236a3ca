/* SPDX-License-Identifier: MIT */
/*
 * Memory that runs out when the test says so: takes the place of mem.c in the
 * one test program that includes this.
 */
#ifndef POSTBAG_TESTS_FAILING_MEM_H
#define POSTBAG_TESTS_FAILING_MEM_H

#include <stdlib.h>
#include <string.h>

#include "mem.h"

/* Not 0: there is none. */
static int mem_is_out;
/* Requests so far. */
static unsigned mem_requests;

void *postbag__alloc(size_t size)
{
    mem_requests++;
    return mem_is_out ? NULL : calloc(1, size);
}

void *postbag__resize(void *ptr, size_t size)
{
    mem_requests++;
    return mem_is_out ? NULL : realloc(ptr, size);
}

void postbag__free(void *ptr)
{
    free(ptr);
}

char *postbag__copy(const char *text)
{
    mem_requests++;
    return mem_is_out || text == NULL ? NULL : strdup(text);
}

#endif
