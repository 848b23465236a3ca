/* SPDX-License-Identifier: MIT */
/* Who port/paho says that we are: client certificates, keys, and how they are
   replaced without a restart. */
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "paho_test.h"
#include "tls_rig.h"

/* Then a test has failed, and its program ends. */
#define STUCK_S 20

static const struct broker_options with_certificate = {
    .tls = 1,
    .config = "require_certificate true\nuse_identity_as_username true\n",
};

static struct rig *begin(void **state, const char *cert, const char *key)
{
    struct rig *rig = tls_mosquitto(state, &with_certificate);
    rig->config.cert_file = cert != NULL ? tls_file(rig, cert) : NULL;
    rig->config.key_file = key != NULL ? tls_file(rig, key) : NULL;
    return rig;
}

/* ---- certificates -------------------------------------------------------- */

static void test_identity_certificate_is_shown(void **state)
{
    struct rig *rig = begin(state, "client.pem", "client.key");
    tls_up_again(rig);
    assert_true(broker_count(rig->broker, "u'client'") > 0);
    int64_t left_s = rig->r.link.own_certificate_end_s - time(NULL);
    assert_in_range(left_s, 47 * 3600, 48 * 3600);
}

static void test_identity_certificate_and_key_may_be_one_file(void **state)
{
    tls_up_again(begin(state, "client-both.pem", NULL));
}

static void test_identity_that_is_missing_is_asked_for(void **state)
{
    tls_refused(begin(state, NULL, NULL), "wants a client certificate",
        "cert_file", NULL);
}

static void test_identity_of_another_ca_is_refused(void **state)
{
    tls_refused(begin(state, "client-other.pem", "client.key"),
        "refused our certificate: unknown CA", NULL);
}

static void test_identity_that_expired_is_refused_with_its_date(void **state)
{
    tls_refused(begin(state, "client-expired.pem", "client.key"),
        "refused our certificate: certificate expired", "expired on 2002-01-01",
        NULL);
}

static const struct broker_options with_certificate_tls12 = {
    .tls = 1,
    .is_tls12 = 1,
    .config = "require_certificate true\nuse_identity_as_username true\n",
};

static void test_identity_missing_in_tls_1_2_is_asked_for(void **state)
{
    struct rig *rig = tls_mosquitto(state, &with_certificate_tls12);
    tls_refused(rig, "does it want a client certificate?", "cert_file", NULL);
}

static void test_identity_of_another_ca_is_refused_in_tls_1_2(void **state)
{
    struct rig *rig = tls_mosquitto(state, &with_certificate_tls12);
    rig->config.cert_file = tls_file(rig, "own.pem");
    rig->config.key_file = tls_file(rig, "client.key");
    broker_replace(rig->broker, "own.pem", "client-other.pem");
    tls_refused(rig, "refused our certificate: unknown CA", NULL);
    broker_replace(rig->broker, "own.pem", "client.pem");
    tls_up_again(rig);
}

/* ---- keys ---------------------------------------------------------------- */

static void test_identity_locked_key_is_opened(void **state)
{
    struct rig *rig = begin(state, "client.pem", "client-locked.key");
    rig->config.key_password = "open sesame";
    tls_up_again(rig);
}

static void test_identity_locked_key_needs_its_password(void **state)
{
    tls_refused(begin(state, "client.pem", "client-locked.key"),
        "key_file: ", "client-locked.key: is encrypted: it needs key_password",
        NULL);
}

static void test_identity_wrong_key_password_is_told_not_shown(void **state)
{
    struct rig *rig = begin(state, "client.pem", "client-locked.key");
    rig->config.key_password = "sesame close";
    tls_refused(rig, "client-locked.key: is not what key_password opens", NULL);
    assert_null(strstr(rig->r.lost_text, "sesame"));
}

static void test_identity_key_of_another_certificate_is_told(void **state)
{
    tls_refused(begin(state, "client.pem", "server.key"), "key_file: ",
        "server.key: is not the key of the certificate in cert_file", NULL);
}

/* ---- files --------------------------------------------------------------- */

