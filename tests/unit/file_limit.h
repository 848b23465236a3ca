/* SPDX-License-Identifier: MIT */
/* No file of this process may grow while bytes is not RLIM_INFINITY, so the
 * WAL cannot take a commit; what is in memory still can be written to. */
#ifndef POSTBAG_TESTS_FILE_LIMIT_H
#define POSTBAG_TESTS_FILE_LIMIT_H

#include <signal.h>
#include <sys/resource.h>

#include "unit.h"

static inline void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

#endif
