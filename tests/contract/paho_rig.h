/* SPDX-License-Identifier: MIT */
/* What the tests of port/paho share: a broker, a transport, a recorder. */
#ifndef POSTBAG_TEST_PAHO_RIG_H
#define POSTBAG_TEST_PAHO_RIG_H

#include "broker.h"
#include "postbag/paho.h"
#include "recorder.h"

struct rig {
    struct broker *broker;
    struct postbag_transport *transport;
    unsigned is_connected;
    struct postbag_paho_config config;
    struct postbag_connect connect;
    struct recorder r;
};

/* A rig around the broker, which it takes; the transport is made by the first
   rig_connect, from config, which the test may change before. */
struct rig *rig_new(struct broker *b);
void rig_free(struct rig *rig);
/* A rig around a scripted broker with these settings, ended by NULL. */
struct rig *rig_fake(const char *const settings[]);
/* A rig around mosquitto, for a test to begin with. */
struct rig *rig_mosquitto(void **state, const struct broker_options *o);

/* For cmocka: a rig around a scripted broker without settings; end of any. */
int rig_set_up(void **state);
int rig_tear_down(void **state);
/* Start over, with this setting of the broker. */
struct rig *rig_again(void **state, const char *setting);

/* Begin to connect with rig->connect; the generation counts up. */
void rig_connect(struct rig *rig);
/* The same, and it must come up, or be lost. */
void rig_up(struct rig *rig);
void rig_lost(struct rig *rig);
void rig_disconnect(struct rig *rig, unsigned abort);

/* Publish a short payload. */
int rig_send(struct rig *rig, const char *payload, uint32_t token);
/* The same, accepted, and settled with err and reason. */
void rig_settle(
    struct rig *rig, const char *payload, uint32_t token, int err, int reason);

#endif
