/* SPDX-License-Identifier: MIT */
/* Paho against mosquitto: a real session, passwords, TLS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "paho_rig.h"

static struct rig *begin(void **state, const struct broker_options *o)
{
    struct rig *rig = rig_new(broker_start_mosquitto(o));
    *state = rig;
    return rig;
}

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
    struct rig *rig = begin(state, NULL);
    send_to_itself(rig, 5);
    assert_int_equal(rig->r.link.receive_max, 20); /* mosquitto's default */
}

static void test_paho_mosquitto_v3_keeps_a_refused_message(void **state)
{
    send_to_itself(begin(state, NULL), 4);
}

static void test_paho_mosquitto_restart_is_survived(void **state)
{
    struct rig *rig = begin(state, NULL);
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
    struct rig *rig = begin(state, NULL);
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
    struct rig *rig = begin(state, &with_password);
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
    wrong_password(begin(state, &with_password), 5, 0x87);
}

static void test_paho_mosquitto_v3_wrong_password_is_refused(void **state)
{
    wrong_password(begin(state, &with_password), 4, 5);
}

/* ---- TLS ----------------------------------------------------------------- */

#ifdef POSTBAG_WITH_TLS
static const struct broker_options with_tls = {.tls = 1};

/* The texts of config must live until the transport is made. */
static void name_file(struct rig *rig, char *to, size_t size, const char *name)
{
    (void)snprintf(to, size, "%s", broker_file(rig->broker, name));
}

static struct rig *begin_tls(
    void **state, const struct broker_options *o, const char *ca)
{
    static char path[256];
    struct rig *rig = begin(state, o);
    name_file(rig, path, sizeof(path), ca);
    rig->config.ca_file = path;
    return rig;
}

static void test_paho_tls_right_host_is_up(void **state)
{
    struct rig *rig = begin_tls(state, &with_tls, "ca.pem");
    rig_up(rig);
    rig_settle(rig, "secret", 0, POSTBAG_OK, 0);
    rig_disconnect(rig, 0);
    rig_up(rig);
}

static void test_paho_tls_refused_message_comes_again(void **state)
{
    send_to_itself(begin_tls(state, &with_tls, "ca.pem"), 5);
}

static void expect_tls_failure(struct rig *rig)
{
    rig_lost(rig);
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.ups, 0);
    assert_int_equal(rig->r.losts, 1);
    assert_int_equal(rig->r.lost_err, POSTBAG_ELINK);
}

/* The certificate names localhost, and not 127.0.0.1. */
static void test_paho_tls_wrong_host_is_refused(void **state)
{
    char uri[64];
    struct rig *rig = begin_tls(state, &with_tls, "ca.pem");
    (void)snprintf(
        uri, sizeof(uri), "ssl://127.0.0.1:%d", broker_port(rig->broker));
    rig->config.uri = uri;
    expect_tls_failure(rig);
}

static void test_paho_tls_unknown_ca_is_refused(void **state)
{
    struct rig *rig = begin_tls(state, &with_tls, "other-ca.pem");
    expect_tls_failure(rig);
    assert_non_null(strstr(rig->r.lost_text, "certificate verify failed"));
}

static void test_paho_tls_system_ca_does_not_know_ours(void **state)
{
    struct rig *rig = begin_tls(state, &with_tls, "ca.pem");
    rig->config.ca_file = NULL;
    expect_tls_failure(rig);
}

static const struct broker_options with_client_certificate = {
    .tls = 1,
    .config = "require_certificate true\nuse_identity_as_username true\n",
};

static void test_paho_tls_client_certificate_is_shown(void **state)
{
    static char cert[256];
    static char key[256];
    struct rig *rig = begin_tls(state, &with_client_certificate, "ca.pem");
    name_file(rig, cert, sizeof(cert), "client.pem");
    name_file(rig, key, sizeof(key), "client.key");
    rig->config.cert_file = cert;
    rig->config.key_file = key;
    rig_up(rig);
    rig_settle(rig, "secret", 0, POSTBAG_OK, 0);
}

static void test_paho_tls_no_client_certificate_is_refused(void **state)
{
    expect_tls_failure(begin_tls(state, &with_client_certificate, "ca.pem"));
}

/* Handshakes of two handles at once: each knows its own socket. */
static void test_paho_tls_two_handles_end_their_own_socket(void **state)
{
    const char *const filters[] = {"rig/#"};
    struct rig *one = begin_tls(state, &with_tls, "ca.pem");
    struct rig *two = rig_new(broker_start_mosquitto(NULL));
    two->config.uri = broker_uri(one->broker);
    two->config.ca_file = one->config.ca_file;
    two->config.client_id = "other";
    rig_connect(one);
    rig_connect(two);
    assert_true(recorder_wait(&one->r, &one->r.ups, 1));
    assert_true(recorder_wait(&two->r, &two->r.ups, 1));
    assert_int_equal(
        one->transport->ops->subscribe(one->transport, filters, 1), POSTBAG_OK);
    recorder_answer(&one->r, POSTBAG_EIO);
    assert_int_equal(rig_send(one, "x", 0), POSTBAG_OK);
    assert_true(recorder_wait(&one->r, &one->r.losts, 1));
    rig_settle(two, "x", 0, POSTBAG_OK, 0);
    assert_int_equal(two->r.losts, 0);
    rig_free(two);
}
#endif

static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_teardown(name, rig_tear_down)
    TEST(test_paho_mosquitto_v5_keeps_a_refused_message),
    TEST(test_paho_mosquitto_v3_keeps_a_refused_message),
    TEST(test_paho_mosquitto_restart_is_survived),
    TEST(test_paho_mosquitto_standing_still_can_be_left),
    TEST(test_paho_mosquitto_right_password_is_up),
    TEST(test_paho_mosquitto_v5_wrong_password_is_refused),
    TEST(test_paho_mosquitto_v3_wrong_password_is_refused),
#ifdef POSTBAG_WITH_TLS
    TEST(test_paho_tls_right_host_is_up),
    TEST(test_paho_tls_refused_message_comes_again),
    TEST(test_paho_tls_wrong_host_is_refused),
    TEST(test_paho_tls_unknown_ca_is_refused),
    TEST(test_paho_tls_system_ca_does_not_know_ours),
    TEST(test_paho_tls_client_certificate_is_shown),
    TEST(test_paho_tls_no_client_certificate_is_refused),
    TEST(test_paho_tls_two_handles_end_their_own_socket),
#endif
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
