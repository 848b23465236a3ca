/* SPDX-License-Identifier: MIT */
/* See witness_note.h. */
#include "witness_note.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- text ---- */

static void write_hex(char out[33], const uint8_t bytes[16])
{
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", (unsigned)bytes[i]);
}

/* The last line tells that it is whole: it is not synced, and a power cut may
 * leave a part. */
size_t postbag__witness_format(
    const struct witness_note *n, char out[WITNESS_NOTE_BYTES])
{
    char stream[33];
    char machine[33];

    write_hex(stream, n->stream);
    write_hex(machine, n->machine);
    return (size_t)snprintf(out, WITNESS_NOTE_BYTES,
        "stream=%s\nmachine=%s\nfile=%016" PRIx64 "\npath=%016" PRIx64
        "\nnewest=%016" PRIx64 "\nend\n",
        stream, machine, n->file, n->path, (uint64_t)n->newest);
}

/* What is expected at *at; moves behind it.  0: something else is there. */
static int take(const char **at, const char *expected)
{
    size_t len = strlen(expected);

    if (strncmp(*at, expected, len) != 0)
        return 0;
    *at += len;
    return 1;
}

static int take_hex(const char **at, uint8_t *out, size_t count)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < 2 * count; i++) {
        const char *digit = **at == '\0' ? NULL : strchr(digits, **at);

        if (digit == NULL)
            return 0;
        out[i / 2] = (uint8_t)(out[i / 2] << 4 | (digit - digits));
        (*at)++;
    }
    return 1;
}

static int take_number(const char **at, uint64_t *out)
{
    uint8_t bytes[8] = {0};

    if (!take_hex(at, bytes, sizeof(bytes)))
        return 0;
    *out = 0;
    for (size_t i = 0; i < sizeof(bytes); i++)
        *out = *out << 8 | bytes[i];
    return 1;
}

int postbag__witness_parse(const char *text, struct witness_note *out)
{
    uint64_t newest = 0;
    int is_whole;

    memset(out, 0, sizeof(*out));
    is_whole = take(&text, "stream=") && take_hex(&text, out->stream, 16) &&
               take(&text, "\nmachine=") && take_hex(&text, out->machine, 16) &&
               take(&text, "\nfile=") && take_number(&text, &out->file) &&
               take(&text, "\npath=") && take_number(&text, &out->path) &&
               take(&text, "\nnewest=") && take_number(&text, &newest) &&
               take(&text, "\nend\n");
    out->newest = (int64_t)newest;
    return is_whole ? POSTBAG_OK : POSTBAG_EINVAL;
}

/* ---- judging ---- */

static int is_other_machine(const uint8_t a[16], const uint8_t b[16])
{
    static const uint8_t unknown[16];

    return memcmp(a, b, 16) != 0 && memcmp(a, unknown, 16) != 0 &&
           memcmp(b, unknown, 16) != 0;
}

static int is_other_file(uint64_t a, uint64_t b)
{
    return a != b && a != 0 && b != 0;
}

/*
 * Another file of the same name and with all that was noted is no copy: it was
 * dumped and loaded again, or lies where files have no lasting numbers.  A
 * file that was renamed is the same file.
 */
enum witness_verdict postbag__witness_judge(const struct witness_note *here,
    const struct witness_note *record, const struct witness_note *left)
{
    if (record == NULL)
        return WITNESS_NEW;
    if (is_other_machine(here->machine, record->machine))
        return WITNESS_ELSEWHERE;
    if (left == NULL)
        return is_other_file(here->file, record->file) ? WITNESS_COPY
                                                       : WITNESS_SAME;
    if (memcmp(here->stream, left->stream, 16) != 0)
        return WITNESS_OTHER;
    if (here->newest < left->newest)
        return WITNESS_OLDER;
    if (here->path != left->path && is_other_file(here->file, left->file))
        return WITNESS_COPY;
    return WITNESS_SAME;
}
