/* SPDX-License-Identifier: MIT */
/*
 * Is this a text that MQTT takes and a log can show?  Asked about options, by
 * the thread that makes the transport, about what the application's callback
 * says and about what the broker says.
 */
#include "paho_transport.h"

/* Bytes of a character by its first one; 0: it cannot be the first. */
static size_t char_len(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xC2)
        return 0;
    if (first < 0xE0)
        return 2;
    if (first < 0xF0)
        return 3;
    return first < 0xF5 ? 4 : 0;
}

/* 0 if it is cut short, and NUL is 0 anyway. */
static uint32_t decode(const unsigned char *at, size_t len)
{
    if (len == 1)
        return at[0];
    uint32_t code = at[0] & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3Fu);
    }
    return code;
}

static unsigned is_character(uint32_t code, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
    unsigned is_surrogate = code >= 0xD800 && code < 0xE000;
    return code >= least[len] && code <= 0x10FFFF && !is_control &&
           !is_surrogate;
}

unsigned postbag__paho_is_text(const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *)text;
    while (len > 0) {
        size_t n = char_len(*at);
        if (n == 0 || n > len || !is_character(decode(at, n), n))
            return 0;
        at += n;
        len -= n;
    }
    return 1;
}
