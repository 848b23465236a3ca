/* SPDX-License-Identifier: MIT */
/* Floor 1.  The configuration: defaults, ranges, an own copy. */
#ifndef POSTBAG_SRC_CONFIG_H
#define POSTBAG_SRC_CONFIG_H

#include "postbag/postbag.h"

/* Adopt the caller's config: every option set, every text ours.
 * EVERSION, EINVAL (the fault names the option), ENOMEM.  Free it also after
 * a failure. */
POSTBAG_CHECK int postbag__config_copy(struct postbag_config *out,
    const struct postbag_config *from, struct postbag_fault *why);
void postbag__config_free(struct postbag_config *c);
/* The same of one number: 0 becomes the option's default.  EINVAL (the fault
 * names it): out of its range. */
POSTBAG_CHECK int postbag__config_u32(
    const char *name, uint32_t *value, struct postbag_fault *why);

#endif
