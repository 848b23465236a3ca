/* SPDX-License-Identifier: MIT */
/* Floor 0.  The rules of brokers: the table, and whether a message keeps
 * them. */
#ifndef POSTBAG_SRC_PROFILE_H
#define POSTBAG_SRC_PROFILE_H

#include <stddef.h>

#include "postbag/profile.h"

/* What a message is judged by. */
struct profile_subject {
    const char *topic;
    size_t packet_bytes; /* of the whole PUBLISH */
    unsigned retain;
};

/* OK, or EINVAL with a fault that names profile and rule. */
POSTBAG_CHECK int postbag__profile_check(const struct postbag_profile *p,
    const struct profile_subject *m, struct postbag_fault *why);

/* The n-th prefix of a list; its length, 0 behind the last one. */
size_t postbag__profile_prefix(const char *list, size_t n, const char **out);

#endif
