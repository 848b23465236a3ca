/* SPDX-License-Identifier: MIT */
/* Texts and names of the error codes, from the one map. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *postbag_error_text(int code)
{
    switch (code) {
    case POSTBAG_OK:
        return "no error";
#define ERROR_TEXT(name, value, text) \
    case value: \
        return text;
        POSTBAG_ERROR_MAP(ERROR_TEXT)
#undef ERROR_TEXT
    default:
        return "unknown error";
    }
}

const char *postbag_error_name(int code)
{
    switch (code) {
    case POSTBAG_OK:
        return "OK";
#define ERROR_NAME(name, value, text) \
    case value: \
        return #name;
        POSTBAG_ERROR_MAP(ERROR_NAME)
#undef ERROR_NAME
    default:
        return "?";
    }
}

const char *postbag_version(void)
{
    return POSTBAG_VERSION;
}

int postbag__fail(struct postbag_fault *why, int code, const char *format, ...)
{
    va_list args;

    if (why == NULL)
        return code;
    why->code = code;
    why->cause = 0;
    va_start(args, format);
    (void)vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    return code;
}

int postbag__pass(struct postbag_fault *why, const struct postbag_fault *from)
{
    if (why != NULL)
        *why = *from;
    return from->code;
}
