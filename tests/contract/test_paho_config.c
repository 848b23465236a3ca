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
    expect_good(&c);
    c.mqtt_version = 4;
    expect_refused(&c, "client_id:");
}

static void test_paho_new_will_without_its_topic_is_refused(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.will_payload = "gone";
    expect_refused(&c, "will_payload:");
    c.will_topic = "gw/1/online";
    expect_good(&c);
    c.will_topic = "gw/+/online";
    expect_refused(&c, "will_topic:");
    c = good();
    c.will_retain = 1;
    expect_refused(&c, "will_retain:");
    c = good();
    c.will_delay_s = 5;
    expect_refused(&c, "will_delay_s:");
    c.will_topic = "gw/1/online";
    expect_good(&c);
    c.mqtt_version = 4;
    expect_refused(&c, "will_delay_s:");
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

static void test_paho_new_text_that_is_not_utf8_is_refused(void **state)
{
    static const char *const bad[] = {"a\nb", "\x1b[31m", "a\x7f", "\xc2\x85",
        "\xff", "a\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82",
        "\xe2\x82z", "\xc3", "\xf4\x8f\xbf\xbf"};
    static const char *const fine[] = {"\xc2\xa0", "ger\xc3\xa4t",
        "\xe2\x82\xac", "\xed\x9f\xbf\xee\x80\x80", "\xf0\x90\x80\x80",
        "\xf4\x8f\xbf\xbd"};
    (void)state;
    struct postbag_paho_config c = good();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        c.client_id = bad[i];
        expect_refused(&c, "client_id: is not UTF-8");
    }
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        c.client_id = fine[i];
        expect_good(&c);
    }
    c.username = "a\tb";
    expect_refused(&c, "username: is not UTF-8");
    c.username = NULL;
    c.will_topic = "a/\xff";
    expect_refused(&c, "will_topic: is not UTF-8");
}

static void test_paho_new_good_uris_are_taken(void **state)
{
    static const char *const uris[] = {"tcp://h", "tcp://h:1", "mqtt://h:65535",
        "tcp://[::1]:1883", "tcp://broker.example.org", "tcp://a,mqtt://b:1",
        " tcp://a\t, tcp://[::1] ,tcp://a "};
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
        "tcp://[::1]1", "ws://h", "TCP://h", "tcp://[h]", "tcp://[::1%lo]",
        "tcp://h]", "tcp://.h", "tcp://h:1:2", "tcp://h:000001", "tcp://h?a",
        " "};
    (void)state;
    struct postbag_paho_config c = good();
    for (size_t i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        c.uri = uris[i];
        expect_refused(&c, "uri:");
    }
}

static void expect_secret(const char *uri)
{
    struct postbag_transport *t = NULL;
    struct postbag_fault why = {0};
    struct postbag_paho_config c = good();
    c.uri = uri;
    assert_int_equal(postbag_paho_new(&t, &c, &why), POSTBAG_EINVAL);
    assert_null(strstr(why.text, "secret"));
}

static void test_paho_new_credentials_in_uri_are_not_shown(void **state)
{
    (void)state;
    expect_secret("tcp://me:secret@h:1883");
    expect_secret("tcp://h, tcp://me:secret@h");
    expect_secret("tcp://me:secret,1@h:1883");
}

static void test_paho_new_wrong_uri_in_a_list_is_named(void **state)
{
    static const struct {
        const char *uri;
        const char *begins_with;
    } cases[] = {
        {"tcp://a,tcp://b:0", "uri: number 2, \"tcp://b:0\": "},
        {"http://a , tcp://b", "uri: number 1, \"http://a\": "},
        {"tcp://a,,tcp://b", "uri: number 2, \"\": "},
        {"tcp://a, tcp://b, ", "uri: number 3, \"\": "},
        {",tcp://a", "uri: number 1, \"\": "},
    };
    (void)state;
    struct postbag_paho_config c = good();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        c.uri = cases[i].uri;
        expect_refused(&c, cases[i].begins_with);
    }
}

static void test_paho_new_tls_for_some_servers_is_refused(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.uri = "ssl://a, tcp://b";
    expect_refused(&c, "uri: number 2, \"tcp://b\": all must use TLS");
    c.uri = "tcp://a, ssl://b";
    expect_refused(&c, "uri: number 2, \"ssl://b\": all must use TLS");
}

