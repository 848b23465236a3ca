/* SPDX-License-Identifier: MIT */
/* The Linux port: clocks, wake-ups (eventfd, inotify), threads, libuuid. */
#ifndef POSTBAG_LINUX_H
#define POSTBAG_LINUX_H

#include "postbag/port.h"
#include "postbag/postbag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The one table of this port, for ever valid.  Any thread. */
POSTBAG_API const struct postbag_port *postbag_linux_port(void);

#ifdef __cplusplus
}
#endif
#endif
