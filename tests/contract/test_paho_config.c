/* SPDX-License-Identifier: MIT */
/* postbag_paho_new: what it takes, and what it refuses naming the option. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "postbag/paho.h"

static struct postbag_paho_config good(void)
{
    return (struct postbag_paho_config){
        .struct_size = sizeof(struct postbag_paho_config),
        .uri = "tcp://127.0.0.1:1883",
        .client_id = "gateway",
    };
}

static void expect_good(const struct postbag_paho_config *c)
{
    struct postbag_transport *t = NULL;
    struct postbag_fault why = {0};
    int err = postbag_paho_new(&t, c, &why);
    if (err != POSTBAG_OK)
        fail_msg("%s", why.text);
    t->ops->destroy(t);
}

static void expect_refused(
    const struct postbag_paho_config *c, const char *begins_with)
{
    struct postbag_transport *t = NULL;
    struct postbag_fault why = {0};
    assert_int_equal(postbag_paho_new(&t, c, &why), POSTBAG_EINVAL);
    assert_null(t);
    assert_int_equal(why.code, POSTBAG_EINVAL);
    if (strncmp(why.text, begins_with, strlen(begins_with)) != 0)
        fail_msg("\"%s\" does not begin with %s", why.text, begins_with);
}

static void test_paho_new_required_options_are_enough(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    expect_good(&c);
}

static void test_paho_new_without_required_is_refused(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.uri = NULL;
    expect_refused(&c, "uri:");
    c = good();
    c.client_id = NULL;
    expect_refused(&c, "client_id:");
}

static void test_paho_new_out_of_range_is_refused(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.mqtt_version = 3;
    expect_refused(&c, "mqtt_version:");
    c.mqtt_version = 6;
    expect_refused(&c, "mqtt_version:");
    c = good();
    c.keepalive_s = 4;
    expect_refused(&c, "keepalive_s:");
    c.keepalive_s = 65536;
    expect_refused(&c, "keepalive_s:");
    c.keepalive_s = 65535;
    expect_good(&c);
}

static void test_paho_new_length_out_of_range_is_refused(void **state)
{
    (void)state;
    char long_id[257];
    struct postbag_paho_config c = good();
    c.username = "";
    expect_refused(&c, "username:");
    memset(long_id, 'x', 256);
    long_id[256] = '\0';
    c = good();
    c.client_id = long_id;
    expect_refused(&c, "client_id:");
    long_id[255] = '\0';
    expect_good(&c);
}

static void test_paho_new_good_uris_are_taken(void **state)
{
    static const char *const uris[] = {"tcp://h", "tcp://h:1", "mqtt://h:65535",
        "tcp://[::1]:1883", "tcp://broker.example.org"};
    (void)state;
    struct postbag_paho_config c = good();
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        c.uri = uris[i];
        expect_good(&c);
    }
}

static void test_paho_new_bad_uris_are_refused(void **state)
{
    static const char *const uris[] = {"h", "http://h", "tcp://", "tcp://:1883",
        "tcp://h:", "tcp://h:0", "tcp://h:65536", "tcp://h:18x", "tcp://h/t",
        "tcp://me:secret@h:1883", "tcp://h h", "tcp://[]:1", "tcp://[::1",
        "tcp://[::1]1", "ws://h", "TCP://h"};
    (void)state;
    struct postbag_paho_config c = good();
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        c.uri = uris[i];
        expect_refused(&c, "uri:");
    }
}

static void test_paho_new_credentials_in_uri_are_not_shown(void **state)
{
    (void)state;
    struct postbag_transport *t = NULL;
    struct postbag_fault why = {0};
    struct postbag_paho_config c = good();
    c.uri = "tcp://me:secret@h:1883";
    assert_int_equal(postbag_paho_new(&t, &c, &why), POSTBAG_EINVAL);
    assert_null(strstr(why.text, "secret"));
}

static void test_paho_new_tls_options_without_tls_are_refused(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.ca_file = "/ca.pem";
    expect_refused(&c, "ca_file:");
    c = good();
    c.ca_path = "/cas";
    expect_refused(&c, "ca_path:");
    c = good();
    c.cert_file = "/cert.pem";
    expect_refused(&c, "cert_file:");
}

static void test_paho_new_key_without_certificate_is_refused(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.key_file = "/key.pem";
    expect_refused(&c, "key_file:");
    c = good();
    c.key_password = "secret";
    expect_refused(&c, "key_password:");
}

static void test_paho_new_ssl_uri_is_as_built(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.uri = "ssl://h:8883";
#ifdef POSTBAG_WITH_TLS
    expect_good(&c);
    c.uri = "mqtts://h";
    c.ca_file = "/ca.pem";
    c.cert_file = "/cert.pem";
    expect_good(&c);
#else
    expect_refused(&c, "uri: ssl://");
#endif
}

static void test_paho_new_v3_password_alone_is_refused(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.password = "secret";
    expect_good(&c);
    c.mqtt_version = 4;
    expect_refused(&c, "password:");
    c.username = "me";
    expect_good(&c);
}

static void test_paho_new_proxy_in_environment_is_refused(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    setenv("http_proxy", "http://127.0.0.1:9", 1);
    expect_refused(&c, "uri: the environment has http_proxy");
    setenv("http_proxy", "", 1);
    expect_refused(&c, "uri: the environment has http_proxy");
    unsetenv("http_proxy");
    setenv("https_proxy", "http://127.0.0.1:9", 1);
    expect_good(&c);
#ifdef POSTBAG_WITH_TLS
    c.uri = "ssl://h";
    expect_refused(&c, "uri: the environment has https_proxy");
#endif
    unsetenv("https_proxy");
}

struct newer {
    struct postbag_paho_config known;
    uint64_t unknown;
};

static void test_paho_new_newer_struct_with_zero_tail_is_taken(void **state)
{
    (void)state;
    struct newer c = {.known = good()};
    c.known.struct_size = sizeof(c);
    expect_good(&c.known);
}

static void test_paho_new_newer_struct_with_value_is_eversion(void **state)
{
    (void)state;
    struct postbag_transport *t = NULL;
    struct newer c = {.known = good(), .unknown = 1};
    c.known.struct_size = sizeof(c);
    assert_int_equal(postbag_paho_new(&t, &c.known, NULL), POSTBAG_EVERSION);
    assert_null(t);
}

static void test_paho_new_older_struct_is_taken(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.struct_size = offsetof(struct postbag_paho_config, username);
    c.username = ""; /* beyond what an older caller has */
    expect_good(&c);
}

