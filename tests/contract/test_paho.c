/* SPDX-License-Identifier: MIT */
/* Paho against the scripted broker: what brokers answer, and how links end. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "paho_rig.h"

/* ---- PUBACK -------------------------------------------------------------- */

static void test_paho_puback_reason_surfaces(void **state)
{
    static const struct {
        const char *payload;
        int reason;
    } cases[] = {
        {"rc=0x80", 0x80},
        {"rc=0x87", 0x87},
        {"rc=0x95", 0x95},
        {"rc=0x97", 0x97},
        {"rc=0x99", 0x99},
    };
    struct rig *rig = *state;
    rig_up(rig);
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        rig_settle(rig, cases[i].payload, i, POSTBAG_EREFUSED, cases[i].reason);
    assert_int_equal(rig->r.losts, 0);
}

static void test_paho_puback_no_subscribers_is_success(void **state)
{
    struct rig *rig = *state;
    rig_up(rig);
    rig_settle(rig, "rc=0x10", 0, POSTBAG_OK, 0);
}

static void test_paho_puback_late_settles_late(void **state)
{
    struct rig *rig = rig_again(state, "hold=1");
    rig_up(rig);
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(rig_send(rig, "x", i), POSTBAG_OK);
    assert_true(broker_wait(rig->broker, " < PUBLISH", 50));
    assert_int_equal(recorder_settled_once(&rig->r, 50, POSTBAG_OK), 0);
    broker_tell(rig->broker, "set hold=");
    assert_true(recorder_wait(&rig->r, &rig->r.settled, 50));
    assert_int_equal(recorder_settled_once(&rig->r, 50, POSTBAG_OK), 50);
}

static void test_paho_slots_all_taken_is_eagain(void **state)
{
    struct rig *rig = rig_again(state, "hold=1");
    rig_up(rig);
    const uint32_t sent = 1024;
    for (uint32_t i = 0; i < sent; i++)
        assert_int_equal(rig_send(rig, "x", i), POSTBAG_OK);
    /* all of them left Paho's own queue, whose bound is no larger */
    assert_true(broker_wait(rig->broker, " < PUBLISH", sent));
    assert_int_equal(rig_send(rig, "x", sent), POSTBAG_EAGAIN);
    broker_tell(rig->broker, "set hold=");
    assert_true(recorder_wait(&rig->r, &rig->r.settled, sent));
    assert_int_equal(recorder_settled_once(&rig->r, sent, POSTBAG_OK), sent);
    assert_int_equal(rig_send(rig, "x", sent), POSTBAG_OK);
    assert_true(recorder_wait(&rig->r, &rig->r.settled, sent + 1));
}

/* ---- CONNACK ------------------------------------------------------------- */

static void test_paho_connack_refused_is_lost_with_reason(void **state)
{
    struct rig *rig = rig_again(state, "refuse=0x87");
    rig_lost(rig);
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.ups, 0);
    assert_int_equal(rig->r.losts, 1);
    assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
    assert_int_equal(rig->r.lost_reason, 0x87);
    assert_non_null(strstr(rig->r.lost_text, "0x87"));
}

static void test_paho_connack_wrong_version_names_the_option(void **state)
{
    struct rig *rig = rig_again(state, "refuse=0x84");
    rig_lost(rig);
    assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
    assert_int_equal(rig->r.lost_reason, 0x84);
    assert_non_null(strstr(rig->r.lost_text, "mqtt_version"));
}

static void test_paho_connack_v3_refused_is_lost_with_code(void **state)
{
    struct rig *rig = rig_again(state, "refuse=5");
    rig->config.mqtt_version = 4;
    rig_lost(rig);
    assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
    assert_int_equal(rig->r.lost_reason, 5);
    assert_null(strstr(rig->r.lost_text, "mqtt_version"));
}

static void test_paho_connack_limits_are_in_the_link(void **state)
{
    const char *const settings[] = {
        "recvmax=7", "maxpacket=4294967295", "keepalive=65535", NULL};
    rig_free(*state);
    struct rig *rig = *state = rig_fake(settings);
    rig_up(rig);
    assert_int_equal(rig->r.link.mqtt_version, 5);
    assert_int_equal(rig->r.link.receive_max, 7);
    assert_int_equal(rig->r.link.max_packet, 4294967295u);
    assert_int_equal(rig->r.link.keepalive_s, 65535);
}

