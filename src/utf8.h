/* SPDX-License-Identifier: MIT */
/* Floor 0.  Which bytes are UTF-8 text (RFC 3629), pure. */
#ifndef POSTBAG_SRC_UTF8_H
#define POSTBAG_SRC_UTF8_H

#include <stddef.h>

/* 1 if the bytes are well-formed UTF-8 without NUL, as MQTT wants strings;
 * the empty text is.  postbag_is_mqtt_text (transport.h) asks for more. */
int postbag__utf8_is_valid(const char *text, size_t len);

#endif
