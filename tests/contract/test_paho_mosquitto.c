/* SPDX-License-Identifier: MIT */
/* Paho against mosquitto: a real session, passwords. */

#include "paho_test.h"

/* ---- sessions ------------------------------------------------------------ */

/* What it sends comes back to it, over a kept session. */
static void send_to_itself(struct rig *rig, uint32_t mqtt_version)
{
    const char *const filters[] = {"rig/#"};
    rig->config.mqtt_version = mqtt_version;
    rig->connect.session_expiry_s = 600;
    rig->connect.receive_max = 10;
    rig_up(rig);
    assert_int_equal(rig->r.link.mqtt_version, mqtt_version);
    assert_int_equal(
        rig->transport->ops->subscribe(rig->transport, filters, 1), POSTBAG_OK);
    rig_settle(rig, "one", 0, POSTBAG_OK, 0);
    assert_true(recorder_wait(&rig->r, &rig->r.arrivals, 1));
    assert_string_equal(rig->r.topic, "rig/out");
    assert_string_equal(rig->r.payload, "one");

    /* refused before or after the PUBACK of what was sent: either is fine */
    recorder_answer(&rig->r, POSTBAG_EBUSY);
    assert_int_equal(rig_send(rig, "two", 1), POSTBAG_OK);
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    rig_disconnect(rig, 1);
    recorder_answer(&rig->r, POSTBAG_OK);
    rig_up(rig);
    assert_int_equal(rig->r.link.session_present, 1);
    assert_true(recorder_wait(&rig->r, &rig->r.arrivals, 3));
    assert_string_equal(rig->r.payload, "two");
    assert_int_equal(rig->r.dup, 1);
}

static void test_paho_mosquitto_v5_keeps_a_refused_message(void **state)
{
    struct rig *rig = rig_mosquitto(state, NULL);
    send_to_itself(rig, 5);
    assert_int_equal(rig->r.link.receive_max, 20); /* mosquitto's default */
}

static void test_paho_mosquitto_v3_keeps_a_refused_message(void **state)
{
    send_to_itself(rig_mosquitto(state, NULL), 4);
}

static void test_paho_mosquitto_restart_is_survived(void **state)
{
    struct rig *rig = rig_mosquitto(state, NULL);
    rig_up(rig);
    rig_settle(rig, "one", 0, POSTBAG_OK, 0);
    broker_kill(rig->broker);
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    rig_disconnect(rig, 0);
    broker_restart(rig->broker);
    rig_up(rig);
    rig_settle(rig, "two", 1, POSTBAG_OK, 0);
}

static void test_paho_mosquitto_standing_still_can_be_left(void **state)
{
    struct rig *rig = rig_mosquitto(state, NULL);
    rig_up(rig);
    broker_pause(rig->broker);
    for (uint32_t i = 0; i < 10; i++)
        assert_int_equal(rig_send(rig, "x", i), POSTBAG_OK);
    rig_disconnect(rig, 1);
    assert_int_equal(recorder_settled_once(&rig->r, 10, POSTBAG_ELINK), 10);
    broker_resume(rig->broker);
    rig_up(rig);
    rig_settle(rig, "y", 10, POSTBAG_OK, 0);
}

/* ---- passwords ----------------------------------------------------------- */

static const struct broker_options with_password = {
    .user = "gateway",
    .password = "open sesame",
};

static void test_paho_mosquitto_right_password_is_up(void **state)
{
    struct rig *rig = rig_mosquitto(state, &with_password);
    rig->config.username = "gateway";
    rig->config.password = "open sesame";
    rig_up(rig);
}

static void wrong_password(struct rig *rig, uint32_t mqtt_version, int reason)
{
    rig->config.mqtt_version = mqtt_version;
    rig->config.username = "gateway";
    rig->config.password = "sesame close";
    rig_lost(rig);
    assert_int_equal(rig->r.ups, 0);
    assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
    assert_int_equal(rig->r.lost_reason, reason);
    assert_null(strstr(rig->r.lost_text, "sesame"));
}

static void test_paho_mosquitto_v5_wrong_password_is_refused(void **state)
{
    wrong_password(rig_mosquitto(state, &with_password), 5, 0x87);
}

static void test_paho_mosquitto_v3_wrong_password_is_refused(void **state)
{
    wrong_password(rig_mosquitto(state, &with_password), 4, 5);
}

#ifdef POSTBAG_WITH_TLS
static void test_paho_tls_refused_message_comes_again(void **state)
{
    static const struct broker_options with_tls = {.tls = 1};
    char ca[256];
    struct rig *rig = rig_mosquitto(state, &with_tls);
    (void)snprintf(ca, sizeof(ca), "%s", broker_file(rig->broker, "ca.pem"));
    rig->config.ca_file = ca;
    send_to_itself(rig, 5);
}
#endif

static const struct CMUnitTest tests[] = {
    TEST(test_paho_mosquitto_v5_keeps_a_refused_message),
    TEST(test_paho_mosquitto_v3_keeps_a_refused_message),
    TEST(test_paho_mosquitto_restart_is_survived),
    TEST(test_paho_mosquitto_standing_still_can_be_left),
    TEST(test_paho_mosquitto_right_password_is_up),
    TEST(test_paho_mosquitto_v5_wrong_password_is_refused),
    TEST(test_paho_mosquitto_v3_wrong_password_is_refused),
#ifdef POSTBAG_WITH_TLS
    TEST(test_paho_tls_refused_message_comes_again),
#endif
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
