/* SPDX-License-Identifier: MIT */
/* Three bytes become four characters. */
#include "base64.h"

#include <stdint.h>

size_t postbag__base64_length(size_t len)
{
    return (len + 2) / 3 * 4;
}

void postbag__base64(char *out, const void *bytes, size_t len)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        "abcdefghijklmnopqrstuvwxyz0123456789+/="; /* = is 64 */
    const unsigned char *in = bytes;

    for (size_t i = 0; i < len; i += 3) {
        uint32_t left = (uint32_t)(len - i);
        uint32_t group = (uint32_t)in[i] << 16;

        if (left > 1)
            group |= (uint32_t)in[i + 1] << 8;
        if (left > 2)
            group |= in[i + 2];
        *out++ = alphabet[group >> 18];
        *out++ = alphabet[group >> 12 & 63];
        *out++ = alphabet[left > 1 ? group >> 6 & 63 : 64];
        *out++ = alphabet[left > 2 ? group & 63 : 64];
    }
    *out = '\0';
}
