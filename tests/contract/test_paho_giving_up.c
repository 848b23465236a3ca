/* SPDX-License-Identifier: MIT */
/*
 * The watchdog of a connection attempt is the engine's: it calls disconnect.
 * So disconnect returns soon in whatever an attempt is waiting for, and leaves
 * nothing behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fake_resolver.h"
#include "paho_rig.h"
#include "resources.h"

/* Paho's threads look up once a second. */
#define SOON_MS 3000
#define ROUNDS 3

struct attempt {
    struct silence silence;
    struct postbag_transport *transport;
    struct recorder r;
    unsigned threads;
    unsigned descriptors;
};

static int set_up(void **state)
{
    struct attempt *a = calloc(1, sizeof(*a));
    if (a == NULL)
        return -1;
    silence_open(&a->silence);
    recorder_init(&a->r);
    *state = a;
    return 0;
}

static int tear_down(void **state)
{
    struct attempt *a = *state;
    resolver_release();
    silence_close(&a->silence);
    recorder_destroy(&a->r);
    free(a);
    return 0;
}

static void make(struct attempt *a, const char *scheme_and_host)
{
    char uri[64];
    struct postbag_fault why = {0};
    struct postbag_paho_config c = {
        .struct_size = sizeof(c), .uri = uri, .client_id = "patient"};
    (void)snprintf(uri, sizeof(uri), "%s:%d", scheme_and_host, a->silence.port);
    if (postbag_paho_new(&a->transport, &c, &why) != POSTBAG_OK)
        fail_msg("%s", why.text);
    a->threads = resources_threads();
    a->descriptors = resources_descriptors();
}

static void connect_once(struct attempt *a)
{
    struct postbag_connect c = {.generation = 1, .timeout_ms = 60000};
    recorder_open(&a->r);
    assert_int_equal(
        a->transport->ops->connect(a->transport, &c, &a->r.events), POSTBAG_OK);
}

static int64_t disconnect(struct attempt *a, unsigned abort)
{
    int64_t begin = resources_now_ms();
    a->transport->ops->disconnect(a->transport, abort);
    recorder_close(&a->r);
    return resources_now_ms() - begin;
}

static void wait_socket(struct attempt *a)
{
    assert_true(resources_wait_descriptors(a->descriptors + 1));
}

static void wait_first_bytes(struct attempt *a)
{
    silence_wait_bytes(&a->silence);
}

static void wait_look_up(struct attempt *a)
{
    (void)a;
    assert_true(resolver_wait_calls(1));
}

/* reached: waits until the attempt is in the phase that is tested. */
static void give_up(struct attempt *a, void (*reached)(struct attempt *))
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        connect_once(a);
        reached(a);
        int64_t took = disconnect(a, i % 2);
        print_message("given up within %lld ms\n", (long long)took);
        assert_true(took < SOON_MS);
        assert_int_equal(a->r.ups + a->r.losts + a->r.late, 0);
        silence_hang_up(&a->silence);
        assert_int_equal(resources_descriptors(), a->descriptors);
    }
    resolver_release();
    assert_true(resources_wait_threads(a->threads));
    a->transport->ops->destroy(a->transport);
    assert_int_equal(a->r.late, 0);
}

static void test_paho_give_up_while_a_name_is_looked_up(void **state)
{
    static const char *const loopback[] = {"127.0.0.1", NULL};
    struct attempt *a = *state;
    resolver_answer_with(loopback);
    resolver_hang();
    make(a, "tcp://broker.test");
    give_up(a, wait_look_up);
}

static void test_paho_give_up_while_tcp_connects(void **state)
{
    struct attempt *a = *state;
    silence_deepen(&a->silence);
    make(a, "tcp://127.0.0.1");
    give_up(a, wait_socket);
}

static void test_paho_give_up_while_connack_is_awaited(void **state)
{
    struct attempt *a = *state;
    make(a, "tcp://127.0.0.1");
    give_up(a, wait_first_bytes);
}

#ifdef POSTBAG_WITH_TLS
static void test_paho_give_up_within_the_handshake(void **state)
{
    struct attempt *a = *state;
    make(a, "ssl://127.0.0.1");
    give_up(a, wait_first_bytes);
}
#endif

static const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    TEST(test_paho_give_up_while_a_name_is_looked_up),
    TEST(test_paho_give_up_while_tcp_connects),
    TEST(test_paho_give_up_while_connack_is_awaited),
#ifdef POSTBAG_WITH_TLS
    TEST(test_paho_give_up_within_the_handshake),
#endif
};

int main(void)
{
    resources_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
