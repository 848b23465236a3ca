/* SPDX-License-Identifier: MIT */
/*
 * Floor 0.  MQTT topic filters (MQTT 5, 4.7 and 4.8.2), pure.
 *
 * "$share/<group>/<filter>" is a filter too; only <filter> is compared.
 */
#ifndef POSTBAG_SRC_TOPICFILTER_H
#define POSTBAG_SRC_TOPICFILTER_H

#include <stddef.h>

/* 1..65535 bytes, + and # alone in their level, # last; 1 or 0. */
int postbag__filter_is_valid(const char *filter);
/* Does a valid filter select this topic?  A wildcard in the first level does
 * not select a topic that begins with $.  What is not a topic (empty, with +
 * or #) is selected by nothing.  1 or 0. */
int postbag__filter_matches(const char *filter, const char *topic);
/* Is the topic selected by one of these filters, separated by commas, with
 * spaces around them or not?  An invalid one selects nothing.  1 or 0. */
int postbag__filters_match(const char *list, const char *topic);
/* Is each filter of such a list valid?  The empty list is.  1 or 0. */
int postbag__filters_are_valid(const char *list);

#endif
