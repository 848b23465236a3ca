/* SPDX-License-Identifier: MIT */
/*
 * Do the options keep the rules of the broker (profile.h)?  Asked by
 * postbag_open, on its thread, before anything connects.
 */
#include <string.h>

#include "postbag/profile.h"

#include "paho_transport.h"

static int check_keepalive(const struct postbag_paho_config *c,
    const struct postbag_profile *p, struct postbag_fault *why)
{
    unsigned long seconds = c->keepalive_s;
    if (p->min_keepalive_s != 0 && seconds < p->min_keepalive_s)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "keepalive_s: is %lu; profile %s: at least %lu s", seconds, p->name,
            (unsigned long)p->min_keepalive_s);
    if (p->max_keepalive_s != 0 && seconds > p->max_keepalive_s)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "keepalive_s: is %lu; profile %s: at most %lu s", seconds, p->name,
            (unsigned long)p->max_keepalive_s);
    return POSTBAG_OK;
}

int postbag__paho_check(struct postbag_transport *base,
    const struct postbag_profile *p, struct postbag_fault *why)
{
    const struct postbag_paho_config *c = &postbag__paho_of(base)->config;
    size_t id = c->client_id == NULL ? 0 : strlen(c->client_id);
    if (p->max_client_id != 0 && id > p->max_client_id)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "client_id: has %zu bytes; profile %s: at most %lu", id, p->name,
            (unsigned long)p->max_client_id);
    if (p->no_mqtt5 && c->mqtt_version == 5)
        return postbag__paho_refuse(why, POSTBAG_EINVAL,
            "mqtt_version: is 5; profile %s: 4 only (MQTT 3.1.1)", p->name);
    return check_keepalive(c, p, why);
}

/* The broker gives a name of its own to each without one.  Two spellings of one
 * broker are not seen as such. */
int postbag__paho_is_rival(
    const struct postbag_transport *base, const struct postbag_transport *other)
{
    const struct postbag_paho_config *a = &((const struct paho *)base)->config;
    const struct postbag_paho_config *b = &((const struct paho *)other)->config;
    return a->client_id != NULL && b->client_id != NULL &&
           strcmp(a->client_id, b->client_id) == 0 &&
           strcmp(a->uri, b->uri) == 0;
}
