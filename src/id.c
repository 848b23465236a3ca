/* SPDX-License-Identifier: MIT */
/* Floor 0.  Ids: 16 bytes, their 36-character form, how to get a new one. */
#include <string.h>

#include "postbag/port.h"
#include "postbag/postbag.h"

int postbag_id_new(const struct postbag_port *port, struct postbag_id *out)
{
    if (port == NULL || out == NULL)
        return POSTBAG_EINVAL;
    return port->uuid(port->ctx, out->b);
}

void postbag_id_format(const struct postbag_id *id, char out[37])
{
    static const char digits[] = "0123456789abcdef";
    char *p = out;

    for (size_t i = 0; i < sizeof(id->b); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        *p++ = digits[id->b[i] >> 4];
        *p++ = digits[id->b[i] & 15];
    }
    *p = '\0';
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int postbag_id_parse(struct postbag_id *out, const char *text)
{
    struct postbag_id id;
    const char *p = text;

    if (out == NULL || text == NULL || strlen(text) != 36)
        return POSTBAG_EINVAL;
    for (size_t i = 0; i < sizeof(id.b); i++) {
        int high;
        int low;

        if ((i == 4 || i == 6 || i == 8 || i == 10) && *p++ != '-')
            return POSTBAG_EINVAL;
        high = digit_value(*p++);
        low = high < 0 ? -1 : digit_value(*p++);
        if (low < 0)
            return POSTBAG_EINVAL;
        id.b[i] = (uint8_t)(high << 4 | low);
    }
    *out = id;
    return POSTBAG_OK;
}
