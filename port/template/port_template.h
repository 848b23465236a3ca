/* SPDX-License-Identifier: MIT */
/* FILL: "The NAME port: what it builds on."  In a port of your own this header
 * becomes include/postbag/NAME.h and the function postbag_NAME_port. */
#ifndef POSTBAG_TEMPLATE_H
#define POSTBAG_TEMPLATE_H

#include "postbag/port.h"
#include "postbag/postbag.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The one table of this port, for ever valid.  Any thread. */
POSTBAG_API const struct postbag_port *postbag_template_port(void);

#ifdef __cplusplus
}
#endif
#endif
