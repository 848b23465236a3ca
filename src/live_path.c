/* SPDX-License-Identifier: MIT */
/*
 * The name of the live state file.  A pure function, so that the relay which
 * writes the file and the tools which read it cannot disagree.  Any thread.
 */
#include "live_path.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* FNV-1a, 64 bits: a name, not a secret. */
static uint64_t hash(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return h;
}

static int is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

int postbag__live_path(const char *run_dir, const char *db_path,
    const char *dest, char *out, size_t size)
{
    int len = snprintf(out, size, "%s/%016llx-%s.state", run_dir,
        (unsigned long long)hash(db_path), dest);

    if (len < 0 || (size_t)len >= size)
        return POSTBAG_ETOOBIG;
    for (char *c = out + strlen(run_dir) + 1; *c != '\0'; c++)
        if (!is_plain(*c))
            *c = '_';
    return POSTBAG_OK;
}
