/* SPDX-License-Identifier: MIT */
/* See tls_rig.h. */
#include "tls_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct rig *begin(void **state, struct broker *broker)
{
    struct rig *rig = rig_new(broker);
    *state = rig;
    rig->config.ca_file = tls_file(rig, "ca.pem");
    return rig;
}

struct rig *tls_mosquitto(void **state, const struct broker_options *o)
{
    return begin(state, broker_start_mosquitto(o));
}

struct rig *tls_fake(void **state, const char *const settings[])
{
    return begin(state, broker_start_fake(settings));
}

const char *tls_file(const struct rig *rig, const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(
        path, sizeof(paths[0]), "%s", broker_file(rig->broker, name));
    return path;
}

void tls_host(struct rig *rig, const char *host)
{
    static char uri[64];
    (void)snprintf(
        uri, sizeof(uri), "ssl://%s:%d", host, broker_port(rig->broker));
    rig->config.uri = uri;
}

void tls_refused(struct rig *rig, ...)
{
    unsigned ups = rig->r.ups;
    unsigned losts = rig->r.losts;
    rig_lost(rig);
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.ups, ups);
    assert_int_equal(rig->r.losts, losts + 1);
    assert_int_equal(rig->r.lost_err, POSTBAG_ELINK);
    va_list words;
    va_start(words, rig);
    const char *word = va_arg(words, const char *);
    for (; word != NULL; word = va_arg(words, const char *)) {
        if (strstr(rig->r.lost_text, word) == NULL)
            fail_msg("no \"%s\" in: %s", word, rig->r.lost_text);
    }
    va_end(words);
}

void tls_up_again(struct rig *rig)
{
    rig_up(rig);
    rig_settle(rig, "secret", rig->connect.generation, POSTBAG_OK, 0);
    rig_disconnect(rig, 0);
}