static void test_paho_connack_without_limits_leaves_zero(void **state)
{
    struct rig *rig = *state;
    rig_up(rig);
    assert_int_equal(rig->r.link.receive_max, 0);
    assert_int_equal(rig->r.link.max_packet, 0);
    assert_int_equal(rig->r.link.keepalive_s, 0);
}

static void test_paho_connack_qos0_only_is_refused(void **state)
{
    struct rig *rig = rig_again(state, "maxqos=0");
    rig_lost(rig);
    assert_int_equal(rig->r.ups, 0);
    assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
}

/* Packet: 1 + 1 + 2 + 7 (topic) + 2 + 1 (no properties) + payload. */
static void test_paho_send_over_maximum_packet_size_is_einval(void **state)
{
    struct rig *rig = rig_again(state, "maxpacket=30");
    rig_up(rig);
    rig_settle(rig, "0123456789abcdef", 0, POSTBAG_OK, 0);
    assert_int_equal(rig_send(rig, "0123456789abcdefg", 1), POSTBAG_EINVAL);
    assert_int_equal(rig->r.settled, 1);
}

static void test_paho_send_retained_where_refused_is_einval(void **state)
{
    struct rig *rig = rig_again(state, "retain=0");
    struct postbag_frame f = {.topic = "rig/out", .retain = 1};
    rig_up(rig);
    assert_int_equal(
        rig->transport->ops->send(rig->transport, &f, 0), POSTBAG_EINVAL);
}

static void test_paho_server_keep_alive_is_used_next_time(void **state)
{
    struct rig *rig = rig_again(state, "keepalive=20");
    rig_lost(rig);
    assert_int_equal(rig->r.ups, 0);
    assert_int_equal(rig->r.lost_err, POSTBAG_EAGAIN);
    assert_non_null(strstr(rig->r.lost_text, "keep alive"));
    rig_disconnect(rig, 0);
    rig_up(rig);
    assert_true(broker_wait(rig->broker, "keepalive=60", 1));
    assert_true(broker_wait(rig->broker, "keepalive=20", 1));
    assert_int_equal(rig->r.link.keepalive_s, 20);
}

/* A connection that is given up at its CONNACK, with a message behind it. */
static void test_paho_given_up_connection_hands_nothing_up(void **state)
{
    struct rig *rig = *state;
    rig->connect.session_expiry_s = 60;
    rig_up(rig);
    rig_disconnect(rig, 0);
    broker_tell(rig->broker, "publish rig/in on");
    broker_tell(rig->broker, "set keepalive=20");
    rig_lost(rig);
    assert_true(broker_wait(rig->broker, " > PUBLISH", 1));
    assert_true(broker_wait(rig->broker, " closed", 2));
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.arrivals, 0);
    assert_int_equal(broker_count(rig->broker, " < PUBACK"), 0);
    rig_up(rig);
    assert_true(recorder_wait(&rig->r, &rig->r.arrivals, 1));
    assert_true(broker_wait(rig->broker, " < PUBACK", 1));
}

/* A broker of MQTT 3.1.1 alone answers in its own form. */
static void test_paho_connack_of_old_broker_names_the_option(void **state)
{
    struct rig *rig = rig_again(state, "v3only=1");
    rig_lost(rig);
    assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
    assert_int_equal(rig->r.lost_reason, 1);
    assert_non_null(strstr(rig->r.lost_text, "mqtt_version"));
    rig_disconnect(rig, 0);
    rig->transport->ops->destroy(rig->transport);
    rig->transport = NULL;
    rig->config.mqtt_version = 4;
    rig_up(rig);
}

/* ---- CONNECT ------------------------------------------------------------- */

static void test_paho_connect_says_what_it_was_told(void **state)
{
    struct rig *rig = *state;
    rig->config.username = "me";
    rig->config.keepalive_s = 33;
    rig->connect.session_expiry_s = 604800;
    rig->connect.receive_max = 12;
    rig->connect.max_packet = 70000;
    rig_up(rig);
    assert_int_equal(broker_count(rig->broker,
                         "CONNECT version=5 clean=0 keepalive=33 client=rig "
                         "user=me expiry=604800 recvmax=12 maxpacket=70000"),
        1);
}

