/* SPDX-License-Identifier: MIT */
/* Floor 0.  Faults: a code with a text that names what is wrong. */
#ifndef POSTBAG_SRC_ERROR_H
#define POSTBAG_SRC_ERROR_H

#include "postbag/postbag.h"

/* Fill *why (may be NULL) and return code. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
int postbag__fail(struct postbag_fault *why, int code, const char *format, ...);

/* Copy a fault to *why (may be NULL) and return its code. */
int postbag__pass(struct postbag_fault *why, const struct postbag_fault *from);

#endif
