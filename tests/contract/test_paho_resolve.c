/* SPDX-License-Identifier: MIT */
/* Names, addresses and several servers: a resolver that the test commands. */
#include <netdb.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_resolver.h"
#include "paho_rig.h"
#include "resources.h"

static const char *const loopback[] = {"127.0.0.1", NULL};

/* "broker.test" is where the scripted broker listens. */
static int set_up(void **state)
{
    static char uri[64];
    struct rig *rig = rig_fake(NULL);
    (void)snprintf(
        uri, sizeof(uri), "tcp://broker.test:%d", broker_port(rig->broker));
    rig->config.uri = uri;
    resolver_answer_with(loopback);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    resolver_release();
    rig_free(*state);
    return 0;
}

static void destroy_transport(struct rig *rig)
{
    rig->transport->ops->destroy(rig->transport);
    rig->transport = NULL;
}

static void expect_in_text(const struct rig *rig, const char *text)
{
    if (strstr(rig->r.lost_text, text) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", text, rig->r.lost_text);
}

/* Begins to connect; the look-up hangs. */
static void connect_and_hang(struct rig *rig)
{
    resolver_hang();
    rig_connect(rig);
    assert_true(resolver_wait_calls(1));
}

static void release_and_wait(unsigned threads)
{
    resolver_release();
    assert_true(resources_wait_threads(threads));
}

/* ---- names --------------------------------------------------------------- */

static void test_paho_name_is_found_and_up(void **state)
{
    struct rig *rig = *state;
    rig_up(rig);
    rig_settle(rig, "x", 0, POSTBAG_OK, 0);
    assert_int_equal(resolver_calls(), 1);
    assert_true(resolver_was_shielded());
}

static void test_paho_name_is_looked_up_for_each_attempt(void **state)
{
    struct rig *rig = *state;
    rig_up(rig);
    rig_disconnect(rig, 0);
    rig_up(rig);
    assert_int_equal(resolver_calls(), 2);
}

static void test_paho_name_not_found_is_lost(void **state)
{
    struct rig *rig = *state;
    resolver_fail_with(EAI_NONAME);
    rig_lost(rig);
    assert_int_equal(rig->r.lost_err, POSTBAG_ELINK);
    assert_int_equal(rig->r.lost_generation, rig->connect.generation);
    expect_in_text(rig, "no connection: broker.test: ");
    expect_in_text(rig, gai_strerror(EAI_NONAME));
    rig_disconnect(rig, 0);
    resolver_answer_with(loopback);
    rig_up(rig);
}

static void test_paho_name_without_usable_address_is_lost(void **state)
{
    static const char *const link_local[] = {"fe80::1%1", NULL};
    struct rig *rig = *state;
    resolver_answer_with(link_local);
    rig_lost(rig);
    expect_in_text(rig, "broker.test: has no address");
}

static void test_paho_address_is_not_looked_up(void **state)
{
    struct rig *rig = *state;
    rig->config.uri = broker_uri(rig->broker);
    rig_up(rig);
    assert_int_equal(resolver_calls(), 0);
}

/* ---- a resolver that hangs ----------------------------------------------- */

static void test_paho_hanging_name_holds_up_nobody_else(void **state)
{
    struct rig *rig = *state;
    struct rig *other = rig_fake(NULL);
    connect_and_hang(rig);
    rig_up(other);
    rig_settle(other, "x", 0, POSTBAG_OK, 0);
    rig_disconnect(other, 0);
    assert_int_equal(resolver_inside(), 1);
    rig_free(other);
    resolver_release();
    assert_true(recorder_wait(&rig->r, &rig->r.ups, 1));
}

static void test_paho_hanging_name_send_and_subscribe_refuse(void **state)
{
    const char *const filters[] = {"a"};
    struct rig *rig = *state;
    connect_and_hang(rig);
    assert_int_equal(rig_send(rig, "x", 0), POSTBAG_ELINK);
    assert_int_equal(rig->transport->ops->subscribe(rig->transport, filters, 1),
        POSTBAG_ESTATE);
    struct postbag_connect c = {.generation = 9};
    assert_int_equal(
        rig->transport->ops->connect(rig->transport, &c, &rig->r.events),
        POSTBAG_ESTATE);
}

static void test_paho_hanging_name_late_answer_does_nothing(void **state)
{
    struct rig *rig = *state;
    unsigned threads = resources_threads();
    connect_and_hang(rig);
    rig_disconnect(rig, 0);
    assert_int_equal(resolver_inside(), 1); /* it did not wait for it */
    release_and_wait(threads);
    assert_int_equal(rig->r.late, 0);
    assert_int_equal(rig->r.ups + rig->r.losts, 0);
    assert_int_equal(broker_count(rig->broker, " accepted"), 0);
    rig_up(rig);
}

static void test_paho_hanging_name_outlives_the_transport(void **state)
{
    struct rig *rig = *state;
    unsigned threads = resources_threads();
    connect_and_hang(rig);
    rig_disconnect(rig, 0);
    destroy_transport(rig);
    assert_int_equal(resolver_inside(), 1);
    release_and_wait(threads);
    assert_int_equal(rig->r.late, 0);
}

static void test_paho_hanging_name_serves_the_next_attempt(void **state)
{
    struct rig *rig = *state;
    connect_and_hang(rig);
    for (int i = 0; i < 3; i++) {
        rig_disconnect(rig, 0);
        rig_connect(rig);
    }
    assert_int_equal(resolver_inside(), 1);
    resolver_release();
    assert_true(recorder_wait(&rig->r, &rig->r.ups, 1));
    assert_int_equal(rig->r.up_generation, rig->connect.generation);
    assert_int_equal(resolver_calls(), 1);
}

static void test_paho_hanging_name_another_name_is_lost(void **state)
{
    struct rig *rig = *state;
    rig->config.uri = "tcp://broker.test, tcp://spare.test";
    connect_and_hang(rig);
    rig_disconnect(rig, 0);
    rig->connect.server = 1;
    rig_lost(rig);
    assert_int_equal(rig->r.lost_err, POSTBAG_ELINK);
    expect_in_text(rig, "spare.test: the resolver");
    expect_in_text(rig, "about broker.test");
    assert_int_equal(resolver_calls(), 1);
}

static void test_paho_hanging_name_an_address_is_up(void **state)
{
    char uris[160];
    struct rig *rig = *state;
    (void)snprintf(
        uris, sizeof(uris), "%s,%s", rig->config.uri, broker_uri(rig->broker));
    rig->config.uri = uris;
    connect_and_hang(rig);
    rig_disconnect(rig, 0);
    rig->connect.server = 1;
    rig_up(rig);
    assert_int_equal(rig->r.link.server, 1);
    assert_int_equal(resolver_inside(), 1);
}

/* The answer comes before, within or after disconnect. */
static void test_paho_answer_and_disconnect_may_meet(void **state)
{
    struct rig *rig = *state;
    unsigned threads = resources_threads();
    for (int i = 0; i < 30; i++) {
        resolver_answer_with(loopback);
        connect_and_hang(rig);
        resolver_release();
        (void)poll(NULL, 0, i % 3); /* so that each of the three is met */
        rig_disconnect(rig, i % 2 == 0);
        assert_true(resources_wait_threads(threads));
    }
    assert_int_equal(rig->r.late, 0);
    assert_int_equal(rig->r.losts, 0);
}

/* ---- addresses ----------------------------------------------------------- */

/* Nobody listens on 127.0.0.9. */
static void test_paho_next_address_after_one_that_refuses(void **state)
{
    static const char *const two[] = {"127.0.0.9", "127.0.0.1", NULL};
    struct rig *rig = *state;
    resolver_answer_with(two);
    rig_lost(rig);
    expect_in_text(rig, "no connection: broker.test (127.0.0.9:");
    rig_disconnect(rig, 0);
    rig_up(rig);
}

static void test_paho_good_address_is_kept_until_it_fails(void **state)
{
    static const char *const two[] = {"127.0.0.9", "127.0.0.1", NULL};
    struct rig *rig = *state;
    resolver_answer_with(two);
    rig_lost(rig);
    for (int i = 0; i < 3; i++) {
        rig_disconnect(rig, 0);
        rig_up(rig);
    }
    broker_kill(rig->broker);
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 2));
    rig_disconnect(rig, 0);
    rig_lost(rig);
    expect_in_text(rig, "(127.0.0.1:");
    rig_disconnect(rig, 0);
    rig_lost(rig);
    expect_in_text(rig, "(127.0.0.9:");
    rig_disconnect(rig, 0);
    broker_restart(rig->broker);
    rig_up(rig);
}

