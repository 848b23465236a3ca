/* SPDX-License-Identifier: MIT */
/* Floor 0.  Where the live state of a relay stands. */
#ifndef POSTBAG_SRC_LIVE_PATH_H
#define POSTBAG_SRC_LIVE_PATH_H

#include <stddef.h>

#include "postbag/postbag.h"

/*
 * run_dir/<hash of db_path>-<dest>.state.  Relay and tools must find the same
 * name, so db_path is the absolute one (postbag__db_path).  Bytes of dest
 * outside [A-Za-z0-9_.-] become '_'.
 * Returns OK, or ETOOBIG if the name does not fit into out.
 */
POSTBAG_CHECK int postbag__live_path(const char *run_dir, const char *db_path,
    const char *dest, char *out, size_t size);

#endif
