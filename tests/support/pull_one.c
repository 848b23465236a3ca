/* SPDX-License-Identifier: MIT */
/* See pull_one.h.  A look first, so that nothing takes no lock. */
#include "pull_one.h"

#include "postbag/pull.h"

int pull_one(const struct postbag_port *port, struct postbag_writer *w,
    postbag_handler handler, void *ctx)
{
    struct postbag_command cmd = {.struct_size = sizeof(cmd)};
    int err = postbag_inbox_next(w, "app", &cmd);

    if (err == POSTBAG_OK)
        err = postbag_begin(w);
    if (err == POSTBAG_OK)
        err = postbag_inbox_next(w, "app", &cmd);
    if (err == POSTBAG_OK) {
        port->hook(port->ctx, "handle.begun");
        (void)handler(ctx, &cmd, w);
        err = postbag_inbox_done(w, cmd.arrival);
    }
    if (err == POSTBAG_OK) {
        port->hook(port->ctx, "handle.marked");
        err = postbag_commit(w);
        port->hook(port->ctx, "handle.committed");
    }
    postbag_rollback(w);
    return err;
}
