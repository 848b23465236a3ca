/* SPDX-License-Identifier: MIT */
/* Floor 0.  Structs that callers of other versions fill. */
#ifndef POSTBAG_SRC_ABI_H
#define POSTBAG_SRC_ABI_H

#include <stddef.h>

#include "postbag/port.h"
#include "postbag/postbag.h"

/*
 * Copy a caller's struct, whose first member is its struct_size, into ours of
 * `size` bytes; what the caller does not have yet becomes zero.
 * @return OK; EVERSION if the caller filled something that we do not know, or
 *         struct_size was not set.
 */
POSTBAG_CHECK int postbag__adopt(void *to, size_t size, const void *from);

/* Does a port have this OPTIONAL member, which older ones end before? */
#define POSTBAG__PORT_HAS(p, member) \
    POSTBAG__HAS(struct postbag_port, p, member)
/* Or a transport's functions? */
#define POSTBAG__TRANSPORT_HAS(ops, member) \
    POSTBAG__HAS(struct postbag_transport_ops, ops, member)
#define POSTBAG__HAS(type, p, member) \
    ((p)->struct_size >= offsetof(type, member) + sizeof((p)->member) && \
        (p)->member != NULL)

#endif
