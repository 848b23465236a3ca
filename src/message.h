/* SPDX-License-Identifier: MIT */
/* Floor 1.  The rules that a message must keep before it is queued. */
#ifndef POSTBAG_SRC_MESSAGE_H
#define POSTBAG_SRC_MESSAGE_H

#include "postbag/postbag.h"

/*
 * Attributes of an event that a column holds, or that are ours: a header of
 * the same name would be a second one.  A list for SQL.
 */
#define POSTBAG__RESERVED_HEADERS \
    "'specversion','id','source','type','sequence','partitionkey'," \
    "'keyversion','replay','datacontenttype','data','data_base64'"

/* OK or EINVAL with a fault that names the field.  What the
 * database knows (max_payload, destinations, JSON) its trigger checks. */
POSTBAG_CHECK int postbag__message_check(
    const struct postbag_message *m, struct postbag_fault *why);

#endif