static void test_paho_new_without_size_is_refused(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.struct_size = 0;
    expect_refused(&c, "struct_size");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_paho_new_required_options_are_enough),
    cmocka_unit_test(test_paho_new_without_required_is_refused),
    cmocka_unit_test(test_paho_new_out_of_range_is_refused),
    cmocka_unit_test(test_paho_new_length_out_of_range_is_refused),
    cmocka_unit_test(test_paho_new_good_uris_are_taken),
    cmocka_unit_test(test_paho_new_bad_uris_are_refused),
    cmocka_unit_test(test_paho_new_credentials_in_uri_are_not_shown),
    cmocka_unit_test(test_paho_new_tls_options_without_tls_are_refused),
    cmocka_unit_test(test_paho_new_key_without_certificate_is_refused),
    cmocka_unit_test(test_paho_new_ssl_uri_is_as_built),
    cmocka_unit_test(test_paho_new_v3_password_alone_is_refused),
    cmocka_unit_test(test_paho_new_proxy_in_environment_is_refused),
    cmocka_unit_test(test_paho_new_newer_struct_with_zero_tail_is_taken),
    cmocka_unit_test(test_paho_new_newer_struct_with_value_is_eversion),
    cmocka_unit_test(test_paho_new_older_struct_is_taken),
    cmocka_unit_test(test_paho_new_without_size_is_refused),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
