/* SPDX-License-Identifier: MIT */
/*
 * Random bytes from the kernel.  Waits early in boot until the kernel has
 * gathered entropy, rather than hand out what another device may hand out
 * too.  Any thread.
 */
#include <sys/random.h>

#include "linux_port.h"

int postbag__linux_random(void *ctx, void *buf, size_t len)
{
    unsigned char *at = buf;

    (void)ctx;
    while (len > 0) {
        ssize_t got = getrandom(at, len, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return POSTBAG_EIO;
        at += got;
        len -= (size_t)got;
    }
    return POSTBAG_OK;
}