static void test_paho_new_long_uris_are_taken_up_to_the_limit(void **state)
{
    char uris[4097];
    char host[300];
    (void)state;
    struct postbag_paho_config c = good();
    for (size_t i = 0; i < 4096; i += 8)
        memcpy(uris + i, "tcp://h,", 8);
    uris[4095] = '\0';
    c.uri = uris;
    expect_good(&c);
    uris[4095] = 'h';
    uris[4096] = '\0';
    expect_refused(&c, "uri: 4096 bytes long");
    (void)snprintf(host, sizeof(host), "tcp://%0255d", 0);
    c.uri = host;
    expect_good(&c);
    (void)snprintf(host, sizeof(host), "tcp://%0256d", 0);
    expect_refused(&c, "uri: number 1, ");
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
    c = good();
    c.server_name = "broker.example";
    expect_refused(&c, "server_name:");
    c = good();
    c.alpn = "mqtt";
    expect_refused(&c, "alpn:");
    c = good();
    c.psk_identity = "me";
    c.psk_file = "/psk";
    expect_refused(&c, "psk_identity: needs a uri with ssl://");
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

static void test_paho_new_half_a_shared_key_is_refused(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.psk_file = "/psk";
    expect_refused(&c, "psk_file: needs psk_identity");
}

static void test_paho_new_password_and_its_file_are_refused(void **state)
{
    (void)state;
    struct postbag_paho_config c = good();
    c.password_file = "/password";
    expect_good(&c);
    c.password = "secret";
    expect_refused(&c, "password_file: does not go with password");
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
    c.alpn = "x-amzn-mqtt-ca,mqtt";
    expect_good(&c);
    c.alpn = "mqtt,";
    expect_refused(&c, "alpn:");
    c.alpn = ",mqtt";
    expect_refused(&c, "alpn:");
    c.alpn = NULL;
    c.server_name = "broker.example.";
    expect_good(&c);
    c.server_name = ".example";
    expect_refused(&c, "server_name: begins with a dot");
    c.server_name = "broker\n.example";
    expect_refused(&c, "server_name: is not UTF-8");
    c.server_name = NULL;
    c.psk_identity = "me";
    expect_refused(&c, "psk_identity: needs psk_file");
    c.psk_file = "/psk";
    expect_refused(&c, "psk_identity: does not go with ca_file");
    c.ca_file = NULL;
    expect_refused(&c, "psk_identity: does not go with cert_file");
    c.cert_file = NULL;
    expect_good(&c);
    c.ca_path = "/cas";
    expect_refused(&c, "psk_identity: does not go with ca_path");
#else
    expect_refused(&c, "uri: ssl://");
#endif
}

static int on_credentials(void *ctx, struct postbag_paho_credentials *out)
{
    (void)ctx;
    (void)out;
    return POSTBAG_OK;
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
    /* who the callback says that we are is not known yet */
    c.username = NULL;
    c.credentials = on_credentials;
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
    cmocka_unit_test(test_paho_new_will_without_its_topic_is_refused),
    cmocka_unit_test(test_paho_new_out_of_range_is_refused),
    cmocka_unit_test(test_paho_new_length_out_of_range_is_refused),
    cmocka_unit_test(test_paho_new_text_that_is_not_utf8_is_refused),
    cmocka_unit_test(test_paho_new_good_uris_are_taken),
    cmocka_unit_test(test_paho_new_bad_uris_are_refused),
    cmocka_unit_test(test_paho_new_credentials_in_uri_are_not_shown),
    cmocka_unit_test(test_paho_new_wrong_uri_in_a_list_is_named),
    cmocka_unit_test(test_paho_new_tls_for_some_servers_is_refused),
    cmocka_unit_test(test_paho_new_long_uris_are_taken_up_to_the_limit),
    cmocka_unit_test(test_paho_new_tls_options_without_tls_are_refused),
    cmocka_unit_test(test_paho_new_key_without_certificate_is_refused),
    cmocka_unit_test(test_paho_new_half_a_shared_key_is_refused),
    cmocka_unit_test(test_paho_new_password_and_its_file_are_refused),
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