static void test_paho_connect_for_ever_is_clamped(void **state)
{
    struct rig *rig = *state;
    rig->connect.session_expiry_s = UINT32_MAX;
    rig->connect.receive_max = UINT32_MAX;
    rig->connect.max_packet = UINT32_MAX;
    rig_up(rig);
    assert_int_equal(
        broker_count(rig->broker, "expiry=2147483647 recvmax=65535 "
                                  "maxpacket=2147483647"),
        1);
}

static void test_paho_connect_keeping_nothing_is_clean(void **state)
{
    struct rig *rig = *state;
    rig_up(rig);
    assert_int_equal(broker_count(rig->broker,
                         "clean=1 keepalive=60 client=rig user= expiry=None "
                         "recvmax=None maxpacket=None"),
        1);
}

static void test_paho_connect_v3_is_clean_only_if_nothing_is_kept(void **state)
{
    struct rig *rig = *state;
    rig->config.mqtt_version = 4;
    rig_up(rig);
    assert_int_equal(broker_count(rig->broker, "version=4 clean=1"), 1);
    rig_disconnect(rig, 0);
    rig->connect.session_expiry_s = 60;
    rig_up(rig);
    assert_int_equal(broker_count(rig->broker, "version=4 clean=0"), 1);
}

static void set_will(struct rig *rig)
{
    rig->config.will_topic = "gw/gone";
    rig->config.will_payload = "gateway 1";
    rig->config.will_retain = 1;
}

static void test_paho_connect_carries_the_will(void **state)
{
    struct rig *rig = *state;
    set_will(rig);
    rig->config.will_delay_s = 90;
    rig->connect.session_expiry_s = 600;
    rig_up(rig);
    assert_int_equal(broker_count(rig->broker, "expiry=600 "), 1);
    assert_int_equal(
        broker_count(rig->broker, "will=gw/gone:gateway 1:1:1:90"), 1);
}

static void test_paho_connect_v3_carries_the_will(void **state)
{
    struct rig *rig = *state;
    set_will(rig);
    rig->config.mqtt_version = 4;
    rig_up(rig);
    assert_int_equal(
        broker_count(rig->broker, "will=gw/gone:gateway 1:1:1:None"), 1);
}

/* Else the broker would send the will when it forgets the session. */
static void test_paho_connect_keeps_the_session_for_the_will(void **state)
{
    struct rig *rig = *state;
    set_will(rig);
    rig->config.will_delay_s = 90;
    rig_up(rig);
    assert_int_equal(broker_count(rig->broker, "clean=1"), 1);
    assert_int_equal(broker_count(rig->broker, "expiry=90 "), 1);
}

static void test_paho_assigned_id_is_used_from_then_on(void **state)
{
    struct rig *rig = rig_again(state, "assignedid=gw-17");
    rig->config.client_id = NULL;
    rig_up(rig);
    assert_int_equal(broker_count(rig->broker, "client= "), 1);
    rig_disconnect(rig, 0);
    broker_tell(rig->broker, "set assignedid=");
    rig_up(rig);
    rig_disconnect(rig, 1);
    rig_up(rig);
    assert_int_equal(broker_count(rig->broker, "client=gw-17 "), 2);
}

static void test_paho_assigned_id_does_not_replace_ours(void **state)
{
    struct rig *rig = rig_again(state, "assignedid=gw-17");
    rig_up(rig);
    rig_disconnect(rig, 0);
    rig_up(rig);
    assert_int_equal(broker_count(rig->broker, "client=rig "), 2);
}

/* ---- DISCONNECT ---------------------------------------------------------- */

static void test_paho_server_disconnect_is_lost(void **state)
{
    struct rig *rig = rig_again(state, "discafter=3:0x8b");
    rig->connect.session_expiry_s = 60;
    rig_up(rig);
    for (uint32_t i = 0; i < 3; i++)
        (void)rig_send(rig, "x", i);
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.losts, 1);
    assert_int_equal(rig->r.lost_err, POSTBAG_EREFUSED);
    assert_int_equal(rig->r.lost_reason, 0x8b);
    assert_int_equal(rig->r.settled, 3);
}

static void test_paho_server_disconnect_says_its_words(void **state)
{
    const char *const settings[] = {
        "discafter=1:0x8b", "words=back\tat\x1b[7mnoon", NULL};
    rig_free(*state);
    struct rig *rig = *state = rig_fake(settings);
    rig_up(rig);
    (void)rig_send(rig, "x", 0);
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    assert_non_null(strstr(rig->r.lost_text, "; back?at?[7mnoon"));
}

