/* SPDX-License-Identifier: MIT */
/* See paho_rig.h. */
#include "paho_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct rig *rig_new(struct broker *b)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    assert_non_null(rig);
    rig->broker = b;
    rig->config = (struct postbag_paho_config){
        .struct_size = sizeof(rig->config),
        .uri = broker_uri(b),
        .client_id = "rig",
    };
    rig->connect.timeout_ms = 10000;
    recorder_init(&rig->r);
    return rig;
}

void rig_free(struct rig *rig)
{
    if (rig->is_connected)
        rig_disconnect(rig, 1);
    if (rig->transport != NULL)
        rig->transport->ops->destroy(rig->transport);
    broker_stop(rig->broker);
    recorder_destroy(&rig->r);
    free(rig);
}

struct rig *rig_fake(const char *const settings[])
{
    return rig_new(broker_start_fake(settings));
}

struct rig *rig_mosquitto(void **state, const struct broker_options *o)
{
    struct rig *rig = rig_new(broker_start_mosquitto(o));
    *state = rig;
    return rig;
}

int rig_set_up(void **state)
{
    *state = rig_fake(NULL);
    return 0;
}

int rig_tear_down(void **state)
{
    rig_free(*state);
    return 0;
}

struct rig *rig_again(void **state, const char *setting)
{
    const char *const settings[] = {setting, NULL};
    rig_free(*state);
    *state = rig_fake(settings);
    return *state;
}

void rig_connect(struct rig *rig)
{
    struct postbag_fault why = {0};
    if (rig->transport == NULL &&
        postbag_paho_new(&rig->transport, &rig->config, &why) != POSTBAG_OK)
        fail_msg("postbag_paho_new: %s", why.text);
    rig->connect.generation++;
    recorder_open(&rig->r);
    assert_int_equal(rig->transport->ops->connect(
                         rig->transport, &rig->connect, &rig->r.events),
        POSTBAG_OK);
    rig->is_connected = 1;
}

/* Paho notes the end of a connection without its lock, and may take it for that
   of the next one, whose socket has the same number by then.  The engine tries
   again, and so do we; once, for it is rare. */
static int fails_by_another(const struct rig *rig)
{
    return strstr(rig->r.lost_text, ": socket error") != NULL;
}

void rig_up(struct rig *rig)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        unsigned ups = rig->r.ups;
        unsigned losts = rig->r.losts;
        rig_connect(rig);
        if (recorder_wait_attempt(&rig->r, ups + 1, losts + 1))
            return;
        if (!fails_by_another(rig))
            break;
        rig_disconnect(rig, 1);
    }
    fail_msg("not up: %s", rig->r.lost_text);
}

void rig_lost(struct rig *rig)
{
    unsigned losts = rig->r.losts;
    rig_connect(rig);
    assert_true(recorder_wait(&rig->r, &rig->r.losts, losts + 1));
}

void rig_disconnect(struct rig *rig, unsigned abort)
{
    rig->transport->ops->disconnect(rig->transport, abort);
    rig->is_connected = 0;
    recorder_close(&rig->r);
}

int rig_send(struct rig *rig, const char *payload, uint32_t token)
{
    struct postbag_frame f = {
        .topic = "rig/out",
        .payload = payload,
        .payload_len = strlen(payload),
    };
    return rig->transport->ops->send(rig->transport, &f, token);
}

void rig_settle(
    struct rig *rig, const char *payload, uint32_t token, int err, int reason)
{
    unsigned settled = rig->r.settled;
    assert_int_equal(rig_send(rig, payload, token), POSTBAG_OK);
    assert_true(recorder_wait(&rig->r, &rig->r.settled, settled + 1));
    assert_int_equal(rig->r.outcomes[token].count, 1);
    assert_int_equal(rig->r.outcomes[token].err, err);
    assert_int_equal(rig->r.outcomes[token].reason, reason);
}
