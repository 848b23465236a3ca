/* SPDX-License-Identifier: MIT */
/*
 * The table of profiles.  Sources, as read in November 2026:
 *
 * aws         docs.aws.amazon.com: general/latest/gr/iot-core.html (message
 *             broker limits; Basic Ingest: iot/latest/developerguide)
 * iothub      learn.microsoft.com: azure/iot/iot-mqtt-connect-to-iot-hub
 * eventgrid   learn.microsoft.com: azure/event-grid/quotas-limits,
 *             mqtt-support, mqtt-retain, whats-new
 * thingsboard thingsboard.io: docs/reference/mqtt-api; thingsboard.yml of its
 *             MQTT transport
 *
 * Any thread: the table is constant.
 */
#include "profile.h"

#include <string.h>

#include "error.h"

static const struct postbag_profile profiles[] = {
    {.name = "any"},
    {
        .name = "aws",
        .max_topic = 256,
        .max_slashes = 7,
        /* Basic Ingest: the rule's name and what is before it are free */
        .uncounted = "$aws/rules/",
        /* said of the payload of a publish request; ours is the stricter
           reading */
        .max_packet = 128 * 1024,
        .max_inflight = 100, /* unacknowledged publishes of a client */
        .min_keepalive_s = 30,
        .max_keepalive_s = 1200,
        .max_client_id = 128,
    },
    {
        .name = "iothub",
        /* telemetry, twins and direct methods; no others exist */
        .topic_prefixes = "devices/,$iothub/",
        .max_packet = 256 * 1024,
        .max_keepalive_s = 1177, /* 1.5 times that is the balancer's limit */
        .no_mqtt5 = 1,           /* was a preview */
        .one_connection = 1,     /* a second one of a device ends the first */
    },
    {
        .name = "eventgrid",
        .max_topic = 256,
        .max_slashes = 14, /* 15 segments, since May 2025; 8 before */
        .max_packet = 512 * 1024,
        .max_retained = 64 * 1024,
        .max_inflight = 1000,
        .max_inflight_bytes = 64 * 1024,
        .max_keepalive_s = 1160,
    },
    {
        .name = "thingsboard",
        /* the documented API; topics of a device profile of your own are
           others, and need the profile any */
        .topic_prefixes = "v1/,v2/",
        .max_packet = 64 * 1024, /* NETTY_MAX_PAYLOAD_SIZE, its default */
        .max_inflight = 100,     /* queued for a device that logs in */
    },
};

const struct postbag_profile *postbag_profile_find(const char *name)
{
    if (name == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++)
        if (strcmp(profiles[i].name, name) == 0)
            return &profiles[i];
    return NULL;
}

size_t postbag__profile_prefix(const char *list, size_t n, const char **out)
{
    const char *at = list;

    for (; n > 0 && at != NULL; n--) {
        at = strchr(at, ',');
        at = at == NULL ? NULL : at + 1;
    }
    *out = at;
    return at == NULL ? 0 : strcspn(at, ",");
}

/* The part of a topic that lengths are measured of. */
static const char *counted(const struct postbag_profile *p, const char *topic)
{
    size_t len = p->uncounted == NULL ? 0 : strlen(p->uncounted);
    const char *slash;

    if (len == 0 || strncmp(topic, p->uncounted, len) != 0)
        return topic;
    slash = strchr(topic + len, '/');
    return slash == NULL ? topic + len : slash + 1;
}

static size_t count_slashes(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += *text == '/';
    return n;
}

static int has_prefix(const struct postbag_profile *p, const char *topic)
{
    const char *prefix;
    size_t len;

    if (p->topic_prefixes == NULL)
        return 1;
    for (size_t n = 0;; n++) {
        len = postbag__profile_prefix(p->topic_prefixes, n, &prefix);
        if (len == 0)
            return 0;
        if (strncmp(topic, prefix, len) == 0)
            return 1;
    }
}

static int check_topic(const struct postbag_profile *p, const char *topic,
    struct postbag_fault *why)
{
    const char *part = counted(p, topic);

    if (p->max_topic != 0 && strlen(part) > p->max_topic)
        return postbag__fail(why, POSTBAG_EINVAL,
            "profile %s: topic has more than %lu bytes", p->name,
            (unsigned long)p->max_topic);
    if (p->max_slashes != 0 && count_slashes(part) > p->max_slashes)
        return postbag__fail(why, POSTBAG_EINVAL,
            "profile %s: topic has more than %lu slashes", p->name,
            (unsigned long)p->max_slashes);
    if (!has_prefix(p, topic))
        return postbag__fail(why, POSTBAG_EINVAL,
            "profile %s: topic must begin with one of %s", p->name,
            p->topic_prefixes);
    return POSTBAG_OK;
}

int postbag__profile_check(const struct postbag_profile *p,
    const struct profile_subject *m, struct postbag_fault *why)
{
    if (p->max_packet != 0 && m->packet_bytes > p->max_packet)
        return postbag__fail(why, POSTBAG_EINVAL,
            "profile %s: message of %zu bytes, max_packet is %lu", p->name,
            m->packet_bytes, (unsigned long)p->max_packet);
    if (p->max_retained != 0 && m->retain && m->packet_bytes > p->max_retained)
        return postbag__fail(why, POSTBAG_EINVAL,
            "profile %s: message of %zu bytes, max_retained is %lu", p->name,
            m->packet_bytes, (unsigned long)p->max_retained);
    return check_topic(p, m->topic, why);
}
