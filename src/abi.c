/* SPDX-License-Identifier: MIT */
/* Structs grow at their end only; see abi.h. */
#include "abi.h"

#include <string.h>

int postbag__adopt(void *to, size_t size, const void *from)
{
    const unsigned char *bytes = from;
    size_t theirs;

    memcpy(&theirs, from, sizeof(theirs));
    if (theirs <= sizeof(theirs))
        return POSTBAG_EVERSION;
    for (size_t i = size; i < theirs; i++)
        if (bytes[i] != 0)
            return POSTBAG_EVERSION;
    memset(to, 0, size);
    memcpy(to, from, theirs < size ? theirs : size);
    memcpy(to, &size, sizeof(size));
    return POSTBAG_OK;
}
