/* SPDX-License-Identifier: MIT */
/* Whom port/paho trusts: chains, names, dates, protocols, shared keys. */
#include <openssl/ssl.h>
#include <time.h>

#include "paho_test.h"
#include "tls_rig.h"

static const struct broker_options plain = {.tls = 1};

/* ---- names --------------------------------------------------------------- */

static void test_tls_right_host_is_up(void **state)
{
    struct rig *rig = tls_mosquitto(state, &plain);
    tls_up_again(rig);
    tls_up_again(rig);
}

/* The certificate names localhost, and not 127.0.0.1. */
static void test_tls_wrong_host_is_refused_and_both_are_named(void **state)
{
    struct rig *rig = tls_mosquitto(state, &plain);
    tls_host(rig, "127.0.0.1");
    tls_refused(rig, "certificate is for localhost, not for 127.0.0.1",
        "server_name", NULL);
}

static void test_tls_wrong_host_text_lists_all_names(void **state)
{
    struct rig *rig = tls_mosquitto(state,
        &(struct broker_options){.tls = 1, .certificate = "server-elsewhere"});
    tls_refused(
        rig, "broker.example, *.broker.example, not for localhost", NULL);
}

static void test_tls_server_name_is_checked_instead_of_the_host(void **state)
{
    struct rig *rig = tls_mosquitto(state,
        &(struct broker_options){.tls = 1, .certificate = "server-elsewhere"});
    rig->config.server_name = "broker.example";
    tls_up_again(rig);
}

static void test_tls_server_name_matches_a_wildcard(void **state)
{
    struct rig *rig = tls_mosquitto(state,
        &(struct broker_options){.tls = 1, .certificate = "server-elsewhere"});
    rig->config.server_name = "one.broker.example";
    tls_up_again(rig);
}

static void test_tls_wrong_server_name_is_refused(void **state)
{
    struct rig *rig = tls_mosquitto(state, &plain);
    rig->config.server_name = "broker.example";
    tls_refused(rig, "for localhost, not for broker.example", NULL);
}

static void test_tls_address_in_the_certificate_is_up(void **state)
{
    struct rig *rig = tls_mosquitto(state,
        &(struct broker_options){.tls = 1, .certificate = "server-address"});
    tls_host(rig, "127.0.0.1");
    tls_up_again(rig);
}

static void test_tls_v6_address_in_the_certificate_is_up(void **state)
{
    struct rig *rig = tls_mosquitto(
        state, &(struct broker_options){
                   .tls = 1, .certificate = "server-address", .is_dual = 1});
    tls_host(rig, "[::1]");
    tls_up_again(rig);
}

static void test_tls_name_is_not_an_address_in_the_certificate(void **state)
{
    struct rig *rig = tls_mosquitto(state,
        &(struct broker_options){.tls = 1, .certificate = "server-address"});
    tls_refused(rig, "for 127.0.0.1, ::1, not for localhost", NULL);
}

static const char *const fake_plain[] = {"tls=server", NULL};

static void test_tls_server_is_asked_for_by_name(void **state)
{
    struct rig *rig = tls_fake(state, fake_plain);
    tls_up_again(rig);
    assert_int_equal(broker_count(rig->broker, "sni=localhost"), 1);
}

static void test_tls_server_name_is_asked_for(void **state)
{
    const char *const settings[] = {"tls=server-elsewhere", NULL};
    struct rig *rig = tls_fake(state, settings);
    rig->config.server_name = "broker.example";
    tls_up_again(rig);
    assert_int_equal(broker_count(rig->broker, "sni=broker.example"), 1);
}

/* The dot of the root stands in no certificate. */
static void test_tls_server_name_with_a_dot_behind_it_is_the_same(void **state)
{
    struct rig *rig = tls_fake(state, fake_plain);
    rig->config.server_name = "localhost.";
    tls_up_again(rig);
    assert_int_equal(broker_count(rig->broker, "sni=localhost"), 1);
}

static void test_tls_address_is_not_asked_for(void **state)
{
    const char *const settings[] = {"tls=server-address", NULL};
    struct rig *rig = tls_fake(state, settings);
    tls_host(rig, "127.0.0.1");
    tls_up_again(rig);
    assert_int_equal(broker_count(rig->broker, "sni=None"), 1);
}

/* ---- chains -------------------------------------------------------------- */

static void test_tls_unknown_ca_is_refused_and_named(void **state)
{
    struct rig *rig = tls_mosquitto(state, &plain);
    rig->config.ca_file = tls_file(rig, "other-ca.pem");
    tls_refused(rig, "unknown CA: ca", "ca_file", NULL);
}

