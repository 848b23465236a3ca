/* SPDX-License-Identifier: MIT */
/*
 * Requests that come by other ways than MQTT (HTTP with an Idempotency-Key,
 * BLE, a serial line) and must take effect once.  Each is claimed under its id
 * and finished with its result; whoever sends it again is given that result.
 *
 * The effect is in this database: one transaction for all.  Whoever comes with
 * the same id meanwhile waits for the write lock, as for any transaction, and
 * then finds it done.
 *
 *     postbag_begin(w);
 *     postbag_inbox_claim(w, &request, &claim);
 *     if (claim.is == POSTBAG_CLAIM_NEW) {
 *         ... your state change, postbag_put ...
 *         postbag_inbox_finish(w, claim.arrival, answer, answer_len);
 *     }
 *     postbag_commit(w);
 *     ... now answer: with what you made, or with claim.result ...
 *
 *     a crash before the COMMIT   nothing happened: the next claim is NEW
 *     COMMIT fails with EBUSY,    nothing happened: begin again
 *       ENOSPC or ENOMEM
 *     COMMIT fails with EIO       nobody knows: begin again, the claim tells.
 *                                 NEW: it did not happen.  DONE: it did
 *
 * The effect is outside (a device on a bus, another service): commit the claim
 * before it, and finish it in a second transaction.  Whoever comes in between
 * is told IN_PROGRESS.  After a crash in between it stays so: only the outside
 * knows whether the effect was had.  So at start, before you take requests,
 * go through what was left (src/FORMAT.md, "Claims by plain SQL"), ask the
 * outside, and finish it.
 */
#ifndef POSTBAG_CLAIM_H
#define POSTBAG_CLAIM_H

#include "postbag/postbag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The longest result that is kept, in bytes. */
enum { POSTBAG_RESULT_MAX = 65536 };

/* consumer, source and id name a request; content says what it is. */
struct postbag_request {
    size_t struct_size;
    /* 1..64 bytes: who may use which ids, as one name for each way in and
       client; not one of postbag_on's, whose commands are of other content */
    const char *consumer;
    /* at most 255 bytes; NULL: "" */
    const char *source;
    /* 1 byte or more; kept as text if it is UTF-8 without NUL, else as blob;
       of more than 255 bytes as their SHA-256, a blob */
    const void *id;
    size_t id_len;
    /* all that makes it this request, as method, path and body; only its
       SHA-256 is kept.  NULL is allowed with length 0 */
    const void *content;
    size_t content_len;
};

enum postbag_claim_is {
    POSTBAG_CLAIM_NEW = 0,         /* yours: act on it, then finish it */
    POSTBAG_CLAIM_DONE = 1,        /* do nothing: answer with the result */
    POSTBAG_CLAIM_IN_PROGRESS = 2, /* claimed, committed, not finished */
    POSTBAG_CLAIM_CONFLICT = 3     /* the id is that of another content */
};

struct postbag_claim {
    size_t struct_size;
    int is;             /* enum postbag_claim_is */
    int64_t arrival;    /* its row, for finish; 0 for CONFLICT */
    int64_t claimed_ms; /* wall clock of the first claim, a label; 0 likewise */
    /* of DONE: what finish was given; NULL: nothing.  Borrowed until the next
       claim on this writer, or postbag_writer_close */
    const void *result;
    size_t result_len;
};

/**
 * Claim a request in the transaction that is open on the connection.  Which of
 * several comes first is decided by the constraint of the table, in the one
 * statement that writes the row.  Have a busy timeout and BEGIN IMMEDIATE
 * (postbag_begin): then the others wait instead of failing.
 *
 * Commit after DONE and IN_PROGRESS, too: they count the repetition, and with
 * `synchronous` at FULL that COMMIT puts on disk what you answer with, should
 * the first one not have.  Below FULL a power cut may take effect, mark and
 * result back together, also after they were answered.
 *
 * What is claimed and not finished counts against inbox_max_rows, which the
 * database keeps (100000 until an engine is opened with that option), together
 * with commands that are not done: at the limit a new claim is refused, and a
 * repetition is not.  Done ones are deleted by a relay that runs, option
 * inbox_keep_s after they were finished, or before, the oldest first, where
 * there are more than inbox_done_max_rows; one that comes again after that is
 * NEW.
 * @param r    copied
 * @param out  its struct_size set; filled on success
 * @return POSTBAG_OK; ENOTXN, EINVAL (the fault names the field), EVERSION,
 *         EFULL (at the limit; your transaction stays open), EBUSY, EIO,
 *         ENOSPC, ENOMEM, ECORRUPT: nothing was claimed.  After EIO, ENOSPC
 *         and ENOMEM SQLite may have rolled your transaction back.
 * Thread: the connection's.  Blocks: on SQLite only; a plain BEGIN takes the
 * write lock here, by the connection's busy timeout.
 */
POSTBAG_API POSTBAG_CHECK int postbag_inbox_claim(struct postbag_writer *w,
    const struct postbag_request *r, struct postbag_claim *out);

/**
 * The request is done, with this result, if the open transaction commits: the
 * one of the effect.
 * @param arrival  of the claim
 * @param result   copied; NULL is allowed with length 0: none
 * @return POSTBAG_OK; ENOTXN, EINVAL (no result, but a length), ETOOBIG (over
 *         POSTBAG_RESULT_MAX), ENOTFOUND (nothing of that number is in
 *         progress: somebody else has finished it, so roll back), EBUSY, EIO,
 *         ENOSPC, ENOMEM, ECORRUPT as for the claim
 * Thread and blocking: as postbag_inbox_claim.
 */
POSTBAG_API POSTBAG_CHECK int postbag_inbox_finish(struct postbag_writer *w,
    int64_t arrival, const void *result, size_t result_len);

#ifdef __cplusplus
}
#endif
#endif
