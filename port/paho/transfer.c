/* SPDX-License-Identifier: MIT */
/*
 * Does the peer take what was handed to its socket?
 *
 * Asked of the kernel: SIOCOUTQ (tcp(7)) is what the peer has not acknowledged
 * yet, TCP_INFO counts what it has (Linux 4.1).  The kernel's own header for
 * TCP_INFO does not agree with libc's, hence a file of its own.
 */
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "paho_transport.h"

int postbag__paho_transfers(struct postbag_transport *base, uint64_t *taken)
{
    struct paho *t = postbag__paho_of(base);
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    int waiting = 0;
    pthread_mutex_lock(&t->lock);
    int is_known = t->fd >= 0 && ioctl(t->fd, SIOCOUTQ, &waiting) == 0 &&
                   getsockopt(t->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0;
    pthread_mutex_unlock(&t->lock);
    /* an older kernel fills in less */
    if (!is_known || len < offsetof(struct tcp_info, tcpi_bytes_received))
        return 0;
    *taken = info.tcpi_bytes_acked;
    return waiting > 0;
}
