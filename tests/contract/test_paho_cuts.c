/* SPDX-License-Identifier: MIT */
/*
 * Links that die at any moment.  The engine sends as fast as it can, the
 * broker resets the connection at some PUBLISH, and each accepted send must
 * settle exactly once, every time.  SIGPIPE has its default action here: a
 * write to a dead link must not end the program.
 *
 *     test_paho_cuts [cycles]
 */
#include <linux/net_tstamp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "paho_test.h"

#define BURST 100

static int cycles = 15;

/* Paho has SIGPIPE ignored; an application may have other plans.  A write to a
   dead socket would end this test. */
static void up(struct rig *rig)
{
    rig_up(rig);
    (void)signal(SIGPIPE, SIG_DFL);
}

static struct rig *begin(void **state)
{
    struct rig *rig = rig_fake(NULL);
    *state = rig;
    return rig;
}

static void forget_outcomes(struct rig *rig)
{
    rig->r.settled = 0;
    memset(rig->r.outcomes, 0, sizeof(rig->r.outcomes));
}

static uint32_t send_burst(struct rig *rig)
{
    uint32_t sent = 0;
    while (sent < BURST && rig_send(rig, "some payload", sent) == POSTBAG_OK)
        sent++;
    return sent;
}

static void expect_settled(struct rig *rig, uint32_t sent, uint32_t acked_max)
{
    uint32_t acked = recorder_settled_once(&rig->r, sent, POSTBAG_OK);
    uint32_t unknown = recorder_settled_once(&rig->r, sent, POSTBAG_ELINK);
    assert_int_equal(rig->r.settled, sent);
    assert_int_equal(acked + unknown, sent);
    assert_true(acked <= acked_max);
}

static void test_paho_cut_within_bursts_settles_all(void **state)
{
    struct rig *rig = begin(state);
    for (int i = 0; i < cycles; i++) {
        uint32_t cut_after = (uint32_t)(i * 7 % BURST) + 1;
        broker_tell(rig->broker, "set cutafter=%u", (unsigned)cut_after);
        rig->connect.session_expiry_s = i % 2 ? 60 : 0;
        forget_outcomes(rig);
        unsigned losts = rig->r.losts;
        up(rig);
        uint32_t sent = send_burst(rig);
        assert_true(recorder_wait(&rig->r, &rig->r.losts, losts + 1));
        rig_disconnect(rig, i % 3 == 0);
        assert_int_equal(rig->r.losts, losts + 1);
        /* of those before the cut some PUBACKs may have come */
        expect_settled(rig, sent, cut_after - 1);
    }
    assert_int_equal(rig->r.late, 0);
}

/* Both handles share Paho's threads, lists and heap. */
static void test_paho_cut_of_one_handle_spares_the_other(void **state)
{
    struct rig *rig = begin(state);
    struct rig *other = rig_fake(NULL);
    rig->connect.session_expiry_s = 60;
    broker_tell(rig->broker, "set cutafter=30");
    up(other);
    /* a third, for each takes a second: Paho's thread waits in poll for so
       long before it sees the socket of another handle */
    for (int i = 0; i < cycles; i += 3) {
        forget_outcomes(rig);
        forget_outcomes(other);
        unsigned losts = rig->r.losts;
        up(rig);
        for (uint32_t n = 0; n < BURST; n++) {
            (void)rig_send(rig, "some payload", n);
            assert_int_equal(rig_send(other, "some payload", n), POSTBAG_OK);
        }
        assert_true(recorder_wait(&rig->r, &rig->r.losts, losts + 1));
        rig_disconnect(rig, 0);
        assert_true(recorder_wait(&other->r, &other->r.settled, BURST));
        expect_settled(other, BURST, BURST);
        assert_int_equal(
            recorder_settled_once(&other->r, BURST, POSTBAG_OK), BURST);
    }
    assert_int_equal(other->r.losts, 0);
    rig_free(other);
}

static void test_paho_abort_within_bursts_settles_all(void **state)
{
    struct rig *rig = begin(state);
    for (int i = 0; i < cycles; i++) {
        forget_outcomes(rig);
        up(rig);
        uint32_t sent = send_burst(rig);
        assert_int_equal(sent, BURST);
        rig_disconnect(rig, i % 2 == 0);
        expect_settled(rig, sent, BURST);
    }
    assert_int_equal(rig->r.late, 0);
}

static void test_paho_refusals_within_floods_lose_nothing(void **state)
{
    struct rig *rig = begin(state);
    rig->connect.session_expiry_s = 60;
    up(rig);
    rig_disconnect(rig, 0);
    for (int i = 0; i < 50; i++)
        broker_tell(rig->broker, "publish rig/in x");
    unsigned refusals = (unsigned)cycles;
    for (unsigned i = 0; i < refusals; i++) {
        unsigned losts = rig->r.losts;
        recorder_answer(&rig->r, POSTBAG_EBUSY);
        up(rig);
        (void)send_burst(rig);
        assert_true(recorder_wait(&rig->r, &rig->r.losts, losts + 1));
        rig_disconnect(rig, 1);
        assert_int_equal(rig->r.arrivals, i + 1);
    }
    assert_int_equal(broker_count(rig->broker, " < PUBACK"), 0);
    recorder_answer(&rig->r, POSTBAG_OK);
    up(rig);
    assert_true(broker_wait(rig->broker, " < PUBACK", 50));
    assert_true(recorder_wait(&rig->r, &rig->r.arrivals, refusals + 50));
    rig_disconnect(rig, 0);
    assert_int_equal(rig->r.arrivals, refusals + 50);
    assert_int_equal(rig->r.late, 0);
}