/* ---- several ------------------------------------------------------------- */

/* Both have the same client id: the sockets are told apart all the same. */
static void test_paho_two_handles_end_their_own_socket(void **state)
{
    struct rig *one = *state;
    struct rig *two = rig_fake(NULL);
    one->connect.session_expiry_s = 60;
    rig_connect(one);
    rig_connect(two);
    assert_true(recorder_wait(&one->r, &one->r.ups, 1));
    assert_true(recorder_wait(&two->r, &two->r.ups, 1));
    recorder_answer(&one->r, POSTBAG_EIO);
    broker_tell(one->broker, "publish rig/in on");
    assert_true(recorder_wait(&one->r, &one->r.losts, 1));
    assert_true(broker_wait(one->broker, " closed", 1));
    assert_int_equal(broker_count(one->broker, " < PUBACK"), 0);
    rig_settle(two, "x", 0, POSTBAG_OK, 0);
    assert_int_equal(two->r.losts, 0);
    rig_free(two);
}

/* ---- the socket ---------------------------------------------------------- */

/* Is it of a connection to this port of the loopback? */
static int is_socket_to(int fd, int port)
{
    struct sockaddr_in peer = {0};
    socklen_t len = sizeof(peer);

    return getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
           peer.sin_family == AF_INET && ntohs(peer.sin_port) == port;
}

/* Such a descriptor, or -1. */
static int find_socket(int port)
{
    for (int fd = 3; fd < 256; fd++)
        if (is_socket_to(fd, port))
            return fd;
    return -1;
}

static unsigned option(int fd, int level, int name)
{
    unsigned value = 0;
    socklen_t len = sizeof(value);
    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void test_paho_socket_notices_a_dead_peer_and_does_not_wait(void **state)
{
    struct rig *rig = *state;
    rig_up(rig);
    int fd = find_socket(broker_port(rig->broker));
    assert_true(fd >= 0);
    assert_int_not_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    assert_int_not_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 30000);
}

static void test_paho_socket_is_closed_in_a_program_we_start(void **state)
{
    struct rig *rig = *state;
    int seen = 0;

    rig_up(rig);
    /* Paho's, and our duplicate */
    for (int fd = 3; fd < 256; fd++) {
        if (!is_socket_to(fd, broker_port(rig->broker)))
            continue;
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        seen++;
    }
    assert_int_equal(seen, 2);
}

static const struct CMUnitTest tests[] = {
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
    TEST(test_paho_puback_reason_surfaces),
    TEST(test_paho_puback_no_subscribers_is_success),
    TEST(test_paho_puback_late_settles_late),
    TEST(test_paho_slots_all_taken_is_eagain),
    TEST(test_paho_connack_refused_is_lost_with_reason),
    TEST(test_paho_connack_wrong_version_names_the_option),
    TEST(test_paho_connack_of_old_broker_names_the_option),
    TEST(test_paho_connack_v3_refused_is_lost_with_code),
    TEST(test_paho_connack_limits_are_in_the_link),
    TEST(test_paho_connack_without_limits_leaves_zero),
    TEST(test_paho_connack_qos0_only_is_refused),
    TEST(test_paho_send_over_maximum_packet_size_is_einval),
    TEST(test_paho_send_retained_where_refused_is_einval),
    TEST(test_paho_server_keep_alive_is_used_next_time),
    TEST(test_paho_given_up_connection_hands_nothing_up),
    TEST(test_paho_connect_says_what_it_was_told),
    TEST(test_paho_connect_for_ever_is_clamped),
    TEST(test_paho_connect_keeping_nothing_is_clean),
    TEST(test_paho_connect_v3_is_clean_only_if_nothing_is_kept),
    TEST(test_paho_connect_carries_the_will),
    TEST(test_paho_connect_v3_carries_the_will),
    TEST(test_paho_connect_keeps_the_session_for_the_will),
    TEST(test_paho_assigned_id_is_used_from_then_on),
    TEST(test_paho_assigned_id_does_not_replace_ours),
    TEST(test_paho_server_disconnect_is_lost),
    TEST(test_paho_server_disconnect_says_its_words),
    TEST(test_paho_two_handles_end_their_own_socket),
    TEST(test_paho_socket_notices_a_dead_peer_and_does_not_wait),
    TEST(test_paho_socket_is_closed_in_a_program_we_start),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