static void test_tls_system_cas_do_not_know_ours(void **state)
{
    struct rig *rig = tls_mosquitto(state, &plain);
    rig->config.ca_file = NULL;
    tls_refused(rig, "unknown CA: ca", NULL);
}

static void test_tls_folder_of_cas_is_up(void **state)
{
    struct rig *rig = tls_mosquitto(state, &plain);
    rig->config.ca_file = NULL;
    rig->config.ca_path = tls_file(rig, "cas");
    tls_up_again(rig);
}

static void test_tls_replaced_ca_counts_at_the_next_connect(void **state)
{
    struct rig *rig = tls_mosquitto(state, &plain);
    broker_replace(rig->broker, "trust.pem", "other-ca.pem");
    rig->config.ca_file = tls_file(rig, "trust.pem");
    tls_refused(rig, "unknown CA: ca", NULL);
    broker_replace(rig->broker, "trust.pem", "ca.pem");
    tls_up_again(rig);
    broker_replace(rig->broker, "trust.pem", "other-ca.pem");
    tls_refused(rig, "unknown CA: ca", NULL);
}

static void test_tls_ca_file_may_come_late(void **state)
{
    struct rig *rig = tls_mosquitto(state, &plain);
    rig->config.ca_file = tls_file(rig, "late.pem");
    tls_refused(rig, "ca_file: ", rig->config.ca_file, "No such file", NULL);
    broker_write(rig->broker, "late.pem", "nothing\n");
    tls_refused(rig, "ca_file: ", rig->config.ca_file, "no certificates", NULL);
    broker_replace(rig->broker, "late.pem", "ca.pem");
    tls_up_again(rig);
}

static void test_tls_missing_folder_of_cas_is_named(void **state)
{
    struct rig *rig = tls_mosquitto(state, &plain);
    rig->config.ca_path = tls_file(rig, "none");
    tls_refused(rig, "ca_path: ", rig->config.ca_path, "No such file", NULL);
    broker_write(rig->broker, "none", "nothing\n");
    tls_refused(rig, "ca_path: ", rig->config.ca_path, "not a folder", NULL);
}

/* ---- dates --------------------------------------------------------------- */

static void test_tls_expired_certificate_is_refused_with_its_date(void **state)
{
    struct rig *rig = tls_mosquitto(state,
        &(struct broker_options){.tls = 1, .certificate = "server-expired"});
    tls_refused(
        rig, "broker's certificate expired on 2002-01-01", "our clock", NULL);
}

/* As for a device whose clock has not been set yet; nothing but the time,
   or the certificate, has to change. */
static void test_tls_early_certificate_asks_for_the_clock(void **state)
{
    struct rig *rig = tls_mosquitto(state,
        &(struct broker_options){.tls = 1, .certificate = "server-early"});
    tls_refused(rig, "broker's certificate is valid from 2040-01-01",
        "is the clock set? it says 20", NULL);
    broker_replace(rig->broker, "server-early.pem", "server.pem");
    broker_restart(rig->broker);
    tls_up_again(rig);
}

static void test_tls_end_of_the_servers_certificate_is_told(void **state)
{
    struct rig *rig = tls_mosquitto(state, &plain);
    tls_up_again(rig);
    int64_t left_s = rig->r.link.server_certificate_end_s - time(NULL);
    assert_in_range(left_s, 47 * 3600, 48 * 3600);
    assert_int_equal(rig->r.link.own_certificate_end_s, 0);
}

/* ---- protocols ----------------------------------------------------------- */

static void test_tls_alpn_is_asked_for(void **state)
{
    const char *const settings[] = {"tls=server", "alpn=x-amzn-mqtt-ca", NULL};
    struct rig *rig = tls_fake(state, settings);
    rig->config.alpn = "x-amzn-mqtt-ca";
    tls_up_again(rig);
    assert_int_equal(broker_count(rig->broker, "alpn=x-amzn-mqtt-ca"), 1);
}

static void test_tls_second_alpn_is_taken(void **state)
{
    const char *const settings[] = {"tls=server", "alpn=mqtt", NULL};
    struct rig *rig = tls_fake(state, settings);
    rig->config.alpn = "x-amzn-mqtt-ca,mqtt";
    tls_up_again(rig);
    assert_int_equal(broker_count(rig->broker, "alpn=mqtt"), 1);
}

/* It need not mean anything, so the connection goes on; if that fails it is
   the first thing to look at. */
