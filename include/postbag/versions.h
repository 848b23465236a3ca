/* SPDX-License-Identifier: MIT */
/* Rules of one consumer for the versions of a key, where it is not to follow
 * the options version_gap, version_repeat and version_back (options.h). */
#ifndef POSTBAG_VERSIONS_H
#define POSTBAG_VERSIONS_H

#include "postbag/postbag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Words of the option of that name; NULL: as the option says. */
struct postbag_version_rules {
    size_t struct_size;
    const char *gap;    /* accept, defer or refuse */
    const char *repeat; /* accept or refuse */
    const char *back;   /* accept or refuse */
};

/**
 * Have a consumer's commands judged by rules of its own: accept (its handler is
 * told, enum postbag_order), defer, or refuse, at the door and without its
 * handler.  How long they wait, and how many, is for all consumers alike
 * (version_defer_ms, version_defer_rows).  What waits already goes on or ends
 * as if the rule were defer; until then an accepted gap waits behind it, for no
 * longer.  The last call counts.  After its postbag_on, before postbag_start or
 * the first postbag_step.
 * @param consumer  as given to postbag_on
 * @param rules     its struct_size set; copied
 * @return POSTBAG_OK; EINVAL (NULL, or none of these words: the log names it),
 *         ENOTFOUND (no such consumer), ESTATE (running), EVERSION: its rules
 *         are as they were
 * Thread: the one that opened.  Blocks: no.
 */
POSTBAG_API POSTBAG_CHECK int postbag_on_versions(struct postbag *p,
    const char *consumer, const struct postbag_version_rules *rules);

#ifdef __cplusplus
}
#endif

#endif
