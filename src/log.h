/* SPDX-License-Identifier: MIT */
/* Floor 0.  One hook for all news; no payload, no credential in any line. */
#ifndef POSTBAG_SRC_LOG_H
#define POSTBAG_SRC_LOG_H

#include "postbag/postbag.h"

struct log {
    void (*write)(void *ctx, const struct postbag_log_line *line);
    void *ctx;
};

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
void postbag__log(
    const struct log *log, int level, int code, const char *format, ...);

/* A fault with what it happened to, as "save the cursor: disk full". */
void postbag__log_fault(const struct log *log, int level, const char *what,
    const struct postbag_fault *fault);

#endif