static void test_tls_alpn_that_is_not_agreed_to_is_told(void **state)
{
    const char *const settings[] = {"tls=server", "dropconnack=1", NULL};
    struct rig *rig = tls_fake(state, settings);
    rig->config.alpn = "x-amzn-mqtt-ca";
    rig_connect(rig);
    assert_true(broker_wait(rig->broker, "< CONNECT", 1));
    broker_tell(rig->broker, "cut");
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    assert_non_null(strstr(rig->r.lost_text, "agreed to no alpn"));
    rig_disconnect(rig, 0);
    broker_tell(rig->broker, "set dropconnack=");
    tls_up_again(rig);
}

/* ---- shared keys --------------------------------------------------------- */

#define KEY "00112233445566778899aabbccddeeff"

static struct rig *begin_psk(void **state, const char *identity)
{
    struct rig *rig =
        tls_mosquitto(state, &(struct broker_options){.psk = "gateway:" KEY});
    broker_write(rig->broker, "key", KEY "\n");
    rig->config.ca_file = NULL;
    rig->config.psk_identity = identity;
    rig->config.psk_file = tls_file(rig, "key");
    return rig;
}

static void test_tls_psk_is_up(void **state)
{
    struct rig *rig = begin_psk(state, "gateway");
    tls_up_again(rig);
    assert_int_equal(rig->r.link.server_certificate_end_s, 0);
}

static void test_tls_unknown_psk_identity_is_refused(void **state)
{
    tls_refused(begin_psk(state, "somebody"), "psk_identity", NULL);
}

static void test_tls_wrong_psk_is_refused_and_replaced(void **state)
{
    struct rig *rig = begin_psk(state, "gateway");
    broker_write(rig->broker, "key", "ffeeddccbbaa99887766554433221100");
    tls_refused(rig, "psk_file", NULL);
    broker_write(rig->broker, "key", "0011223344556677xx99aabbccddeeff");
    tls_refused(rig, "psk_file: ", rig->config.psk_file, "not hex", NULL);
    broker_write(rig->broker, "key", "00112233445566778899AABBCCDDEEFF\r\n");
    tls_up_again(rig);
}

/* A broker that shows a certificate instead proves nothing. */
static void test_tls_psk_takes_no_certificate_instead(void **state)
{
    struct rig *rig = tls_mosquitto(state, &plain);
    broker_write(rig->broker, "key", KEY);
    rig->config.ca_file = NULL;
    rig->config.psk_identity = "gateway";
    rig->config.psk_file = tls_file(rig, "key");
    tls_refused(rig, "handshake", NULL);
}

/* ---- two at once --------------------------------------------------------- */

static struct rig *second(struct rig *one)
{
    struct rig *two = rig_new(broker_start_mosquitto(NULL));
    two->config = one->config;
    two->config.client_id = "other";
    return two;
}

