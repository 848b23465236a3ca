/* SPDX-License-Identifier: MIT */
/* Paho against the scripted broker: what is in the packets, both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "paho_rig.h"

/* ---- properties ---------------------------------------------------------- */

static void test_paho_send_v5_carries_the_properties(void **state)
{
    static const struct postbag_property users[] = {
        {"id", "42"}, {"source", "/gw/1"}};
    struct postbag_frame f = {
        .topic = "rig/out",
        .content_type = "text/plain",
        .response_topic = "rig/reply",
        .correlation = "\x01\x02",
        .correlation_len = 2,
        .properties = users,
        .property_count = 2,
        .expiry_s = UINT32_MAX,
        .retain = 1,
        .is_text = 1,
    };
    struct rig *rig = *state;
    rig_up(rig);
    assert_int_equal(
        rig->transport->ops->send(rig->transport, &f, 0), POSTBAG_OK);
    assert_true(recorder_wait(&rig->r, &rig->r.settled, 1));
    assert_int_equal(broker_count(rig->broker,
                         "retain=1 topic=rig/out len=0 payload=b'' 0x01=1 "
                         "0x02=2147483647 0x03=b'text/plain' "
                         "0x08=b'rig/reply' 0x09=b'\\x01\\x02' "
                         "0x26='id=42' 0x26='source=/gw/1'"),
        1);
}

static void test_paho_send_v3_leaves_the_properties_out(void **state)
{
    struct postbag_frame f = {
        .topic = "rig/out",
        .payload = "x",
        .payload_len = 1,
        .content_type = "text/plain",
        .expiry_s = 5,
    };
    struct rig *rig = *state;
    rig->config.mqtt_version = 4;
    rig_up(rig);
    assert_int_equal(
        rig->transport->ops->send(rig->transport, &f, 0), POSTBAG_OK);
    assert_true(recorder_wait(&rig->r, &rig->r.settled, 1));
    assert_int_equal(
        broker_count(rig->broker, "topic=rig/out len=1 payload=b'x'\n"), 1);
}

static void test_paho_send_too_long_a_property_is_einval(void **state)
{
    struct rig *rig = *state;
    char *value = malloc(65537);
    assert_non_null(value);
    memset(value, 'v', 65536);
    value[65536] = '\0';
    struct postbag_property user = {"name", value};
    struct postbag_frame f = {
        .topic = "rig/out", .properties = &user, .property_count = 1};
    rig_up(rig);
    int err = rig->transport->ops->send(rig->transport, &f, 0);
    free(value);
    assert_int_equal(err, POSTBAG_EINVAL);
    assert_int_equal(rig->r.settled, 0);
}

struct seen {
    char text[400];
};

static void see(void *ctx, const struct postbag_frame *f)
{
    struct seen *seen = ctx;
    int at = snprintf(seen->text, sizeof(seen->text), "%s|%s|%.*s|%u|%u|%.*s",
        f->content_type, f->response_topic, (int)f->correlation_len,
        (const char *)f->correlation, (unsigned)f->expiry_s, f->is_text,
        (int)f->payload_len, (const char *)f->payload);
    for (size_t i = 0; i < f->property_count; i++)
        at += snprintf(seen->text + at, sizeof(seen->text) - (size_t)at,
            "|%s=%s", f->properties[i].name, f->properties[i].value);
}

static void test_paho_arrived_v5_has_the_properties(void **state)
{
    struct rig *rig = *state;
    struct seen seen = {""};
    rig->r.on_arrived = see;
    rig->r.on_arrived_ctx = &seen;
    rig_up(rig);
    broker_tell(rig->broker,
        "publish rig/in on a=1 ct=text/plain rt=rig/reply cd=77 exp=9 pfi=1 "
        "b=zwei");
    assert_true(recorder_wait(&rig->r, &rig->r.arrivals, 1));
    assert_string_equal(seen.text, "text/plain|rig/reply|77|9|1|on|a=1|b=zwei");
}