/* The end comes while messages are being handed up, and sends are under way. */
static void test_paho_ends_within_floods_lose_nothing(void **state)
{
    const size_t more = 50;
    struct rig *rig = begin(state);
    rig->connect.session_expiry_s = 60;
    up(rig);
    rig_disconnect(rig, 0);
    for (int i = 0; i < cycles; i++) {
        for (size_t n = 0; n < more; n++)
            broker_tell(rig->broker, "publish rig/in x");
        forget_outcomes(rig);
        unsigned arrivals = rig->r.arrivals;
        up(rig);
        uint32_t sent = send_burst(rig);
        assert_true(recorder_wait(
            &rig->r, &rig->r.arrivals, arrivals + 1 + (unsigned)i));
        rig_disconnect(rig, i % 2 == 0);
        expect_settled(rig, sent, BURST);
    }
    up(rig);
    assert_true(broker_wait(rig->broker, " < PUBACK", more * (size_t)cycles));
    rig_disconnect(rig, 0);
    assert_true(rig->r.arrivals >= more * (size_t)cycles);
    assert_int_equal(rig->r.late, 0);
}

/* Paho's thread writes while we wait a little between sends, until the buffers
   of both ends are full; it must not become a queue in memory instead. */
static int transfers(struct rig *rig, uint64_t *taken)
{
    return rig->transport->ops->transfers(rig->transport, taken);
}

static void test_paho_all_taken_transfers_nothing(void **state)
{
    struct rig *rig = begin(state);
    uint64_t taken = 0;
    up(rig);
    rig_settle(rig, "x", 0, POSTBAG_OK, 0);
    /* the PUBACK carried TCP's acknowledgement of the PUBLISH */
    assert_int_equal(transfers(rig, &taken), 0);
    assert_true(taken > 0);
    rig_disconnect(rig, 0);
    assert_int_equal(transfers(rig, &taken), 0);
}

static void test_paho_stalled_link_takes_no_more(void **state)
{
    static char payload[65536];
    const struct postbag_frame f = {
        .topic = "rig/out",
        .payload = payload,
        .payload_len = sizeof(payload),
    };
    struct rig *rig = begin(state);
    uint64_t taken;
    uint64_t later;
    up(rig);
    broker_pause(rig->broker);
    uint32_t sent = 0;
    int err = POSTBAG_OK;
    while (sent < 1000 && err == POSTBAG_OK) {
        err = rig->transport->ops->send(rig->transport, &f, sent);
        sent += err == POSTBAG_OK;
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(err, POSTBAG_EAGAIN);
    assert_true(sent < 1000);
    assert_int_equal(transfers(rig, &taken), 1);
    assert_int_equal(transfers(rig, &later), 1);
    assert_true(taken > 0);
    assert_int_equal(taken, later);
    rig_disconnect(rig, 1);
    broker_resume(rig->broker);
    expect_settled(rig, sent, 0);
}

/* From now on the kernel reports on what these sockets send, in their error
   queues, where ICMP messages come, too; so many are connected to that port. */
static int have_told(int port)
{
    unsigned what = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    int count = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t len = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
            ntohs(peer.sin_port) == port)
            count += setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &what,
                         sizeof(what)) == 0;
    }
    return count;
}

static void test_paho_message_in_the_error_queue_is_no_end_of_a_link(
    void **state)
{
    struct rig *rig = begin(state);
    up(rig);
    assert_true(have_told(broker_port(rig->broker)) > 0);
    for (uint32_t i = 0; i < 3; i++)
        rig_settle(rig, "x", i, POSTBAG_OK, 0);
    rig_disconnect(rig, 0);
}

static void wait_for_all(void *ctx, const struct postbag_frame *f)
{
    struct rig *rig = ctx;
    (void)f;
    (void)broker_wait(rig->broker, " > PUBLISH", 20);
}

/* Those of QoS 0 need no PUBACK, which would fail and end it; Paho reads on
   although the socket is shut. */
static void test_paho_refused_message_is_the_last_handed_up(void **state)
{
    struct rig *rig = begin(state);
    rig->r.on_arrived = wait_for_all;
    rig->r.on_arrived_ctx = rig;
    recorder_answer(&rig->r, POSTBAG_EIO);
    up(rig);
    for (int i = 0; i < 20; i++)
        broker_tell(rig->broker, "publish0 rig/in x");
    assert_true(recorder_wait(&rig->r, &rig->r.losts, 1));
    assert_true(broker_wait(rig->broker, " closed", 1));
    rig_disconnect(rig, 1);
    assert_int_equal(rig->r.arrivals, 1);
}

static const struct CMUnitTest tests[] = {
    TEST(test_paho_cut_within_bursts_settles_all),
    TEST(test_paho_cut_of_one_handle_spares_the_other),
    TEST(test_paho_abort_within_bursts_settles_all),
    TEST(test_paho_refusals_within_floods_lose_nothing),
    TEST(test_paho_ends_within_floods_lose_nothing),
    TEST(test_paho_all_taken_transfers_nothing),
    TEST(test_paho_stalled_link_takes_no_more),
    TEST(test_paho_message_in_the_error_queue_is_no_end_of_a_link),
    TEST(test_paho_refused_message_is_the_last_handed_up),
};

int main(int argc, char **argv)
{
    if (argc > 1)
        cycles = (int)strtol(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
