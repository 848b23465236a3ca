/* SPDX-License-Identifier: MIT */
/* Floor 0.  Milliseconds since 1970 as RFC 3339 text in UTC. */
#ifndef POSTBAG_SRC_RFC3339_H
#define POSTBAG_SRC_RFC3339_H

#include <stdint.h>

enum { RFC3339_SIZE = 32 };

/* "2026-11-29T21:46:30.125Z" */
void postbag__rfc3339(int64_t wall_ms, char out[RFC3339_SIZE]);

#endif