static void test_paho_arrived_with_an_expiry_of_0_is_not_for_ever(void **state)
{
    struct rig *rig = *state;
    struct seen seen = {""};
    rig->r.on_arrived = see;
    rig->r.on_arrived_ctx = &seen;
    rig_up(rig);
    broker_tell(rig->broker, "publish rig/in on ct=t rt=r cd=7 exp=0");
    assert_true(recorder_wait(&rig->r, &rig->r.arrivals, 1));
    assert_string_equal(seen.text, "t|r|7|1|0|on");
}

/* ---- subscribe ----------------------------------------------------------- */

static void test_paho_subscribe_asks_for_qos1(void **state)
{
    const char *const filters[] = {"a/+", "b/#"};
    struct rig *rig = *state;
    rig_up(rig);
    assert_int_equal(
        rig->transport->ops->subscribe(rig->transport, filters, 2), POSTBAG_OK);
    assert_true(broker_wait(rig->broker, "topic=a/+ qos=1", 1));
    assert_true(broker_wait(rig->broker, "topic=b/# qos=1", 1));
    assert_true(recorder_wait(&rig->r, &rig->r.subscribed, 1));
    assert_int_equal(rig->r.subscribed_generation, rig->connect.generation);
    rig_settle(rig, "x", 0, POSTBAG_OK, 0);
    assert_int_equal(rig->r.subscribed, 1);
    assert_int_equal(rig->r.losts, 0);
}

static void refuse_subscription(
    struct rig *rig, uint32_t mqtt_version, int reason)
{
    const char *const filters[] = {"a/+"};
    rig->config.mqtt_version = mqtt_version;
    rig_up(rig);
    assert_int_equal(
        rig->transport->ops->subscribe(rig->transport, filters, 1), POSTBAG_OK);
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
    assert_int_equal(rig->r.lost_reason, reason);
}

/* The SUBACK of one of two filters is held back, PUBACKs are not. */
static void test_paho_subscribe_granted_in_part_is_not_subscribed(void **state)
{
    const char *const filters[] = {"a/+", "b/#"};
    struct rig *rig = rig_again(state, "subsilent=b/#");
    rig_up(rig);
    assert_int_equal(
        rig->transport->ops->subscribe(rig->transport, filters, 2), POSTBAG_OK);
    assert_true(broker_wait(rig->broker, "topic=b/# qos=1", 1));
    rig_settle(rig, "x", 0, POSTBAG_OK, 0);
    assert_int_equal(rig->r.subscribed, 0);
    assert_int_equal(rig->r.losts, 0);
}

static void test_paho_subscribe_refused_is_lost(void **state)
{
    refuse_subscription(rig_again(state, "subrefuse=0x87"), 5, 0x87);
}

static void test_paho_subscribe_v3_refused_is_lost(void **state)
{
    refuse_subscription(rig_again(state, "subrefuse=0x80"), 4, 0x80);
}

static void test_paho_subscribe_granted_qos0_is_lost(void **state)
{
    refuse_subscription(rig_again(state, "subrefuse=0"), 5, 0);
}

static void test_paho_subscribe_not_connected_is_estate(void **state)
{
    const char *const filters[] = {"a"};
    struct rig *rig = *state;
    rig_up(rig);
    rig_disconnect(rig, 0);
    assert_int_equal(rig->transport->ops->subscribe(rig->transport, filters, 1),
        POSTBAG_ESTATE);
}

static const struct CMUnitTest tests[] = {
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
    TEST(test_paho_send_v5_carries_the_properties),
    TEST(test_paho_send_v3_leaves_the_properties_out),
    TEST(test_paho_send_too_long_a_property_is_einval),
    TEST(test_paho_arrived_v5_has_the_properties),
    TEST(test_paho_arrived_with_an_expiry_of_0_is_not_for_ever),
    TEST(test_paho_subscribe_asks_for_qos1),
    TEST(test_paho_subscribe_granted_in_part_is_not_subscribed),
    TEST(test_paho_subscribe_refused_is_lost),
    TEST(test_paho_subscribe_v3_refused_is_lost),
    TEST(test_paho_subscribe_granted_qos0_is_lost),
    TEST(test_paho_subscribe_not_connected_is_estate),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