static void test_identity_files_may_come_late(void **state)
{
    struct rig *rig = begin(state, "late.pem", "late.key");
    tls_refused(rig, "cert_file: ", "late.pem: No such file", NULL);
    broker_write(rig->broker, "late.pem", "");
    tls_refused(rig, "cert_file: ", "late.pem: is empty", NULL);
    broker_write(rig->broker, "late.pem", "nothing\n");
    tls_refused(rig, "cert_file: ", "late.pem: begins with no certif", NULL);
    broker_replace(rig->broker, "late.pem", "client.pem");
    tls_refused(rig, "key_file: ", "late.key: No such file", NULL);
    broker_write(rig->broker, "late.key", "nothing\n");
    tls_refused(rig, "key_file: ", "late.key: holds no private key", NULL);
    broker_replace(rig->broker, "late.key", "client.key");
    tls_up_again(rig);
}

static void test_identity_damaged_chain_is_told(void **state)
{
    struct rig *rig = begin(state, "chain.pem", "client.key");
    broker_replace(rig->broker, "chain.pem", "client.pem");
    tls_up_again(rig);
    broker_replace(rig->broker, "chain.pem", "client-chain.pem");
    tls_refused(rig, "cert_file: ", "chain.pem: a certificate of the", NULL);
}

static void test_identity_folder_in_place_of_a_file_is_told(void **state)
{
    tls_refused(begin(state, "cas", "client.key"),
        "cert_file: ", "cas: is not a file", NULL);
}

/* Whoever opens a FIFO as a file waits for ever; the engine would. */
static void test_identity_fifo_in_place_of_a_file_is_told(void **state)
{
    struct rig *rig = begin(state, "client.pem", "fifo");
    assert_int_equal(mkfifo(rig->config.key_file, 0600), 0);
    (void)alarm(STUCK_S);
    tls_refused(rig, "key_file: ", "fifo: is not a file", NULL);
    (void)alarm(0);
}

static void test_identity_fifo_in_place_of_the_cas_is_told(void **state)
{
    struct rig *rig = begin(state, NULL, NULL);
    rig->config.ca_file = tls_file(rig, "fifo");
    assert_int_equal(mkfifo(rig->config.ca_file, 0600), 0);
    (void)alarm(STUCK_S);
    tls_refused(rig, "ca_file: ", "fifo: is not a file", NULL);
    (void)alarm(0);
}

static void test_identity_device_in_place_of_the_cas_is_told(void **state)
{
    struct rig *rig = begin(state, NULL, NULL);
    rig->config.ca_file = "/dev/zero";
    tls_refused(rig, "ca_file: /dev/zero: is not a file", NULL);
}

/* Certificate, key and CA are replaced while the transport lives. */
static void test_identity_is_replaced_without_a_restart(void **state)
{
    struct rig *rig = begin(state, "own.pem", "own.key");
    broker_replace(rig->broker, "own.pem", "client-expired.pem");
    broker_replace(rig->broker, "own.key", "client.key");
    tls_refused(rig, "certificate expired", NULL);
    broker_replace(rig->broker, "own.pem", "client.pem");
    broker_replace(rig->broker, "own.key", "client-both.pem");
    tls_up_again(rig);
}

static const struct CMUnitTest tests[] = {
    TEST(test_identity_certificate_is_shown),
    TEST(test_identity_certificate_and_key_may_be_one_file),
    TEST(test_identity_that_is_missing_is_asked_for),
    TEST(test_identity_of_another_ca_is_refused),
    TEST(test_identity_that_expired_is_refused_with_its_date),
    TEST(test_identity_missing_in_tls_1_2_is_asked_for),
    TEST(test_identity_of_another_ca_is_refused_in_tls_1_2),
    TEST(test_identity_locked_key_is_opened),
    TEST(test_identity_locked_key_needs_its_password),
    TEST(test_identity_wrong_key_password_is_told_not_shown),
    TEST(test_identity_key_of_another_certificate_is_told),
    TEST(test_identity_files_may_come_late),
    TEST(test_identity_damaged_chain_is_told),
    TEST(test_identity_folder_in_place_of_a_file_is_told),
    TEST(test_identity_fifo_in_place_of_a_file_is_told),
    TEST(test_identity_fifo_in_place_of_the_cas_is_told),
    TEST(test_identity_device_in_place_of_the_cas_is_told),
    TEST(test_identity_is_replaced_without_a_restart),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
