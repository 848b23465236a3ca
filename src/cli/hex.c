/* SPDX-License-Identifier: MIT */
/* Hexadecimal and base64 (RFC 4648, 4). */
#include "hex.h"

static const char digits[] = "0123456789abcdef";

const char *hex_of(char *out, size_t size, const void *bytes, size_t len)
{
    const unsigned char *b = bytes;
    size_t n = 0;

    for (size_t i = 0; i < len && n + 2 < size; i++) {
        out[n++] = digits[b[i] >> 4];
        out[n++] = digits[b[i] & 15];
    }
    out[n] = '\0';
    return out;
}

void hex_print(FILE *to, const void *bytes, size_t len)
{
    const unsigned char *b = bytes;

    for (size_t i = 0; i < len; i++)
        (void)fprintf(to, "%02x", b[i]);
}

void base64_print(FILE *to, const void *bytes, size_t len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *b = bytes;

    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        unsigned group = (unsigned)b[i] << 16;

        group |= n > 1 ? (unsigned)b[i + 1] << 8 : 0;
        group |= n > 2 ? (unsigned)b[i + 2] : 0;
        (void)fputc(letters[group >> 18], to);
        (void)fputc(letters[group >> 12 & 63], to);
        (void)fputc(n > 1 ? letters[group >> 6 & 63] : '=', to);
        (void)fputc(n > 2 ? letters[group & 63] : '=', to);
    }
}