/* Handshakes of two handles at once: each knows its own socket. */
static void test_tls_two_links_alike_connect_at_once(void **state)
{
    const char *const filters[] = {"rig/#"};
    struct rig *one = tls_mosquitto(state, &plain);
    struct rig *two = second(one);
    broker_pause(one->broker);
    rig_connect(one);
    rig_connect(two);
    broker_resume(one->broker);
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

/* The second trusts others: each must get its own trust.  By address, since a
   name is looked up first, and which look-up is faster is open. */
static void expect_own_trust(void **state, const char *host)
{
    struct rig *one = tls_mosquitto(
        state, &(struct broker_options){
                   .tls = 1, .certificate = "server-address", .is_dual = 1});
    tls_host(one, host);
    struct rig *two = second(one);
    two->config.ca_file = tls_file(one, "other-ca.pem");
    broker_pause(one->broker);
    rig_connect(one);
    rig_connect(two);
    broker_resume(one->broker);
    assert_true(recorder_wait(&one->r, &one->r.ups, 1));
    assert_true(recorder_wait(&two->r, &two->r.losts, 1));
    assert_non_null(strstr(two->r.lost_text, "unknown CA: ca"));
    rig_disconnect(two, 0);
    rig_settle(one, "x", 0, POSTBAG_OK, 0);
    rig_free(two);
}

static void test_tls_two_links_with_other_options_connect_at_once(void **state)
{
    expect_own_trust(state, "127.0.0.1");
}

static void test_tls_two_v6_links_with_other_options_connect_at_once(
    void **state)
{
    expect_own_trust(state, "[::1]");
}

/* As the application's own client of the same broker. */
static SSL *begin_foreign_handshake(SSL_CTX *ctx, const char *name)
{
    SSL *ssl = SSL_new(ctx);
    assert_non_null(ssl);
    assert_int_equal(SSL_set_tlsext_host_name(ssl, (void *)(uintptr_t)name), 1);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    assert_int_equal(SSL_connect(ssl), -1);
    assert_int_equal(SSL_get_error(ssl, -1), SSL_ERROR_WANT_READ);
    return ssl;
}

static void expect_foreign_left_alone(
    void **state, const char *host, const char *name)
{
    struct rig *rig = tls_mosquitto(
        state, &(struct broker_options){
                   .tls = 1, .certificate = "server-address", .is_dual = 1});
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    tls_host(rig, host);
    broker_pause(rig->broker);
    rig_connect(rig);
    SSL *ssl = begin_foreign_handshake(ctx, name);
    assert_int_equal(SSL_get_verify_mode(ssl), SSL_VERIFY_NONE);
    assert_string_equal(
        SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name), name);
    broker_resume(rig->broker);
    assert_true(recorder_wait(&rig->r, &rig->r.ups, 1));
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

static void test_tls_handshake_of_others_is_left_alone(void **state)
{
    expect_foreign_left_alone(state, "127.0.0.1", "127.0.0.1");
}

static void test_tls_handshake_of_another_paho_by_v6_is_left_alone(void **state)
{
    expect_foreign_left_alone(state, "[::1]", "[::1");
}

/* ---- other mistakes ------------------------------------------------------ */

static void test_tls_port_without_tls_is_named(void **state)
{
    struct rig *rig = rig_fake(NULL);
    *state = rig;
    tls_host(rig, "localhost");
    tls_refused(rig, "does this port speak TLS?", NULL);
}

static void test_tls_port_where_nobody_listens_is_not_blamed_on_tls(
    void **state)
{
    char uri[64];
    struct rig *rig = rig_fake(NULL);
    *state = rig;
    (void)snprintf(uri, sizeof(uri), "ssl://127.0.0.1:%d", broker_free_port());
    rig->config.uri = uri;
    tls_refused(rig, "refused, or not reachable", NULL);
}

static const struct CMUnitTest tests[] = {
    TEST(test_tls_right_host_is_up),
    TEST(test_tls_wrong_host_is_refused_and_both_are_named),
    TEST(test_tls_wrong_host_text_lists_all_names),
    TEST(test_tls_server_name_is_checked_instead_of_the_host),
    TEST(test_tls_server_name_matches_a_wildcard),
    TEST(test_tls_wrong_server_name_is_refused),
    TEST(test_tls_address_in_the_certificate_is_up),
    TEST(test_tls_v6_address_in_the_certificate_is_up),
    TEST(test_tls_name_is_not_an_address_in_the_certificate),
    TEST(test_tls_server_is_asked_for_by_name),
    TEST(test_tls_server_name_is_asked_for),
    TEST(test_tls_server_name_with_a_dot_behind_it_is_the_same),
    TEST(test_tls_address_is_not_asked_for),
    TEST(test_tls_unknown_ca_is_refused_and_named),
    TEST(test_tls_system_cas_do_not_know_ours),
    TEST(test_tls_folder_of_cas_is_up),
    TEST(test_tls_replaced_ca_counts_at_the_next_connect),
    TEST(test_tls_ca_file_may_come_late),
    TEST(test_tls_missing_folder_of_cas_is_named),
    TEST(test_tls_expired_certificate_is_refused_with_its_date),
    TEST(test_tls_early_certificate_asks_for_the_clock),
    TEST(test_tls_end_of_the_servers_certificate_is_told),
    TEST(test_tls_alpn_is_asked_for),
    TEST(test_tls_second_alpn_is_taken),
    TEST(test_tls_alpn_that_is_not_agreed_to_is_told),
    TEST(test_tls_psk_is_up),
    TEST(test_tls_unknown_psk_identity_is_refused),
    TEST(test_tls_wrong_psk_is_refused_and_replaced),
    TEST(test_tls_psk_takes_no_certificate_instead),
    TEST(test_tls_two_links_alike_connect_at_once),
    TEST(test_tls_two_links_with_other_options_connect_at_once),
    TEST(test_tls_two_v6_links_with_other_options_connect_at_once),
    TEST(test_tls_handshake_of_others_is_left_alone),
    TEST(test_tls_handshake_of_another_paho_by_v6_is_left_alone),
    TEST(test_tls_port_without_tls_is_named),
    TEST(test_tls_port_where_nobody_listens_is_not_blamed_on_tls),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
