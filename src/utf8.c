/* SPDX-License-Identifier: MIT */
/* RFC 3629, section 4, as a walk over lead bytes. */
#include "utf8.h"

#include <stdint.h>

#include "postbag/transport.h"

/* Bytes of the sequence that lead starts; 0: cannot start one. */
static size_t sequence_length(unsigned char lead)
{
    if (lead >= 0x01 && lead <= 0x7f)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

/* The second byte rules out overlong forms, surrogates, > U+10FFFF. */
static int second_is_valid(unsigned char lead, unsigned char second)
{
    if (lead == 0xe0)
        return second >= 0xa0;
    if (lead == 0xed)
        return second <= 0x9f;
    if (lead == 0xf0)
        return second >= 0x90;
    if (lead == 0xf4)
        return second <= 0x8f;
    return 1;
}

int postbag__utf8_is_valid(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0;

    while (i < len) {
        size_t n = sequence_length(p[i]);

        if (n == 0 || n > len - i)
            return 0;
        if (n > 1 && !second_is_valid(p[i], p[i + 1]))
            return 0;
        for (size_t k = 1; k < n; k++)
            if ((p[i + k] & 0xc0) != 0x80)
                return 0;
        i += n;
    }
    return 1;
}

/* The code point of a sequence of n bytes that is known to be well-formed. */
static uint32_t code_point(const unsigned char *p, size_t n)
{
    static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = p[0] & lead_bits[n];

    for (size_t k = 1; k < n; k++)
        code = code << 6 | (p[k] & 0x3fu);
    return code;
}

static int is_advised_against(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f) ||
           (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
}

int postbag_is_mqtt_text(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0;

    if (!postbag__utf8_is_valid(text, len))
        return 0;
    while (i < len) {
        size_t n = sequence_length(p[i]);

        if (is_advised_against(code_point(p + i, n)))
            return 0;
        i += n;
    }
    return 1;
}
