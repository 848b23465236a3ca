/* SPDX-License-Identifier: MIT */
/*
 * Floor 4.  The public face for tools: one connection, read transactions for
 * looking and short write transactions for repairing.  Knows nothing of an
 * engine; what it commits, the relay finds in the database.  The caller's
 * thread.
 */
#ifndef POSTBAG_SRC_ADMIN_H
#define POSTBAG_SRC_ADMIN_H

#include "db.h"
#include "moment.h"
#include "postbag/admin.h"

struct postbag_admin {
    struct db db;
    const struct postbag_port *port;
    uint8_t boot[16];
    int is_writable;
};

/* EVERSION, EINVAL: why says so. */
POSTBAG_CHECK int postbag__admin_adopt(struct postbag_admin_config *to,
    const struct postbag_admin_config *from, struct postbag_fault *why);
/* NULL is main. */
const char *postbag__admin_dest(const char *dest);
/* ESTATE: opened to look only. */
POSTBAG_CHECK int postbag__admin_writable(struct postbag_admin *a);

#endif
