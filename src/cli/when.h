/* SPDX-License-Identifier: MIT */
/* Times that people and scripts write. */
#ifndef POSTBAG_CLI_WHEN_H
#define POSTBAG_CLI_WHEN_H

#include <stdint.h>

/* RFC 3339, or a date alone, which is its first moment in UTC; in ms since
 * 1970, before it negative.  -1: it is neither. */
int when_read(const char *text, int64_t *ms);

#endif
