/* SPDX-License-Identifier: MIT */
/*
 * Commands that take long: a call to a device or a service, a download, a long
 * computation.  They are handled in two parts, so that what takes long holds
 * no lock:
 *
 *     slow      no transaction is open: what is sent, what comes in and your
 *               own commits go on
 *     handler   as of postbag_on, in the transaction in which the command is
 *               done
 *
 * Each such consumer has a thread and a connection of its own: the commands of
 * others go on, too.  (By postbag_step and postbag_work, without threads, all
 * run one after the other on yours, and you wait.)
 */
#ifndef POSTBAG_SLOW_H
#define POSTBAG_SLOW_H

#include "postbag/postbag.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The slow part of a command.  It gets no writer; what it finds out it leaves
 * in *ctx, for the handler.  A writer or a connection of your own, made for
 * this thread, may be used.
 *
 * It may run more than once for one command, and in vain: the handler is not
 * called after it if the process ends in between; if the write lock cannot be
 * had for some 10 s, or the storage fails (the command is then tried again, at
 * no charge); or if the command was discarded, or handled by another process,
 * or stepped behind an older one of its key that was requeued, meanwhile.  When
 * the handler asks for another try, the slow part runs again, too.  So what it
 * does outside must stand being done twice (Effects outside the database, in
 * src/DESIGN.md); cmd's source and id are the same each time.
 * @param cmd  valid until you return
 * @return POSTBAG_DONE: go on with the handler.  POSTBAG_RETRY, POSTBAG_REJECT:
 *         as of a handler, which is then not called; each is an attempt, and
 *         so is a run that the process does not outlive.
 * Thread: the consumer's.  postbag_stop and postbag_close wait for it.
 */
typedef enum postbag_outcome (*postbag_slow_part)(
    void *ctx, const struct postbag_command *cmd);

/**
 * Subscribe a consumer with a slow part; for the rest as postbag_on.
 * Handler is called only directly after a slow part of the same command that
 * returned POSTBAG_DONE, by the same thread, and that thread has one command of
 * this consumer at a time: what slow leaves in *ctx needs no lock, if no other
 * consumer has the same ctx.  If that is memory, free it in the next slow part
 * or after postbag_close: it may be that no handler came.
 * Whether the command has expired is asked before slow only: what was begun in
 * time is brought to its end.
 * @param slow     outside any transaction
 * @param handler  be quick: all others that write wait
 * @param ctx      for both; borrowed until postbag_close
 * @return as postbag_on
 */
POSTBAG_API POSTBAG_CHECK int postbag_on_slow(struct postbag *p,
    const char *consumer, const char *filter, postbag_slow_part slow,
    postbag_handler handler, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
