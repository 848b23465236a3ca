/* SPDX-License-Identifier: MIT */
/* Filters and topics are walked level by level, without memory.  Any thread. */
#include "topicfilter.h"

#include <string.h>

enum { TOPIC_MAX = 65535 }; /* MQTT 5, 1.5.4 */

static const char share_prefix[] = "$share/";

static int is_shared(const char *filter)
{
    return strncmp(filter, share_prefix, sizeof(share_prefix) - 1) == 0;
}

/* What follows "$share/<group>/"; NULL: the group is missing or wrong. */
static const char *after_group(const char *filter)
{
    const char *group = filter + sizeof(share_prefix) - 1;
    size_t len = strcspn(group, "/+#");

    return len > 0 && group[len] == '/' ? group + len + 1 : NULL;
}

/* One level, up to / or the end.  Its wildcards stand alone, # last of all. */
static int level_is_valid(const char *level, size_t len, int is_last)
{
    size_t wildcard = strcspn(level, "+#");

    if (wildcard >= len)
        return 1;
    return len == 1 && (level[0] == '+' || is_last);
}

static int levels_are_valid(const char *filter)
{
    for (;;) {
        size_t len = strcspn(filter, "/");

        if (!level_is_valid(filter, len, filter[len] == '\0'))
            return 0;
        if (filter[len] == '\0')
            return 1;
        filter += len + 1;
    }
}

int postbag__filter_is_valid(const char *filter)
{
    const char *levels = filter;

    if (filter == NULL || strnlen(filter, TOPIC_MAX + 1) > TOPIC_MAX)
        return 0;
    if (is_shared(filter))
        levels = after_group(filter);
    return levels != NULL && levels[0] != '\0' && levels_are_valid(levels);
}

static int topic_is_valid(const char *topic)
{
    return topic[0] != '\0' && strpbrk(topic, "+#") == NULL;
}

/* Both stand at the beginning of a level. */
static int levels_match(const char *filter, const char *topic)
{
    for (;;) {
        size_t flen = strcspn(filter, "/");
        size_t tlen = strcspn(topic, "/");

        if (filter[0] == '#')
            return 1;
        if (!(flen == 1 && filter[0] == '+') &&
            !(flen == tlen && memcmp(filter, topic, flen) == 0))
            return 0;
        /* "a/#" also selects "a" */
        if (topic[tlen] == '\0')
            return filter[flen] == '\0' || strcmp(filter + flen, "/#") == 0;
        if (filter[flen] == '\0')
            return 0;
        filter += flen + 1;
        topic += tlen + 1;
    }
}

int postbag__filter_matches(const char *filter, const char *topic)
{
    if (is_shared(filter))
        filter = after_group(filter);
    if (filter == NULL || !topic_is_valid(topic))
        return 0;
    if (topic[0] == '$' && (filter[0] == '+' || filter[0] == '#'))
        return 0;
    return levels_match(filter, topic);
}

/* ---- lists ------------------------------------------------------------- */

/* Copy the list's next filter without the spaces around it.  Returns where
 * the one after it begins; NULL: that was the last. */
static const char *take(const char *list, char *out, size_t size)
{
    size_t len = strcspn(list, ",");
    const char *rest = list[len] == ',' ? list + len + 1 : NULL;

    while (len > 0 && list[0] == ' ') {
        list++;
        len--;
    }
    while (len > 0 && list[len - 1] == ' ')
        len--;
    /* one that does not fit is invalid and selects nothing */
    if (len >= size)
        len = 0;
    memcpy(out, list, len);
    out[len] = '\0';
    return rest;
}

/* Longer than the option that holds such a list may be. */
enum { LIST_FILTER_MAX = 1024 };

int postbag__filters_match(const char *list, const char *topic)
{
    char filter[LIST_FILTER_MAX];

    while (list != NULL) {
        list = take(list, filter, sizeof(filter));
        if (postbag__filter_is_valid(filter) &&
            postbag__filter_matches(filter, topic))
            return 1;
    }
    return 0;
}

int postbag__filters_are_valid(const char *list)
{
    char filter[LIST_FILTER_MAX];

    if (list == NULL || list[0] == '\0')
        return 1;
    while (list != NULL) {
        list = take(list, filter, sizeof(filter));
        if (!postbag__filter_is_valid(filter))
            return 0;
    }
    return 1;
}
