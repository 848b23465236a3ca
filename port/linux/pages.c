/* SPDX-License-Identifier: MIT */
/*
 * Give the pages of a mapped file their blocks before anybody writes to them.
 * A write to a page that has none raises SIGBUS when the disk is full; a
 * system call that would do the same returns EFAULT.  The call here is
 * FUTEX_WAKE_OP, because it changes a word atomically: it ORs 0 into it, so
 * that what others write there at the same time is kept.  Nobody is woken.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "linux_port.h"

#ifndef SYS_futex
#define SYS_futex SYS_futex_time64
#endif

/* 0 or errno. */
static int touch(volatile char *word)
{
    uint32_t nobody = 0;
    long got = syscall(SYS_futex, &nobody, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG,
        0, NULL, word, FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0));

    return got < 0 ? errno : 0;
}

int postbag__linux_reserve_pages(void *ctx, volatile void *at, size_t len)
{
    long page = sysconf(_SC_PAGESIZE);
    int cause = 0;

    (void)ctx;
    for (size_t i = 0; i < len && cause == 0; i += (size_t)page)
        cause = touch((volatile char *)at + i);
    if (cause == EFAULT)
        return POSTBAG_ENOSPC;
    /* a kernel without the call: then it is as it was before */
    return cause == 0 || cause == ENOSYS ? POSTBAG_OK
                                         : postbag__linux_error(cause);
}
