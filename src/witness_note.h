/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  What a witness outside the database remembers of it, and what that
 * says of the database that is found: the same, an older copy put back, a copy
 * of another file, a clone on another machine.  Pure.
 */
#ifndef POSTBAG_SRC_WITNESS_NOTE_H
#define POSTBAG_SRC_WITNESS_NOTE_H

#include <stddef.h>
#include <stdint.h>

#include "postbag/postbag.h"

enum { WITNESS_NOTE_BYTES = 256 };

struct witness_note {
    uint8_t stream[16];
    uint8_t machine[16]; /* zeros: not known */
    uint64_t file;       /* which file it is, by whatever name; 0: not known */
    uint64_t path;       /* a hash of its name */
    int64_t newest;      /* a seq that was put, and was on disk */
};

/* As text, with a NUL; the length. */
size_t postbag__witness_format(
    const struct witness_note *n, char out[WITNESS_NOTE_BYTES]);
/* text ends with NUL.  EINVAL: it is not one, or only a part of one. */
POSTBAG_CHECK int postbag__witness_parse(
    const char *text, struct witness_note *out);

enum witness_verdict {
    WITNESS_SAME,
    WITNESS_NEW,      /* no relay has ever opened it */
    WITNESS_OLDER,    /* it was newer before */
    WITNESS_OTHER,    /* another stream was here */
    WITNESS_COPY,     /* of another file, which may live on */
    WITNESS_ELSEWHERE /* it was used on another machine */
};

/*
 * here: the database as it is, on this machine.  record: what the database
 * remembers of machine and file, NULL: nothing.  left: what the last relay
 * noted beside it, NULL: nothing.
 */
enum witness_verdict postbag__witness_judge(const struct witness_note *here,
    const struct witness_note *record, const struct witness_note *left);

#endif
