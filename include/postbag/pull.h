/* SPDX-License-Identifier: MIT */
/*
 * Commands that the application pulls, instead of handlers that are called:
 * on its own connection and thread, in its own transaction, in any process
 * that opens the database.  Their consumer is subscribed by postbag_on without
 * a handler, in the process of the engine.  Other languages do the same by
 * plain SQL: src/FORMAT.md, "Commands by plain SQL".
 *
 *     postbag_begin(w);
 *     if (postbag_inbox_next(w, "valve", &cmd) == POSTBAG_OK) {
 *         ... your state change, postbag_reply, postbag_put ...
 *         postbag_inbox_done(w, cmd.arrival);
 *     }
 *     postbag_commit(w);             effect, mark and reply, or nothing
 *
 * What nobody pulls counts against option inbox_max_rows, beyond which no
 * command is accepted.
 *
 * If the effect fails: postbag_rollback, then postbag_inbox_put_off.  After a
 * crash, and after a COMMIT that failed, the command is next again, or done.
 * Where the outbox is full or the storage fails, roll back and ask for the
 * next one later: no attempt is charged.
 *
 * A slow part comes before postbag_begin, with no lock held: the next command
 * may be looked at without a transaction.  It may run more often than the
 * effect, and on what postbag_inbox_done then refuses with ENOTFOUND, because
 * another process was faster or an operator gave it up: roll back.
 *
 * A command that crashes the process is not charged.  Where that may be, or
 * where several processes pull for one consumer, put it off before its slow
 * part: that is an attempt on disk, and until its retry time, which
 * retry_base_ms sets, nobody is given it nor what is behind it in its key.
 * postbag_inbox_done takes it all the same, and one that crashes is dead after
 * max_attempts, the last of which is not begun.
 */
#ifndef POSTBAG_PULL_H
#define POSTBAG_PULL_H

#include "postbag/postbag.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The command that comes next for a consumer: the oldest that is due, and the
 * oldest unfinished one of its key.  In the transaction that is open on the
 * connection; without one this is a look, and another process may be given the
 * same.  It stays next until it is done or put off.
 *
 * One whose Message Expiry Interval is over is given up (dead) and passed
 * over: in the open transaction, with which it commits, or in one of its own.
 * Nothing tells when there is one: look again after a moment, or when PRAGMA
 * data_version has changed; a look takes no lock.
 * @param consumer  as given to postbag_on
 * @param out       its struct_size set; filled on success.  All of it is
 *                  borrowed until the next call of this for w, or
 *                  postbag_writer_close
 * @return POSTBAG_OK; ENOTFOUND (there is none now), EINVAL, EVERSION, EBUSY,
 *         EIO, ENOSPC, ENOMEM, ECORRUPT.  After EIO, ENOSPC and ENOMEM SQLite
 *         may have rolled your transaction back.
 * Thread: the connection's.  Blocks: on SQLite only; where one is given up
 * without an open transaction, as postbag_begin.
 */
POSTBAG_API POSTBAG_CHECK int postbag_inbox_next(struct postbag_writer *w,
    const char *consumer, struct postbag_command *out);

/**
 * The command is done, if the open transaction commits: the one of its effect.
 * With `synchronous` below FULL a power cut may take back both, together.
 * @param arrival  of the command; it may wait for its retry time
 * @return POSTBAG_OK; ENOTXN, ENOTFOUND (it is not due: it is done or dead by
 *         now, so roll back), EINVAL, EBUSY, EIO, ENOSPC, ENOMEM, ECORRUPT as
 *         for the next one
 * Thread: the connection's.  Blocks: on SQLite only; a plain BEGIN takes the
 * write lock here, by the connection's busy timeout.
 */
POSTBAG_API POSTBAG_CHECK int postbag_inbox_done(
    struct postbag_writer *w, int64_t arrival);

struct postbag_put_off {
    size_t struct_size;
    /* kept with it for people, at most 199 bytes; NULL: a text of ours */
    const char *why;
    /* not 0: do not try again, it is dead at once */
    unsigned for_good;
    /* as the options of these names, with their ranges; 0: their defaults */
    uint32_t retry_base_ms, retry_cap_ms, max_attempts;
};

/**
 * Charge the command an attempt, and have it wait until its retry time (full
 * jitter); or dead, kept for an operator, if that was the last one.  In a
 * transaction of its own: after the rollback of what failed.
 * @param how          copied; NULL: all defaults
 * @param is_dead_out  may be NULL; 1: it is dead
 * @return POSTBAG_OK; ESTATE (a transaction is open), ENOTFOUND (it is not
 *         due), EINVAL, EVERSION, EBUSY, EIO, ENOSPC, ENOMEM, ECORRUPT: the
 *         command is as it was, but for EIO, where nobody knows
 * Thread: the connection's.  Blocks: as postbag_begin and postbag_commit.
 */
POSTBAG_API POSTBAG_CHECK int postbag_inbox_put_off(struct postbag_writer *w,
    int64_t arrival, const struct postbag_put_off *how, int *is_dead_out);

#ifdef __cplusplus
}
#endif
#endif
