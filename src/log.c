/* SPDX-License-Identifier: MIT */
/* Lines to the application's hook.  Any thread. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>

static void hand_over(
    const struct log *log, int level, int code, int cause, const char *text)
{
    struct postbag_log_line line = {
        .level = level, .code = code, .cause = cause, .text = text};

    log->write(log->ctx, &line);
}

void postbag__log(
    const struct log *log, int level, int code, const char *format, ...)
{
    char text[256];
    va_list args;

    if (log->write == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    hand_over(log, level, code, 0, text);
}

void postbag__log_fault(const struct log *log, int level, const char *what,
    const struct postbag_fault *fault)
{
    char text[256];

    if (log->write == NULL)
        return;
    (void)snprintf(text, sizeof(text), "%s: %s", what, fault->text);
    hand_over(log, level, fault->code, fault->cause, text);
}
