/* SPDX-License-Identifier: MIT */
/* See printable.h.  Pure. */
#include "printable.h"

#include <string.h>

#include "utf8.h"

void postbag__printable(char *out, size_t size, const char *text)
{
    size_t used = 0;

    while (*text != '\0') {
        size_t n = postbag__utf8_printable(text);
        size_t taken = n == 0 ? 1 : n;

        if (used + taken >= size)
            break;
        if (n == 0)
            out[used] = '?';
        else
            memcpy(out + used, text, n);
        used += taken;
        text += taken;
    }
    out[used] = '\0';
}