static void test_paho_ipv6_is_reached_by_address_and_name(void **state)
{
    static const char *const six[] = {"::1", NULL};
    char more[64];
    static char uris[120];
    int port = resources_free_port6();
    if (port == 0) {
        print_message("this machine has no ::1\n");
        skip();
    }
    (void)snprintf(more, sizeof(more), "listener %d ::1\n", port);
    (void)snprintf(
        uris, sizeof(uris), "tcp://[::1]:%d,tcp://broker.test:%d", port, port);
    struct broker_options options = {.config = more};
    rig_free(*state);
    struct rig *rig = *state = rig_new(broker_start_mosquitto(&options));
    resolver_answer_with(six);
    rig->config.uri = uris;
    for (uint32_t i = 0; i < 2; i++) {
        rig->connect.server = i;
        rig_up(rig);
        rig_settle(rig, "x", i, POSTBAG_OK, 0);
        rig_disconnect(rig, 0);
    }
}

/* ---- servers ------------------------------------------------------------- */

static void test_paho_servers_are_taken_modulo_their_number(void **state)
{
    static const uint32_t servers[] = {0, 1, 2, 3, UINT32_MAX};
    char uris[160];
    size_t seen[2] = {0, 0};
    struct rig *rig = *state;
    struct rig *other = rig_fake(NULL);
    struct broker *brokers[2] = {rig->broker, other->broker};
    (void)snprintf(uris, sizeof(uris), " %s ,%s\t", rig->config.uri,
        broker_uri(other->broker));
    rig->config.uri = uris;
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
        unsigned server = servers[i] % 2;
        rig->config.mqtt_version = 4 + (uint32_t)(i % 2);
        rig->connect.server = servers[i];
        rig_up(rig);
        assert_int_equal(rig->r.link.server, server);
        assert_true(broker_wait(brokers[server], " < CONNECT", ++seen[server]));
        rig_disconnect(rig, 0);
        destroy_transport(rig); /* the other version next time */
    }
    rig_free(other);
}

static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    TEST(test_paho_name_is_found_and_up),
    TEST(test_paho_name_is_looked_up_for_each_attempt),
    TEST(test_paho_name_not_found_is_lost),
    TEST(test_paho_name_without_usable_address_is_lost),
    TEST(test_paho_address_is_not_looked_up),
    TEST(test_paho_hanging_name_holds_up_nobody_else),
    TEST(test_paho_hanging_name_send_and_subscribe_refuse),
    TEST(test_paho_hanging_name_late_answer_does_nothing),
    TEST(test_paho_hanging_name_outlives_the_transport),
    TEST(test_paho_hanging_name_serves_the_next_attempt),
    TEST(test_paho_hanging_name_another_name_is_lost),
    TEST(test_paho_hanging_name_an_address_is_up),
    TEST(test_paho_answer_and_disconnect_may_meet),
    TEST(test_paho_next_address_after_one_that_refuses),
    TEST(test_paho_good_address_is_kept_until_it_fails),
    TEST(test_paho_ipv6_is_reached_by_address_and_name),
    TEST(test_paho_servers_are_taken_modulo_their_number),
};

int main(void)
{
    resources_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
